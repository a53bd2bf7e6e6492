package store

import (
	"bytes"
	"fmt"
	"io"
)

// chunkSize is how much is usually written at once. Larger contents have a chunk of their own.
const chunkSize = 64 << 10

// chunk is a piece of a segment that is not yet in its file.
type chunk struct {
	segment *segment
	offset  int64
	data    []byte
}

func (c *chunk) reusable() bool { return cap(c.data) == chunkSize }

func (c *chunk) end() int64 { return c.offset + int64(len(c.data)) }

// write writes the chunk to its file. What a failed attempt leaves is written over by the next, or is a
// torn end to the next start.
func (c *chunk) write() error {
	n, err := c.segment.file.WriteAt(c.data, c.offset)
	if err == nil && n < len(c.data) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write %d bytes to %s at offset %d: %w", len(c.data), c.segment.name, c.offset, err)
	}
	return nil
}

// chunks is a run of chunks, in the order of the log. Each is larger than nothing.
type chunks []chunk

func (cs chunks) size() int64 {
	var n int64
	for i := range cs {
		n += int64(len(cs[i].data))
	}
	return n
}

// find returns the bytes at a place of a segment, which lie in one chunk, or nil. They are a copy if
// the chunk will be used again.
func (cs chunks) find(g *segment, offset, size int64) []byte {
	for i := range cs {
		c := &cs[i]
		if c.segment != g || offset < c.offset || offset+size > c.end() {
			continue
		}
		b := c.data[offset-c.offset:][:size:size]
		if c.reusable() {
			b = bytes.Clone(b)
		}
		return b
	}
	return nil
}

// tail is the end of a log file, to which records are appended in memory.
type tail struct {
	segment *segment
	pending chunks
	notes   bool // whether what is written is also synced before more is written
	noted   bool // whether the last record says that all before it is synced
	sealer  sealer
}

// reserve makes room for a record in one chunk of the segment.
func (t *tail) reserve(size int64, free *freeList) *chunk {
	if n := len(t.pending); n > 0 {
		last := &t.pending[n-1]
		if last.segment == t.segment && int64(cap(last.data)-len(last.data)) >= size {
			return last
		}
	}
	t.pending = append(t.pending, chunk{t.segment, t.segment.end, free.get(size)})
	return &t.pending[len(t.pending)-1]
}

// begin appends a record but for its contents, and returns its chunk. The caller appends the contents
// to that, or attaches them if they are larger than chunkSize.
func (t *tail) begin(operations []byte, sum uint32, contents int64, seq uint64, free *freeList) *chunk {
	if len(t.pending) == 0 && t.notes && !t.noted {
		t.note(opSynced, seq, free)
	}
	t.noted = false
	h := recordHeader{operations: uint32(len(operations)), contents: uint32(contents), seq: seq}
	return t.write(h, operations, sum, free)
}

// write appends a record without its contents.
func (t *tail) write(h recordHeader, operations []byte, sum uint32, free *freeList) *chunk {
	h.crc = t.sealer.sum(h, sum, t.segment.place())
	size := h.size()
	if h.contents > chunkSize {
		size -= int64(h.contents)
	}
	c := t.reserve(size, free)
	c.data = h.appendTo(c.data)
	c.data = append(c.data, operations...)
	t.segment.end += h.size()
	return c
}

// attach makes bytes the contents of the record that was begun last.
func (t *tail) attach(contents []byte) {
	t.pending = append(t.pending, chunk{t.segment, t.segment.end - int64(len(contents)), contents})
}

// note appends a record that says that all before it is synced. It is true by the time it is
// written, because nothing is written before what came earlier is synced.
func (t *tail) note(kind operationKind, seq uint64, free *freeList) {
	operations := []byte{byte(kind)}
	h := recordHeader{operations: 1, seq: seq}
	t.write(h, operations, checksum(operations), free)
	t.segment.dead += h.size()
	t.noted = true
}

// wantsNote says whether the last record is one that the next note would promise to be synced.
func (t *tail) wantsNote() bool { return t.notes && !t.noted && t.segment.end > headerSize }

// take removes and returns what is pending.
func (t *tail) take() chunks {
	taken := t.pending
	t.pending = nil
	return taken
}

// freeList keeps a few buffers for chunks.
type freeList struct{ buffers [][]byte }

const maxFreeBuffers = 16

func (f *freeList) get(size int64) []byte {
	if size > chunkSize {
		return make([]byte, 0, size)
	}
	if n := len(f.buffers); n > 0 {
		b := f.buffers[n-1]
		f.buffers = f.buffers[:n-1]
		return b
	}
	return make([]byte, 0, chunkSize)
}

func (f *freeList) put(cs chunks) {
	for i := range cs {
		if cs[i].reusable() && len(f.buffers) < maxFreeBuffers {
			f.buffers = append(f.buffers, cs[i].data[:0])
		}
	}
}

package store

import (
	"bytes"
	"fmt"
	"io"
)

// chunkSize is the usual size of a write. Larger contents have their own chunk.
const chunkSize = 64 << 10

// chunk is a piece of a segment that is not yet in its file.
type chunk struct {
	segment *segment
	offset  int64
	data    []byte
}

func (c *chunk) reusable() bool { return cap(c.data) == chunkSize }

func (c *chunk) end() int64 { return c.offset + int64(len(c.data)) }

// write writes the chunk to its file. A failed write is overwritten by the next attempt, or cut off by the
// next start.
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

// chunks are in the order of the log. None is empty.
type chunks []chunk

func (cs chunks) size() int64 {
	var n int64
	for i := range cs {
		n += int64(len(cs[i].data))
	}
	return n
}

// find returns bytes of a segment that are within one chunk, or nil. It copies them if the chunk will be
// reused.
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
	notes   bool // everything is synced before more is written, so that notes are true
	noted   bool // the last record is a note
	hasher  hasher
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

// begin appends a record without its contents, and returns its chunk. The caller appends the contents to
// the chunk, or attaches them if they are larger than chunkSize.
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
	h.crc = t.hasher.sum(h, sum, t.segment.place())
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

// attach adds the contents of the last record.
func (t *tail) attach(contents []byte) {
	t.pending = append(t.pending, chunk{t.segment, t.segment.end - int64(len(contents)), contents})
}

// note appends a note: everything before it is synced. That is true when the note is written, because
// nothing is written before everything earlier is synced.
func (t *tail) note(kind operationKind, seq uint64, free *freeList) {
	operations := []byte{byte(kind)}
	h := recordHeader{operations: 1, seq: seq}
	t.write(h, operations, checksum(operations), free)
	t.segment.dead += h.size()
	t.noted = true
}

// wantsNote reports whether there are records after the last note.
func (t *tail) wantsNote() bool { return t.notes && !t.noted && t.segment.end > headerSize }

// take removes and returns what is pending.
func (t *tail) take() chunks {
	taken := t.pending
	t.pending = nil
	return taken
}

// freeList has some buffers for chunks.
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

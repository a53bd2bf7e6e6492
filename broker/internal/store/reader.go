package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxDamage is how many missing files are listed.
const maxDamage = 100

// logReader reads all segments of a directory. It changes nothing.
type logReader struct {
	fs            FS
	extent        extent
	index         *messageIndex
	replay        *replay
	every         bool // read contents of indexed segments too
	salvage       bool // continue after damage
	damage        []*CorruptError
	headerless    uint64   // the last segment, if it has no header because of a crash
	fresh         bool     // the directory was empty
	torn          int64    // bytes of an unfinished write after the last sound record
	orphanIndexes []string // indexes without segment
	records       int

	unreadable []uint64 // segments whose headers are bad
}

func (s *Store) newLogReader(queues map[QueueID]bool, create func(Found) *Message) *logReader {
	return &logReader{fs: s.fs, extent: s.extent, index: &s.index, replay: newReplay(&s.index, queues, create)}
}

func (r *logReader) empty() bool { return len(r.index.segments) == 0 }

// read fills the index and collects damage. The error is for a file that cannot be read.
func (r *logReader) read(ctx context.Context) error {
	if err := r.open(); err != nil {
		return err
	}
	for i, g := range r.index.segments {
		if i < len(r.index.segments)-1 {
			g.sealed = true
			if next := r.index.segments[i+1].header; next.Number == g.header.Number+1 {
				g.end = next.Previous
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.readSegment(g); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	// Damage to segments that were about to be removed does not matter.
	r.damage = slices.DeleteFunc(r.damage, func(d *CorruptError) bool {
		n, ok := numberOf(d.File, segmentSuffix)
		return ok && n < r.replay.first
	})
	r.findMissing()
	return nil
}

// open opens all segments and reads their headers.
func (r *logReader) open() error {
	names, err := r.fs.List()
	if err != nil {
		return err
	}
	var numbers []uint64
	indexes := make(map[uint64]bool)
	for _, name := range names {
		if n, ok := numberOf(name, segmentSuffix); ok {
			numbers = append(numbers, n)
		} else if n, ok := numberOf(name, indexSuffix); ok {
			indexes[n] = true
		}
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		delete(indexes, n)
		if err := r.openSegment(n, i == len(numbers)-1); err != nil {
			return err
		}
	}
	for n := range indexes {
		r.orphanIndexes = append(r.orphanIndexes, indexName(n))
	}
	return nil
}

func (r *logReader) openSegment(number uint64, last bool) error {
	g := newSegment(segmentName(number), header{})
	f, err := r.fs.Open(g.name)
	if err != nil {
		return err
	}
	g.file = f
	size, err := f.Size()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	sound, err := readHeader(g, segmentMagic, number)
	if corrupt, ok := errors.AsType[*CorruptError](err); ok {
		if last && size <= headerSize && number > r.extent.Segment {
			r.headerless = number
		} else {
			r.damage = append(r.damage, corrupt)
			r.unreadable = append(r.unreadable, number)
		}
		return f.Close()
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if size > maxSegmentEnd {
		r.damage = append(r.damage, &CorruptError{File: g.name, Offset: maxSegmentEnd, Problem: "the segment is too large"})
		size = maxSegmentEnd
	}
	if !sound && r.every {
		r.damage = append(r.damage, &CorruptError{File: g.name, Problem: "one of the two copies of the header does not match"})
	}
	g.end = size
	r.index.segments = append(r.index.segments, g)
	return nil
}

// readHeader reads the header of an open file into the segment.
func readHeader(g *segment, magic string, number uint64) (sound bool, err error) {
	b := make([]byte, headerSize)
	if n, err := g.file.ReadAt(b, 0); n < len(b) {
		if errors.Is(err, io.EOF) {
			return false, &CorruptError{File: g.name, Problem: "the file ends within its header"}
		}
		return false, fmt.Errorf("read %s: %w", g.name, err)
	}
	g.header, sound, err = decodeHeader(b, g.name, magic, number)
	return sound, err
}

// readSegment replays a segment, from its index if possible.
func (r *logReader) readSegment(g *segment) error {
	size, err := g.file.Size()
	if err != nil {
		return err
	}
	if want := max(g.end, r.extent.endOf(g.header.Number)); size < want {
		r.damage = append(r.damage, cutOff(g.name, size, want))
		g.end = size
	}
	g.written = g.end
	r.replay.seq = max(r.replay.seq, g.header.Seq)
	if g.sealed && !r.every {
		if records, ok := readIndex(r.fs, g); ok {
			g.indexed = true
			r.readIndexed(g, records)
			return nil
		}
	}
	return r.scanSegment(g, headerSize)
}

// scanSegment replays a segment from its own records.
func (r *logReader) scanSegment(g *segment, from int64) error {
	records := recordReader{
		segment: g,
		salvage: r.salvage,
		apply: func(sc *scanner) string {
			problem := r.replay.apply(g, sc.header, sc.offset, sc.operations, sc.badContents)
			if problem == "" {
				r.records++
			}
			return problem
		},
		// All of a segment is synced before the next one begins, even if that has no header yet.
		mayEnd: func(offset int64) bool {
			return !g.sealed && r.headerless == 0 && r.extent.mayEnd(g.header.Number, offset)
		},
	}
	err := records.read(from)
	g.written = g.end
	r.torn = max(r.torn, records.torn)
	r.damage = append(r.damage, records.damage...)
	return err
}

// readIndexed replays the records of an index. Its checksum has been checked.
func (r *logReader) readIndexed(g *segment, records []byte) {
	for offset := int64(headerSize); len(records) >= recordHeaderSize; r.records++ {
		h := decodeRecordHeader(records)
		end := recordHeaderSize + int64(h.operations)
		if end > int64(len(records)) {
			return
		}
		if problem := r.replay.apply(g, h, offset, records[recordHeaderSize:end], nil); problem != "" {
			r.damage = append(r.damage, &CorruptError{File: g.name, Offset: offset, Problem: problem})
			return
		}
		records = records[end:]
		offset += h.size()
	}
}

// removeHeaderless removes the last segment if it has no header.
func (r *logReader) removeHeaderless() error {
	if r.headerless == 0 {
		return nil
	}
	return r.fs.Remove(segmentName(r.headerless))
}

// findMissing adds the missing segments to the damage.
func (r *logReader) findMissing() {
	present := slices.Clone(r.unreadable)
	for _, g := range r.index.segments {
		present = append(present, g.header.Number)
	}
	if r.headerless > 0 {
		present = append(present, r.headerless)
	}
	slices.Sort(present)
	want := max(r.replay.first, 1)
	for _, n := range append(present, r.extent.Segment+1) {
		for ; want < n && len(r.damage) < maxDamage; want++ {
			r.damage = append(r.damage, &CorruptError{File: segmentName(want), Problem: "the file is missing"})
		}
		want = max(want, n+1)
	}
}

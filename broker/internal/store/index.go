package store

import (
	"bytes"
	"encoding/binary"
)

// The index of a sealed segment has its records without their contents, so that a start need not read
// the contents. If an index is missing or damaged, the segment itself is read.
//
//	header of the segment
//	end     u64  of the segment
//	records
//	crc     u32  of all of the above
const (
	indexHead = headerSize + 8
	indexMin  = indexHead + 4
)

// unindexed is how many of the newest segments have no index: if messages are short-lived, those
// segments will soon be removed.
const unindexed = 3

// readIndex returns the records in the index of a segment, and false if it has no sound index.
func readIndex(fs FS, g *segment) ([]byte, bool) {
	f, err := fs.Open(indexName(g.header.Number))
	if err != nil {
		return nil, false
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size < indexMin || size > indexMin+g.end {
		return nil, false
	}
	b := make([]byte, size)
	if n, _ := f.ReadAt(b, 0); n < len(b) {
		return nil, false
	}
	body, sum := b[:size-4], binary.LittleEndian.Uint32(b[size-4:])
	if checksum(body) != sum || !bytes.Equal(body[:indexHead], indexHeader(g)) {
		return nil, false
	}
	return body[indexHead:], true
}

func indexHeader(g *segment) []byte {
	return binary.LittleEndian.AppendUint64(g.header.encode(), uint64(g.end))
}

// buildIndex reads a sealed segment and returns its index.
func buildIndex(g *segment) ([]byte, error) {
	b := indexHeader(g)
	sc := scan(g.file, g.header.Salt, headerSize, g.end)
	for sc.next() {
		if len(sc.badContents) > 0 {
			return nil, &CorruptError{File: g.name, Offset: sc.offset, Problem: "checksum of a content does not match"}
		}
		b = sc.header.appendTo(b)
		b = append(b, sc.operations...)
	}
	if sc.err != nil {
		return nil, sc.err
	}
	if sc.problem != "" {
		return nil, sc.corrupt(g.name)
	}
	return binary.LittleEndian.AppendUint32(b, checksum(b)), nil
}

// indexSegment writes the index of a sealed segment. It is not synced: if a power failure damages it, the
// segment is read.
func (s *Store) indexSegment(g *segment) error {
	b, err := buildIndex(g)
	if err != nil {
		return err
	}
	name := indexName(g.header.Number)
	notSynced := func(File) error { return nil }
	if err := writeFile(s.fs, name, b, notSynced); err != nil {
		s.removeFile(name)
		return err
	}
	s.options.Crash(pointIndexed)
	return nil
}

// indexNext writes the oldest missing index. It returns false if none is missing. A segment without index
// is read completely at the next start.
func (s *Store) indexNext() bool {
	s.mu.Lock()
	var g *segment
	for _, candidate := range s.index.segments[:max(len(s.index.segments)-unindexed, 0)] {
		if candidate.sealed && !candidate.indexed {
			g = candidate
			g.indexed = true
			break
		}
	}
	s.mu.Unlock()
	if g == nil {
		return false
	}
	if err := s.indexSegment(g); err != nil {
		s.options.Logger.Error("cannot index a segment; the next start reads it completely", "file", g.name, "error", err)
	}
	return true
}

package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The index of a sealed segment is its records without their contents, so that a start need not read
// those. It is a copy: if it is missing or not sound, the segment itself is read.
//
//	header of the segment
//	end     u64  of the segment
//	records
//	crc     u32  of all of the above
const (
	indexHead = headerSize + 8
	indexMin  = indexHead + 4
)

// unindexed is how many of the newest segments have no index: where messages do not stay for long,
// those will be gone soon.
const unindexed = 3

// index reads the records of an index one after the other.
type index struct {
	rest       []byte
	header     recordHeader
	offset     int64 // of the record in the segment
	nextOffset int64
	operations []byte
}

// readIndex reads the index of a segment; false if it has none that is sound.
func readIndex(fs FS, g *segment) (*index, bool) {
	f, err := fs.Open(indexName(g.header.number))
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
	return &index{rest: body[indexHead:], nextOffset: headerSize}, true
}

func indexHeader(g *segment) []byte {
	return binary.LittleEndian.AppendUint64(g.header.encode(), uint64(g.end))
}

// next moves to the next record. The checksum of the whole has been checked.
func (ix *index) next() bool {
	if len(ix.rest) < recordHeaderSize {
		return false
	}
	ix.header = decodeRecordHeader(ix.rest)
	ix.offset = ix.nextOffset
	ix.nextOffset += ix.header.size()
	end := recordHeaderSize + int64(ix.header.operations)
	if end > int64(len(ix.rest)) {
		return false
	}
	ix.operations, ix.rest = ix.rest[recordHeaderSize:end], ix.rest[end:]
	return true
}

// buildIndex reads a sealed segment and returns its index.
func buildIndex(g *segment) ([]byte, error) {
	b := indexHeader(g)
	sc := scan(g.file, g.header.salt, headerSize, g.end)
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
		return nil, &CorruptError{File: g.name, Offset: sc.offset, Problem: sc.problem}
	}
	return binary.LittleEndian.AppendUint32(b, checksum(b)), nil
}

// indexSegment writes the index of a sealed segment. It is not synced: if a power cut spoils it, the
// segment is read.
func (s *Store) indexSegment(g *segment) error {
	b, err := buildIndex(g)
	if err != nil {
		return err
	}
	name := indexName(g.header.number)
	f, err := s.fs.Create(name)
	if err != nil {
		return err
	}
	n, err := f.WriteAt(b, 0)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err := errors.Join(err, f.Close()); err != nil {
		s.removeFile(name)
		return fmt.Errorf("write %s: %w", name, err)
	}
	s.options.Crash(pointIndexed)
	return nil
}

// indexNext writes the oldest index that is missing; false if there is none. A segment without index
// is read in full at the next start.
func (s *Store) indexNext() bool {
	s.mu.Lock()
	var g *segment
	for _, candidate := range s.ledger.segments[:max(len(s.ledger.segments)-unindexed, 0)] {
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
		s.options.Logger.Error("cannot index a segment; it is read in full at the next start", "file", g.name, "error", err)
	}
	return true
}

package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// A sync takes about twice as long if the file has become longer, because its size and the place of the
// new bytes are synced too. So there are zeros after the end of the log, and the next groups overwrite
// them.
const (
	minZeros   = 64 << 10  // written to a new log
	maxZeros   = 512 << 10 // written at a time
	largeGroup = 64 << 10  // for groups of this size, zeros would cost more than they save
	zerosAlign = 4 << 10   // the zeros do not end within a block of the disk
)

var zeros [64 << 10]byte

// writeZerosAhead writes zeros after a group that has made its segment longer. The caller syncs.
func (s *Store) writeZerosAhead(g *segment, size int64) error {
	from := g.written
	if from <= g.zerosEnd || size >= largeGroup || s.options.Sync == SyncNever {
		return nil
	}
	to := from + min(max(from, minZeros), maxZeros)
	to = min(to-to%zerosAlign, s.options.SegmentSize)
	g.zerosEnd = to
	for from < to {
		n, err := g.file.WriteAt(zeros[:min(to-from, int64(len(zeros)))], from)
		if err != nil && !isDiskFull(err) {
			return fmt.Errorf("write zeros to %s at offset %d: %w", g.name, from, err)
		}
		if err != nil {
			return nil // the log continues without them
		}
		from += int64(n)
	}
	return nil
}

// cutZeros truncates a segment to its records. The caller syncs.
func (s *Store) cutZeros(g *segment) error {
	if g.zerosEnd <= g.end {
		return nil
	}
	g.zerosEnd = 0
	return g.truncate()
}

// zerosFrom returns where the trailing zeros between two offsets of a file begin.
func zerosFrom(f File, from, to int64) (int64, error) {
	b := make([]byte, min(to-from, int64(len(zeros))))
	for to > from {
		b = b[:min(int64(len(b)), to-from)]
		at := to - int64(len(b))
		if _, err := f.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read at offset %d: %w", at, err)
		}
		if rest := bytes.TrimRight(b, "\x00"); len(rest) > 0 {
			return at + int64(len(rest)), nil
		}
		to = at
	}
	return from, nil
}

package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// A write that makes a file longer takes the disk about twice as long to sync as one that does not, because the size
// and the place of the new bytes are synced with them. So behind the end of the log there are zeros, written many at a time, over
// which the next groups are written.
const (
	// minBlank is what a log that has just begun gets.
	minBlank = 64 << 10
	// maxBlank is what a log that grows gets at a time.
	maxBlank = 512 << 10
	// blankGroup is from where a group takes so long to write that zeros would cost more than they save.
	blankGroup = 64 << 10
	// blankAlign keeps the zeros from ending within a block of the disk.
	blankAlign = 4 << 10
)

// zeros is what a blank is made of.
var zeros [64 << 10]byte

// blankAhead writes zeros behind a group that has made its segment longer. The caller syncs.
func (s *Store) blankAhead(g *segment, size int64) error {
	from := g.written
	if from <= g.blank || size >= blankGroup || s.options.Sync == SyncNever {
		return nil
	}
	to := from + min(max(from, minBlank), maxBlank)
	to = min(to-to%blankAlign, s.options.SegmentSize)
	g.blank = to
	for from < to {
		n, err := g.file.WriteAt(zeros[:min(to-from, int64(len(zeros)))], from)
		if err != nil && !isDiskFull(err) {
			return fmt.Errorf("write zeros to %s at offset %d: %w", g.name, from, err)
		}
		if err != nil {
			return nil // the log goes on without
		}
		from += int64(n)
	}
	return nil
}

// cutBlank ends a segment where its records end. The caller syncs.
func (s *Store) cutBlank(g *segment) error {
	if g.blank <= g.end {
		return nil
	}
	g.blank = 0
	return g.truncate()
}

// blankFrom returns where the zeros begin at the end of what a file has between two offsets.
func blankFrom(f File, from, to int64) (int64, error) {
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

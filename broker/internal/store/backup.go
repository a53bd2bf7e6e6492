package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

var (
	// ErrBackupRunning is returned if a backup is in progress. One at a time keeps the space that the files
	// need bounded.
	ErrBackupRunning = errors.New("another backup is in progress: wait for its end, or cancel it")
	// ErrBackupSpace is returned if a backup is given up because the disk is full.
	ErrBackupSpace = errors.New("the disk is nearly full, and the backup keeps files that the broker could remove otherwise: free some space, or write the backup faster, and try again")
)

// snapshot is everything in a log at one moment.
type snapshot struct {
	definitions []Definition
	seq         uint64 // of the next message
	parts       []part
}

// part is the beginning of a segment. Only the last one may become longer.
type part struct {
	segment *segment
	end     int64
}

// Backup writes everything that was committed before to w, in a form that Restore reads. It is the log at one
// moment, which is between the call and the first write. The store can be used meanwhile, and does not wait
// for w. The files of the log are kept until they are written to w, unless the disk is full or ctx ends.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	if err := s.backup(ctx, w); err != nil {
		return fmt.Errorf("back up the store: %w", err)
	}
	return nil
}

func (s *Store) backup(ctx context.Context, w io.Writer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	snap, p, err := s.snapshot()
	if err != nil {
		return err
	}
	defer s.endPin(p, nil)
	// A write to w may block for as long as it likes, and the files need not wait for that.
	released := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(released)
		s.endPin(p, ctx.Err())
	})
	defer func() {
		if !stop() {
			<-released
		}
	}()
	last := snap.parts[len(snap.parts)-1]
	if err := s.await(ctx, func() bool { return last.segment.written >= last.end }); err != nil {
		return err
	}
	open := func(g *segment) (File, error) {
		s.advancePin(p, g.header.Number)
		s.mu.Lock()
		defer s.mu.Unlock()
		return g.file, p.err
	}
	check := func() error {
		if err := s.pinError(p); err != nil {
			return err
		}
		return ctx.Err()
	}
	return snap.write(w, open, check)
}

// snapshot returns the log at this moment, and pins its segments.
func (s *Store) snapshot() (*snapshot, *pin, error) {
	s.mu.Lock()
	var err error
	switch {
	case s.err != nil:
		err = s.err
	case s.closing || !s.open():
		err = ErrClosed
	case s.pin != nil:
		err = ErrBackupRunning
	}
	if err != nil {
		s.mu.Unlock()
		return nil, nil, err
	}
	// The log may end with the mark of the last clean stop, which would mean that nothing was delivered since.
	// This record, which discards nothing, comes after it.
	first := s.index.segments[0].header.Number
	operations := appendDiscard(nil, first)
	s.appendRecord(operations, checksum(operations), 0, 0)
	_, wake := s.committed()
	snap := s.snapshotOf(s.index.segments)
	p := &pin{first: first, last: s.log.segment.header.Number}
	s.pin = p
	s.unlock(wake)
	return snap, p, nil
}

// snapshotOf returns some segments and all definitions. The mutex is held, or the store is not in use.
func (s *Store) snapshotOf(segments []*segment) *snapshot {
	snap := &snapshot{seq: s.seq, definitions: make([]Definition, 0, len(s.values))}
	for key, value := range s.values {
		snap.definitions = append(snap.definitions, Definition{key, value})
	}
	for _, g := range segments {
		snap.parts = append(snap.parts, part{g, g.end})
	}
	return snap
}

// Backup writes everything in a directory that no store has open to w, as the method of the same name does.
func Backup(ctx context.Context, dir FS, w io.Writer) error {
	return examine(ctx, dir, "back up", lockToRead, func(x *examination) error {
		r := x.report()
		if len(r.Damage) > 0 {
			return fmt.Errorf("repair it first: %w", r.Damage[0])
		}
		if x.log.empty() {
			return ErrNoStore
		}
		s := x.store
		s.seq = max(s.seq, x.log.replay.seq)
		needed := slices.DeleteFunc(slices.Clone(s.index.segments), func(g *segment) bool { return g.header.Number < x.log.replay.first })
		open := func(g *segment) (File, error) { return g.file, nil }
		return s.snapshotOf(needed).write(w, open, ctx.Err)
	})
}

// write writes an archive. It calls open before it reads a segment, and check before each read.
func (snap *snapshot) write(w io.Writer, open func(*segment) (File, error), check func() error) error {
	a := newArchiveWriter(w)
	err := snap.writeFiles(a, open, check)
	switch {
	case err == nil:
		err = a.finish()
	case a.err == nil && !isCancelled(err):
		// If that fails too, the archive is incomplete anyway.
		_ = a.giveUp(err.Error())
	}
	if a.err != nil {
		return fmt.Errorf("write the backup: %w", a.err)
	}
	return err
}

func isCancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// writeFiles writes the definitions last: a directory without them cannot be opened.
func (snap *snapshot) writeFiles(a *archiveWriter, open func(*segment) (File, error), check func() error) error {
	for _, p := range snap.parts {
		f, err := open(p.segment)
		if err != nil {
			return err
		}
		if err := p.write(a, f, check); err != nil {
			return err
		}
	}
	return snap.writeDefinitions(a, check)
}

// write writes the segment, and compares its checksums on the way: a backup that cannot be restored is worse
// than none.
func (p part) write(a *archiveWriter, f File, check func() error) error {
	g := p.segment
	if err := a.begin(g.name); err != nil {
		return err
	}
	if _, err := a.Write(g.header.encode()); err != nil {
		return err
	}
	from := &copyingReader{from: f, to: a, check: check}
	sc := scan(from, g.header.Salt, headerSize, p.end)
	for sc.next() {
		if len(sc.badContents) > 0 {
			return &CorruptError{File: g.name, Offset: sc.offset, Problem: "checksum of a content does not match"}
		}
	}
	switch err := check(); {
	case err != nil: // a file may have been closed because of it
		return err
	case from.err != nil:
		return fmt.Errorf("%s: %w", g.name, from.err)
	case sc.err != nil:
		return fmt.Errorf("%s: %w", g.name, sc.err)
	case sc.problem != "":
		return sc.corrupt(g.name)
	}
	return nil
}

// copyingReader copies what is read to a writer. It must be read in order.
type copyingReader struct {
	from  io.ReaderAt
	to    io.Writer
	check func() error
	err   error
}

func (r *copyingReader) ReadAt(b []byte, offset int64) (int, error) {
	if r.err == nil {
		r.err = r.check()
	}
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.from.ReadAt(b, offset)
	if _, failed := r.to.Write(b[:n]); failed != nil {
		r.err = failed
		return 0, failed
	}
	return n, err
}

// writeDefinitions writes a file of definitions.
func (snap *snapshot) writeDefinitions(a *archiveWriter, check func() error) error {
	slices.SortFunc(snap.definitions, func(x, y Definition) int { return cmp.Compare(x.Key, y.Key) })
	h := newHeader(definitionsMagic, 0, 0, snap.seq)
	if err := a.begin(definitionsName); err != nil {
		return err
	}
	if _, err := a.Write(h.encode()); err != nil {
		return err
	}
	at := place{h.Salt, headerSize}
	var hasher hasher
	var operations, record []byte
	for _, d := range snap.definitions {
		if err := check(); err != nil {
			return err
		}
		operations = appendPut(operations[:0], d.Key, d.Value)
		head := recordHeader{operations: uint32(len(operations)), seq: snap.seq}
		head.crc = hasher.sum(head, checksum(operations), at)
		record = append(head.appendTo(record[:0]), operations...)
		at.offset += int64(len(record))
		if _, err := a.Write(record); err != nil {
			return err
		}
	}
	return nil
}

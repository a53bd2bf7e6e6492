package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Found is what is known of a stored message without reading its content.
type Found struct {
	Meta
	Properties, Body int // their sizes
}

// Recover reads the log. It is called once, before the first commit.
//
// Create is called for each message as the log is read and returns where its handle lives, or nil to
// drop it; many of these messages turn out to be settled. Hold is called when all was read, for each
// message that is left and each queue that holds it, in the order of the messages' numbers. Neither
// may call the store. What is held by queues that are not among those given is dropped; nil stands
// for all queues.
//
// A *CorruptError says that the log is not what was written, other than by a crash: nothing is
// changed then, and Repair can set aside what is bad.
func (s *Store) Recover(queues map[QueueID]bool, create func(Found) *Message, hold func(m *Message, h Hold)) error {
	s.options.Crash(pointRecovering)
	r := s.newLogReader(queues, create)
	if err := r.read(context.Background()); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	if len(r.damage) > 0 {
		return fmt.Errorf("read the log: %w", r.damage[0])
	}
	if r.empty() && len(s.values) > 0 {
		return fmt.Errorf("read the log: %w", &CorruptError{File: segmentName(1), Problem: "the file is missing, and there are definitions"})
	}
	s.options.Crash(pointReplayed)
	if err := s.repairTail(r); err != nil {
		return fmt.Errorf("repair the log after a crash: %w", err)
	}
	s.options.Crash(pointRecovered)
	s.mu.Lock()
	s.clean = r.fresh || r.replay.clean && r.torn == 0 // asked for while the messages are handed over
	s.mu.Unlock()
	s.handOver(hold)
	s.start(r)
	return nil
}

// start starts the goroutines.
func (s *Store) start(r *logReader) {
	s.mu.Lock()
	s.seq = max(s.seq, r.replay.seq)
	s.queue = r.replay.queue
	s.log.segment = s.ledger.active()
	s.started = true
	s.spaceChecked = -s.options.DiskReserve
	s.mu.Unlock()
	s.committer.Go(s.commitGroups)
	s.keeper.Go(s.tendLog)
	signal(s.tend)
}

// repairTail cuts off what a crash left, removes what is not needed, and makes the rest durable: what a
// killed process wrote may not be on disk yet, and it will be noted as synced.
func (s *Store) repairTail(r *logReader) error {
	if r.unborn > 0 {
		if err := s.fs.Remove(segmentName(r.unborn)); err != nil {
			return err
		}
	}
	if r.empty() {
		r.fresh = true
		return s.beginSegment(newHeader(segmentMagic, 1, 0, s.seq))
	}
	last := s.ledger.active()
	if err := s.cutTail(last, r.torn); err != nil {
		return err
	}
	if last.header.version < formatVersion {
		// An older program would not know all that follows, and is to see that by the version.
		last.sealed = true
		if err := s.beginSegment(newHeader(segmentMagic, last.header.number+1, last.end, r.replay.seq)); err != nil {
			return err
		}
	}
	s.forget(r.replay.first)
	for _, name := range r.orphans {
		s.removeFile(name)
	}
	s.removeFile(newExtentName)
	s.removeFile(compactingName) // what it says of the log is not true any more
	return s.fs.Sync()
}

// beginSegment has the log go on in a new file, durable.
func (s *Store) beginSegment(h header) error {
	g := newSegment(segmentName(h.number), h)
	f, err := s.create(g.name, g.header)
	if err != nil {
		return err
	}
	g.file, g.written = f, headerSize
	s.ledger.segments = append(s.ledger.segments, g)
	return nil
}

// cutTail ends a file at its last sound record, durable.
func (s *Store) cutTail(g *segment, torn int64) error {
	if torn > 0 {
		s.options.Logger.Info("cut off what a crash left unfinished", "file", g.name, "offset", g.end, "bytes", torn)
	}
	size, err := g.file.Size()
	if err != nil {
		return fmt.Errorf("size of %s: %w", g.name, err)
	}
	if size > g.end {
		if err := g.truncate(); err != nil {
			return err
		}
	}
	g.written = g.end
	if err := rewrite(g); err != nil {
		return err
	}
	return s.sync(g)
}

// rewrite writes all that follows the last note again, because nobody has said that it is on disk. It may not be: when a sync fails,
// the operating system takes the pages that it could not write for written, so that they can be read until they leave its memory,
// and the next sync, of another process too, succeeds without writing them.
func rewrite(g *segment) error {
	if g.noted == 0 {
		if _, err := g.file.WriteAt(g.header.encode(), 0); err != nil {
			return fmt.Errorf("write the header of %s again: %w", g.name, err)
		}
	}
	from := max(g.noted, headerSize)
	b := make([]byte, min(g.end-from, scanBuffer))
	for at := from; at < g.end; {
		b = b[:min(int64(len(b)), g.end-at)]
		if _, err := g.file.ReadAt(b, at); err != nil {
			return fmt.Errorf("read %s at offset %d: %w", g.name, at, err)
		}
		n, err := g.file.WriteAt(b, at)
		if err != nil {
			return fmt.Errorf("write %s again at offset %d: %w", g.name, at, err)
		}
		at += int64(n)
	}
	// It may have left memory since it was checked.
	sc := scan(g.file, g.header.salt, from, g.end)
	for sc.next() {
		if len(sc.badContents) > 0 {
			sc.problem = "checksum of a content does not match"
			break
		}
	}
	if sc.problem != "" {
		return fmt.Errorf("write the end of %s again: it has changed since it was read; start again: %w", g.name, sc.corrupt(g.name))
	}
	return sc.err
}

// handOver tells the caller who holds what.
func (s *Store) handOver(hold func(*Message, Hold)) {
	all := make([]*Message, 0, s.ledger.messages)
	for _, g := range s.ledger.segments {
		for m := g.first; m != nil; m = m.next {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b *Message) int { return cmp.Compare(a.seq, b.seq) })
	for _, m := range all {
		for h := range m.holders {
			n := s.ledger.notes[claim{m, h.queue}]
			hold(m, Hold{Queue: h.queue, Deliveries: int(h.deliveries), Until: n.until, Death: n.death, Copied: slices.Clone(n.copied)})
		}
	}
}

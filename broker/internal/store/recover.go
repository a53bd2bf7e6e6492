package store

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
)

// Found is a stored message, without its content.
type Found struct {
	Meta
	Properties, Body int // their sizes
}

// Recover reads the log. It must be called once, before the first commit.
//
// While it reads the log, it calls create for each message, also for messages that turn out to be
// settled. Create returns the handle of the message, or nil to drop it. After reading, it calls hold for
// each remaining message and each queue that holds it, in the order of the messages' numbers. Neither may
// call the store. Messages of queues that are not in the given set are dropped; nil means all queues.
//
// The error is a *CorruptError if the log is not what was written, for other reasons than a crash. Then
// nothing is changed, and Repair can set aside the damaged files.
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
	s.clean = r.fresh || r.replay.clean && r.torn == 0 // hold may call Clean
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
	s.log.segment = s.index.active()
	s.started = true
	s.spaceChecked = -s.options.DiskReserve
	s.mu.Unlock()
	s.committer.Go(s.commitGroups)
	s.cleaner.Go(s.runCleaner)
	signal(s.wakeCleaner)
}

// repairTail cuts off an unfinished write and removes files that are not needed. It syncs the rest: what a
// killed process has written may not be on disk, and the next note would claim that it is.
func (s *Store) repairTail(r *logReader) error {
	if err := r.removeHeaderless(); err != nil {
		return err
	}
	if r.empty() {
		r.fresh = true
		return s.beginSegment(newHeader(segmentMagic, 1, 0, s.seq))
	}
	last := s.index.active()
	if err := s.cutTail(last, r.torn); err != nil {
		return err
	}
	if last.header.Version < formatVersion {
		// An older program may not know all that follows. It sees that by the version of the new segment.
		last.sealed = true
		if err := s.beginSegment(newHeader(segmentMagic, last.header.Number+1, last.end, r.replay.seq)); err != nil {
			return err
		}
	}
	s.forget(r.replay.first)
	for _, name := range r.orphanIndexes {
		s.removeFile(name)
	}
	s.removeFile(newExtentName)
	s.removeFile(compactingName) // the log is open again
	return s.fs.Sync()
}

// beginSegment continues the log in a new file.
func (s *Store) beginSegment(h header) error {
	g := newSegment(segmentName(h.Number), h)
	f, err := s.create(g.name, g.header)
	if err != nil {
		return err
	}
	g.file, g.written = f, headerSize
	s.index.segments = append(s.index.segments, g)
	return nil
}

// cutTail truncates a file after its last sound record, and syncs it.
func (s *Store) cutTail(g *segment, torn int64) error {
	if torn > 0 {
		s.options.Logger.Info("cut off an unfinished write of a crash", "file", g.name, "offset", g.end, "bytes", torn)
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

// rewrite writes everything after the last note again, because it may not be on disk: after a failed sync
// the operating system regards the pages that it could not write as written. They can be read until they
// leave its memory, and the next sync, also of another process, succeeds without writing them.
func rewrite(g *segment) error {
	if g.noted == 0 {
		if _, err := g.file.WriteAt(g.header.encode(), 0); err != nil {
			return fmt.Errorf("write the header of %s again: %w", g.name, err)
		}
	}
	from := max(g.noted, headerSize)
	if _, err := io.Copy(io.NewOffsetWriter(g.file, from), io.NewSectionReader(g.file, from, g.end-from)); err != nil {
		return fmt.Errorf("write %s again from offset %d: %w", g.name, from, err)
	}
	// It may have left the cache since it was checked.
	sc := scan(g.file, g.header.Salt, from, g.end)
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

// handOver calls hold for each message and each queue that holds it.
func (s *Store) handOver(hold func(*Message, Hold)) {
	all := make([]*Message, 0, s.index.messages)
	for _, g := range s.index.segments {
		for m := g.first; m != nil; m = m.next {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b *Message) int { return cmp.Compare(a.seq, b.seq) })
	for _, m := range all {
		for h := range m.holders {
			n := s.index.states[holdKey{m, h.queue}]
			hold(m, Hold{Queue: h.queue, Deliveries: int(h.deliveries), Until: n.until, Death: n.death, Copied: slices.Clone(n.copied)})
		}
	}
}

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// Space is given back from the oldest segment on, and from nowhere else. So a settlement is never in
// a segment older than the message it is about, and can be forgotten with its segment.

const (
	// cleanSlack is how many segments of garbage are left alone.
	cleanSlack = 2
	// copyBatch is how much is copied in one record, but for a message that is larger.
	copyBatch = chunkSize
	// unindexed is how many of the newest segments have no index.
	unindexed = 3
	// sweepBatch is how many messages are looked at with the mutex held.
	sweepBatch = 1024
)

// errStopping ends the keeper's work when the store closes.
var errStopping = errors.New("the store is closing")

// tendLog is the keeper: it indexes, cleans and removes segments when woken.
func (s *Store) tendLog() {
	for {
		select {
		case <-s.stopping:
			return
		case <-s.tend:
		}
		s.mu.Lock()
		s.tending = false
		s.mu.Unlock()
		if err := s.tendOnce(); err != nil {
			if !errors.Is(err, errStopping) && !s.failed() {
				s.options.Logger.Error("cannot give back the space of settled messages", "error", err)
			}
		}
	}
}

// wantsTending says whether the keeper is to be woken for the oldest segment. The mutex is held.
func (s *Store) wantsTending() bool {
	oldest := s.ledger.segments[0]
	if s.tending || !oldest.sealed || oldest.first != nil {
		return false
	}
	s.tending = true
	return true
}

func (s *Store) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

func (s *Store) stopped() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

// tendOnce does all there is to do.
func (s *Store) tendOnce() error {
	if err := s.sweepDropped(); err != nil {
		return err
	}
	return errors.Join(s.giveBack(), s.indexSealed())
}

// giveBack removes segments from the oldest on, as long as that is worth it.
func (s *Store) giveBack() error {
	for {
		if err := s.removeDead(); err != nil {
			return err
		}
		g := s.wantsCopying()
		if g == nil {
			return nil
		}
		if err := s.copyOut(g); err != nil {
			return err
		}
	}
}

// sweepDropped ends the hold of dropped queues, a few messages at a time.
func (s *Store) sweepDropped() error {
	s.mu.Lock()
	dropped := s.dropped
	if len(dropped) > 0 {
		s.dropped = make(map[QueueID]bool)
	}
	s.mu.Unlock()
	if len(dropped) == 0 {
		return nil
	}
	for i := 0; s.beginSweep(i); i++ {
		for s.sweepSome(dropped) {
			if s.stopped() {
				return errStopping
			}
		}
	}
	return nil
}

// beginSweep turns to the messages of the ith segment; false if there is none. Only the keeper takes
// segments away, so i stays right.
func (s *Store) beginSweep(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i >= len(s.ledger.segments) {
		return false
	}
	s.ledger.sweep = s.ledger.segments[i].first
	return true
}

func (s *Store) sweepSome(dropped map[QueueID]bool) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range sweepBatch {
		m := s.ledger.sweep
		if m == nil {
			return false
		}
		s.ledger.sweep = m.next
		m.releaseIf(func(q QueueID) bool { return dropped[q] })
		if m.queue == 0 {
			s.ledger.remove(m)
		}
	}
	return true
}

// wantsCopying returns the oldest segment if there is more garbage than live data. What it costs to
// copy is then less than what is given back.
func (s *Store) wantsCopying() *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	total, dead := s.ledger.weigh()
	if dead <= total-dead+cleanSlack*s.options.SegmentSize || !s.ledger.segments[0].sealed {
		return nil
	}
	return s.ledger.segments[0]
}

// copied is a message that is to be copied, and where it was when it was read.
type copied struct {
	message *Message
	offset  int64
	size    uint32
	crc     uint32
	content []byte
}

// copyOut copies the live messages of a segment to the end of the log.
func (s *Store) copyOut(g *segment) error {
	for {
		if s.stopped() {
			return errStopping
		}
		batch := s.nextToCopy(g)
		if len(batch) == 0 {
			return nil
		}
		for i := range batch {
			c := &batch[i]
			var err error
			c.content, err = readContent(g.name, g.file, c.offset, c.size, c.crc)
			if err != nil {
				return fmt.Errorf("copy a message: %w", err)
			}
		}
		if err := s.appendCopies(g, batch); err != nil {
			return err
		}
		s.options.Crash(pointCopied)
	}
}

// nextToCopy returns the first live messages of a segment, at least one if there are any.
func (s *Store) nextToCopy(g *segment) []copied {
	s.mu.Lock()
	defer s.mu.Unlock()
	var batch []copied
	size := int64(0)
	for m := g.first; m != nil; m = m.next {
		if size += int64(m.size); size > copyBatch && len(batch) > 0 {
			break
		}
		batch = append(batch, copied{message: m, offset: int64(m.offset), size: m.size, crc: m.crc})
	}
	return batch
}

// appendCopies appends those messages that are still live, as they are held now, and waits until
// they are written.
func (s *Store) appendCopies(g *segment, batch []copied) error {
	s.mu.Lock()
	var operations []byte
	contents := int64(0)
	live := batch[:0]
	for _, c := range batch {
		if c.message.segment != g {
			continue
		}
		content, ok := decodeContent(c.content)
		if !ok {
			s.mu.Unlock()
			return &CorruptError{File: g.name, Offset: c.offset, Problem: "lengths within the content do not fit"}
		}
		operations = appendMessage(operations, c.message, len(content.Properties), len(content.Body))
		contents += int64(c.size)
		live = append(live, c)
	}
	if len(live) == 0 {
		s.mu.Unlock()
		return nil
	}
	k := s.appendRecord(operations, checksum(operations), contents, 0)
	offset := k.segment.end - contents
	for _, c := range live {
		if contents > chunkSize {
			s.log.attach(c.content) // there is only this one
		} else {
			k.data = append(k.data, c.content...)
		}
		s.ledger.move(c.message, k.segment, offset)
		offset += int64(c.size)
	}
	s.stats.Copied += int64(len(live))
	mark, wake := s.committed()
	s.mu.Unlock()
	if wake {
		signal(s.wake)
	}
	return s.Wait(context.Background(), mark)
}

// removeDead removes the oldest segments in which nothing is live.
func (s *Store) removeDead() error {
	s.mu.Lock()
	n := 0
	for s.ledger.segments[n].sealed && s.ledger.segments[n].first == nil {
		n++
	}
	first := s.ledger.segments[n].header.number
	s.mu.Unlock()
	if n == 0 {
		return nil
	}
	if err := s.discardBefore(first); err != nil {
		return err
	}
	s.options.Crash(pointDiscarded)
	s.forget(first)
	return nil
}

// discardBefore notes in the log that the segments before one are not needed, and returns when that
// and all copies are synced.
func (s *Store) discardBefore(first uint64) error {
	operations := appendDiscard(nil, first)
	s.mu.Lock()
	s.appendRecord(operations, checksum(operations), 0, 0)
	s.mustSync = true
	mark, wake := s.committed()
	s.mu.Unlock()
	if wake {
		signal(s.wake)
	}
	return s.Wait(context.Background(), mark)
}

// forget removes the segments before one from memory and disk. A file that cannot be removed is left
// for the next start.
func (s *Store) forget(first uint64) {
	s.mu.Lock()
	n := 0
	for s.ledger.segments[n].header.number < first {
		n++
	}
	gone := s.ledger.segments[:n:n]
	s.ledger.segments = s.ledger.segments[n:]
	s.stats.Removed += int64(n)
	s.mu.Unlock()
	for _, g := range gone {
		g.file.Close()
		s.removeFile(g.name)
		s.removeFile(indexName(g.header.number))
		s.options.Crash(pointRemoved)
	}
}

func (s *Store) removeFile(name string) {
	if err := s.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.options.Logger.Warn("cannot remove a file that is not needed; the next start will try again", "file", name, "error", err)
	}
}

// indexSealed writes the indexes that are missing, but for the newest segments: where messages do not
// stay for long, those will be gone soon. A segment without index is read in full at the next start.
func (s *Store) indexSealed() error {
	for {
		if s.stopped() {
			return errStopping
		}
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
			return nil
		}
		if err := s.indexSegment(g); err != nil {
			s.options.Logger.Error("cannot index a segment; it is read in full at the next start", "file", g.name, "error", err)
		}
	}
}

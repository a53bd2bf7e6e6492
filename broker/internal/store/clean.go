package store

import (
	"context"
	"errors"
	"io/fs"
)

// Space is given back from the oldest segment on, and from nowhere else. So a settlement is never in
// a segment older than the message it is about, and can be forgotten with its segment.

// cleanSlack is how many segments of garbage are left alone.
const cleanSlack = 2

// errStopping ends the keeper's work when the store closes.
var errStopping = errors.New("the store is closing")

// tendLog is the keeper: it indexes, cleans and removes segments when woken.
func (s *Store) tendLog() {
	for {
		select {
		case <-s.stopping:
			return
		case <-s.tend:
		case <-s.trouble.again():
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

// tendOnce does all there is to do, a little of each in turn: there may be more of one than can be done
// before the next restart.
func (s *Store) tendOnce() error {
	if err := s.sweepDropped(); err != nil {
		return err
	}
	for {
		copied, err := s.copySome()
		if err != nil {
			return err
		}
		removed, err := s.removeDead()
		if err != nil {
			return err
		}
		if indexed := s.indexNext(); !copied && !removed && !indexed {
			return nil
		}
		if s.stopped() {
			return errStopping
		}
	}
}

// removeDead removes the oldest segments in which nothing is live; false if there are none.
func (s *Store) removeDead() (bool, error) {
	s.mu.Lock()
	n := s.ledger.deadSegments()
	first := s.ledger.segments[n].header.number
	s.mu.Unlock()
	if n == 0 {
		return false, nil
	}
	if err := s.discardBefore(first); err != nil {
		return false, err
	}
	s.options.Crash(pointDiscarded)
	s.forget(first)
	return true, nil
}

// discardBefore notes in the log that the segments before one are not needed, and returns when that
// and all copies are synced.
func (s *Store) discardBefore(first uint64) error {
	operations := appendDiscard(nil, first)
	s.mu.Lock()
	s.appendRecord(operations, checksum(operations), 0, 0)
	s.mustSync = true
	mark, wake := s.committed()
	s.unlock(wake)
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
		if g.aside != nil {
			s.moveAside(g)
		} else {
			g.file.Close()
			s.removeFile(g.name)
		}
		s.removeFile(indexName(g.header.number))
		s.options.Crash(pointRemoved)
	}
}

func (s *Store) removeFile(name string) {
	if err := s.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.options.Logger.Warn("cannot remove a file that is not needed; the next start will try again", "file", name, "error", err)
	}
}

package store

import (
	"context"
	"errors"
	"io/fs"
)

// Only the oldest segments are removed. So the record that settles a message is never in an older
// segment than the message, and can be removed together with its segment.

// cleanSlack is how many segments of garbage are tolerated.
const cleanSlack = 2

// errStopping stops the cleaner when the store closes.
var errStopping = errors.New("the store is closing")

// runCleaner indexes, copies and removes segments whenever it is woken.
func (s *Store) runCleaner() {
	for {
		select {
		case <-s.stopping:
			return
		case <-s.wakeCleaner:
		case <-s.readFailures.again():
		}
		s.mu.Lock()
		s.cleanerWoken = false
		s.mu.Unlock()
		if err := s.cleanOnce(); err != nil && !errors.Is(err, errStopping) && !s.failed() {
			s.options.Logger.Error("cannot free the space of settled messages", "error", err)
		}
	}
}

// needsCleaner reports whether to wake the cleaner for the oldest segment. The mutex is held.
func (s *Store) needsCleaner() bool {
	oldest := s.index.segments[0]
	if s.cleanerWoken || !oldest.sealed || oldest.first != nil {
		return false
	}
	s.cleanerWoken = true
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

// cleanOnce does all there is to do, a little of each kind in turn: one kind may be more than can be
// done before the next restart.
func (s *Store) cleanOnce() error {
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

// removeDead removes the oldest segments without live messages. It returns false if there are none.
func (s *Store) removeDead() (bool, error) {
	s.mu.Lock()
	n := s.index.deadSegments()
	first := s.index.segments[n].header.Number
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

// discardBefore writes to the log that the segments before one are not needed. It returns when that and
// all copies are synced.
func (s *Store) discardBefore(first uint64) error {
	operations := appendDiscard(nil, first)
	s.mu.Lock()
	s.appendRecord(operations, checksum(operations), 0, 0)
	s.mustSync = true
	mark, wake := s.committed()
	s.unlock(wake)
	return s.Wait(context.Background(), mark)
}

// forget removes the segments before one from memory and disk, unless a backup needs their files. The next
// start removes files that cannot be removed now.
func (s *Store) forget(first uint64) {
	s.mu.Lock()
	n := 0
	for s.index.segments[n].header.Number < first {
		n++
	}
	gone := s.pin.keep(s.index.segments[:n:n])
	s.index.segments = s.index.segments[n:]
	s.stats.Removed += int64(n)
	s.mu.Unlock()
	s.removeSegments(gone)
	s.endPinIfFull()
}

// removeSegments removes the files of segments that are not needed.
func (s *Store) removeSegments(gone []*segment) {
	for _, g := range gone {
		if g.aside != nil {
			s.moveAside(g)
		} else {
			g.file.Close()
			s.removeFile(g.name)
		}
		s.removeFile(indexName(g.header.Number))
		s.options.Crash(pointRemoved)
	}
}

func (s *Store) removeFile(name string) {
	if err := s.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.options.Logger.Warn("cannot remove a file that is not needed; the next start will try again", "file", name, "error", err)
	}
}

package store

import "time"

// commitDelay is how long a commit waits for company if nobody waits for it, and how long the log has to be
// at rest before that is noted.
const commitDelay = 2 * time.Millisecond

// turn says who may write. Who has the turn looks in the end whether more is due, and passes it on to
// the committer or gives it up.
type turn int

const (
	nobodys turn = iota
	committers
	flushers // it is that of a caller of Flush
)

// smallGroup is how many commits a caller of Flush writes itself. Publishers on one connection that each wait for their
// confirm are confirmed a tenth more by 64 than by 4, be they 16 or 64, and as much with 256 and more, whose groups the committer
// writes while there is something to read.
const smallGroup = 64

// Flush has all commits made durable at once. If they are few and nobody else is at it, the caller
// writes and syncs them itself, because on an idle machine a change of goroutines and back takes a good
// part of what a sync takes. Flush does not wait for others, nor for room on the disk.
func (s *Store) Flush() {
	s.mu.Lock()
	s.wanted = s.mark
	if s.turn != nobodys || !s.due() {
		s.mu.Unlock()
		return
	}
	if !s.isSmall() {
		s.turn = committers
		s.unlock(true)
		return
	}
	s.turn = flushers
	g, _ := s.takeGroup()
	s.mu.Unlock()
	s.flush(g)
}

// flush writes a small group by who has called Flush.
func (s *Store) flush(g group) {
	s.options.Crash(pointBeforeWrite)
	err := g.log[0].write()
	if err == nil {
		err = s.finishGroup(g)
	} else if isDiskFull(err) { // the committer can wait for room
		s.mu.Lock()
		s.handed = &g
		s.turn = committers
		s.unlock(true)
		return
	}
	if err != nil {
		s.fail(err)
		return
	}
	s.mu.Lock()
	s.unlock(s.endTurn())
}

// isSmall says whether what is pending is for a caller of Flush. The mutex is held.
func (s *Store) isSmall() bool {
	return s.mark-s.Durable() <= smallGroup && len(s.defs.pending) == 0 && len(s.log.pending) == 1 && s.log.pending[0].segment.file != nil && !s.full
}

// due says whether something is to be written now. The mutex is held.
func (s *Store) due() bool {
	return s.err == nil && (s.wanted > s.Durable() || s.unwritten >= chunkSize || s.handed != nil || s.ending)
}

// wakeWriter has what is due written by the committer if it is nobody's turn, and says whether to wake it.
// The mutex is held.
func (s *Store) wakeWriter() (wake bool) {
	if s.turn != nobodys {
		return false
	}
	return s.endTurn()
}

// endTurn passes the turn on if something is due, and says whether the committer is to be woken. What
// is not due will be, when it has lingered. The mutex is held.
func (s *Store) endTurn() (wake bool) {
	if s.due() {
		s.turn = committers
		return true
	}
	s.turn = nobodys
	waits := s.mark > s.Durable() || s.log.wantsNote() || s.defs.wantsNote()
	if waits && !s.delayed {
		s.delayed, s.rested = true, s.mark
		s.delayTimer.Reset(commitDelay)
	}
	return false
}

// yieldTurn is called when the time of waiting for others is over. It says whether it is the committer's
// turn by that: it is not if nothing but a note is missing and there were commits meanwhile, because
// then the log is not at rest.
func (s *Store) yieldTurn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delayed = false
	switch {
	case s.turn != nobodys:
	case s.mark == s.Durable() && s.mark != s.rested:
		s.endTurn()
	default:
		s.lapsed = true
		s.turn = committers
	}
	return s.turn == committers
}

// awaitTurn returns when it is the committer's turn; false when the store has failed, or closes and
// nothing is left.
func (s *Store) awaitTurn() bool {
	for {
		s.mu.Lock()
		over, mine, full := s.ended || s.err != nil, s.turn == committers, s.full
		s.mu.Unlock()
		if over || mine {
			return !over
		}
		var retry <-chan time.Time
		if full {
			retry = time.After(fullRetry)
		}
		select {
		case <-s.wake:
		case <-s.delayTimer.C:
			s.yieldTurn()
		case <-retry:
			if s.yieldTurn() {
				s.checkSpace()
			}
		}
	}
}

// nextGroup returns what is due, or ends the committer's turn.
func (s *Store) nextGroup() (group, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lapsed || s.due() {
		if g, ok := s.takeGroup(); ok {
			return g, true
		}
	}
	if s.ending {
		s.ended = true
	} else {
		s.endTurn()
	}
	return group{}, false
}

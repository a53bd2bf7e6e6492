package store

import "time"

// commitDelay is how long a commit waits for others if nothing waits for it, and how long there must be no
// commits before a note is written.
const commitDelay = 2 * time.Millisecond

// turn is who may write. At the end of a turn, its holder checks whether more is due, and gives the turn to
// the committer or to nobody.
type turn int

const (
	noTurn turn = iota
	committerTurn
	flusherTurn // of a caller of Flush
)

// smallGroup is up to how many commits a caller of Flush writes itself. With 16 or 64 sequential publishers
// on one connection, 64 gives a tenth more throughput than 4. With 256 or more it makes no difference:
// the committer writes their groups while the connection is read.
const smallGroup = 64

// Flush makes all commits durable as soon as possible. If they are few and nobody else writes, the caller
// writes and syncs them itself, because on an idle machine switching goroutines takes a good part of the
// time of a sync. Flush does not wait for others, nor for room on the disk.
func (s *Store) Flush() {
	s.mu.Lock()
	s.wanted = s.mark
	if s.turn != noTurn || !s.due() {
		s.mu.Unlock()
		return
	}
	if !s.isSmall() {
		s.turn = committerTurn
		s.unlock(true)
		return
	}
	s.turn = flusherTurn
	g, _ := s.takeGroup()
	s.mu.Unlock()
	s.flush(g)
}

// flush writes a small group in the goroutine of the caller of Flush.
func (s *Store) flush(g group) {
	s.options.Crash(pointBeforeWrite)
	err := g.log[0].write()
	if err == nil {
		err = s.finishGroup(g)
	} else if isDiskFull(err) { // the committer can wait for room
		s.mu.Lock()
		s.handedOver = &g
		s.turn = committerTurn
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

// isSmall reports whether a caller of Flush may write what is pending. The mutex is held.
func (s *Store) isSmall() bool {
	return s.mark-s.Durable() <= smallGroup && len(s.defs.pending) == 0 && len(s.log.pending) == 1 && s.log.pending[0].segment.file != nil && !s.full
}

// due reports whether something should be written now. The mutex is held.
func (s *Store) due() bool {
	return s.err == nil && (s.wanted > s.Durable() || s.unwritten >= chunkSize || s.handedOver != nil || s.ending)
}

// wakeWriter gives the turn to the committer if something is due and it is nobody's turn. It reports
// whether to wake the committer. The mutex is held.
func (s *Store) wakeWriter() (wake bool) {
	if s.turn != noTurn {
		return false
	}
	return s.endTurn()
}

// endTurn gives the turn to the committer if something is due, and reports whether to wake it. What is not
// due will be after commitDelay. The mutex is held.
func (s *Store) endTurn() (wake bool) {
	if s.due() {
		s.turn = committerTurn
		return true
	}
	s.turn = noTurn
	waits := s.mark > s.Durable() || s.log.wantsNote() || s.defs.wantsNote()
	if waits && !s.delayed {
		s.delayed, s.markAtDelay = true, s.mark
		s.delayTimer.Reset(commitDelay)
	}
	return false
}

// yieldTurn is called when commitDelay is over. It reports whether it is the committer's turn now. It is
// not if only a note is missing and there were commits in the meantime.
func (s *Store) yieldTurn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delayed = false
	switch {
	case s.turn != noTurn:
	case s.mark == s.Durable() && s.mark != s.markAtDelay:
		s.endTurn()
	default:
		s.delayOver = true
		s.turn = committerTurn
	}
	return s.turn == committerTurn
}

// awaitTurn waits for the committer's turn. It returns false if the store has failed, or is closing and
// nothing is left to write.
func (s *Store) awaitTurn() bool {
	for {
		s.mu.Lock()
		over, mine, full := s.ended || s.err != nil, s.turn == committerTurn, s.full
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

// nextGroup returns the next group, or ends the committer's turn.
func (s *Store) nextGroup() (group, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.delayOver || s.due() {
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

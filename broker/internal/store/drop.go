package store

// sweepBatch is how many messages are looked at with the mutex held.
const sweepBatch = 1024

// DropQueue ends the hold of a deleted queue on all of its messages. It is not written to the log:
// what the queue held is gone for good when its definition is. A message that is committed to the
// queue afterwards has to be settled.
func (s *Store) DropQueue(q QueueID) {
	s.mu.Lock()
	s.dropped[q] = true
	s.mu.Unlock()
	signal(s.tend)
}

// sweepDropped ends the hold of dropped queues, a few messages at a time.
func (s *Store) sweepDropped() error {
	s.mu.Lock()
	dropped := s.dropped
	s.dropped = make(map[QueueID]bool)
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
	aside := s.ledger.aside
	switch {
	case i < len(aside):
		s.ledger.sweep = aside[i].first
	case i-len(aside) < len(s.ledger.segments):
		s.ledger.sweep = s.ledger.segments[i-len(aside)].first
	default:
		return false
	}
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
		s.ledger.drop(m, dropped)
	}
	return true
}

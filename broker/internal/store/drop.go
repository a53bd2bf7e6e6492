package store

// sweepBatch is how many messages are checked while the mutex is held.
const sweepBatch = 1024

// DropQueue ends the hold of a deleted queue on all of its messages. That is not written to the log: a
// start drops what is held by queues without definition. A message that is committed to the queue
// afterwards must be settled.
func (s *Store) DropQueue(q QueueID) {
	s.mu.Lock()
	s.dropped[q] = true
	s.mu.Unlock()
	signal(s.wakeCleaner)
}

// sweepDropped ends the hold of dropped queues, some messages at a time.
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

// beginSweep starts with the messages of the ith segment. It returns false if there is none. Only the
// cleaner removes segments, so i stays correct.
func (s *Store) beginSweep(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	aside := s.index.aside
	switch {
	case i < len(aside):
		s.index.sweep = aside[i].first
	case i-len(aside) < len(s.index.segments):
		s.index.sweep = s.index.segments[i-len(aside)].first
	default:
		return false
	}
	return true
}

func (s *Store) sweepSome(dropped map[QueueID]bool) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range sweepBatch {
		m := s.index.sweep
		if m == nil {
			return false
		}
		s.index.sweep = m.next
		s.index.drop(m, dropped)
	}
	return true
}

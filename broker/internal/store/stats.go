package store

// Stats is what a store holds and has done.
type Stats struct {
	Segments int
	Messages int   // that a queue holds
	Bytes    int64 // of all segments
	Dead     int64 // bytes that are settled or otherwise of no use
	Pending  int64 // bytes that wait to be written
	Written  int64 // bytes since the store was opened
	Syncs    int64 // groups of commits that became durable
	Copied   int64 // messages that were copied to free a segment
	Removed  int64 // segments that were freed
	SetAside int64 // messages that could not be read when they were to be copied
}

// Stats returns the present figures.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Segments = len(s.ledger.segments)
	st.Messages = s.ledger.messages
	st.Bytes, st.Dead = s.ledger.weigh(0)
	st.Pending = s.unwritten
	return st
}

package store

// Stats has the counters of a store.
type Stats struct {
	Segments int
	Messages int   // that a queue holds
	Bytes    int64 // of all segments
	Dead     int64 // bytes that are no longer needed, such as settled messages
	Pending  int64 // bytes that wait to be written
	Written  int64 // bytes since the store was opened
	Syncs    int64 // groups of commits that became durable
	Copied   int64 // messages that were copied to free a segment
	Removed  int64 // segments that were freed
	SetAside int64 // messages that could not be read for copying
}

// Stats returns the current counters.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Segments = len(s.index.segments)
	st.Messages = s.index.messages
	st.Bytes, st.Dead = s.index.weigh(0)
	st.Pending = s.unwritten
	return st
}

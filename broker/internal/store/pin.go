package store

// pin keeps the files of the segments that a backup has not read yet. The cleaner can still copy and discard
// these segments: their files are removed later. So the files that are only kept for a backup are never
// more than the log was when the backup began.
type pin struct {
	// The store's mutex protects these.
	first, last uint64     // numbers of the segments
	kept        []*segment // discarded segments whose files are kept
	err         error      // why the files are no longer kept
}

// keep returns those of the discarded segments whose files can be removed now. The mutex is held.
func (p *pin) keep(discarded []*segment) (removable []*segment) {
	for _, g := range discarded {
		n := g.header.Number
		if p == nil || n < p.first || n > p.last || g.aside != nil { // a file that is set aside stays open
			removable = append(removable, g)
		} else {
			p.kept = append(p.kept, g)
		}
	}
	return removable
}

// advancePin is called when a backup has read all segments before a number.
func (s *Store) advancePin(p *pin, first uint64) {
	s.mu.Lock()
	p.first = max(p.first, first)
	n := 0
	for n < len(p.kept) && p.kept[n].header.Number < p.first {
		n++
	}
	s.removeKept(p, n)
}

// endPin ends a pin, if it was not ended before, with the reason that the backup returns. The backup may be
// reading meanwhile.
func (s *Store) endPin(p *pin, reason error) {
	s.mu.Lock()
	if s.pin == p {
		s.pin, p.err = nil, reason
	}
	s.removeKept(p, len(p.kept))
}

// endPinIfFull gives up the backup if the disk is full and files are kept for the backup: publishers need the
// room.
func (s *Store) endPinIfFull() {
	s.mu.Lock()
	p := s.pin
	gives := p != nil && s.full && len(p.kept) > 0
	s.mu.Unlock()
	if gives {
		s.options.Logger.Warn("the disk is nearly full: the backup is given up, because it keeps files that are not needed otherwise")
		s.endPin(p, ErrBackupSpace)
	}
}

// removeKept removes the first n of the kept files. The mutex is held, and released.
func (s *Store) removeKept(p *pin, n int) {
	if n == 0 {
		s.mu.Unlock()
		return
	}
	gone := p.kept[:n:n]
	p.kept = p.kept[n:]
	s.removing.Add(1) // Close does not unlock the directory before
	s.mu.Unlock()
	defer s.removing.Done()
	s.removeSegments(gone)
}

// pinError returns why the files of a backup are no longer kept, or nil.
func (s *Store) pinError(p *pin) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.err
}

package store

import (
	"errors"
	"time"
)

// fullRetry is how often a full disk is checked.
const fullRetry = 500 * time.Millisecond

// untilRoom retries a write while the disk is full, until the store closes.
func (s *Store) untilRoom(write func() error) error {
	for {
		err := write()
		if err == nil || !isDiskFull(err) {
			return err
		}
		s.setFull(true)
		timer := time.NewTimer(fullRetry)
		select {
		case <-timer.C:
		case <-s.stopping:
			timer.Stop()
			return errors.Join(ErrFull, err)
		}
	}
}

// Free returns how many bytes can still be written.
func (s *Store) Free() (int64, error) { return s.fs.Free() }

// checkSpace compares the free space with the reserve. A full disk counts as full until a quarter more
// than the reserve is free, so that the state does not change back and forth.
func (s *Store) checkSpace() {
	reserve := s.options.DiskReserve
	if reserve < 0 {
		s.setFull(false)
		return
	}
	s.mu.Lock()
	full := s.full
	due := full || s.stats.Written-s.spaceChecked > reserve/16
	if due {
		s.spaceChecked = s.stats.Written
	}
	s.mu.Unlock()
	if !due {
		return
	}
	free, err := s.fs.Free()
	if err != nil {
		s.options.Logger.Warn("cannot determine the free space on disk", "error", err)
		return
	}
	if full {
		reserve += reserve / 4
	}
	s.setFull(free < reserve)
}

func (s *Store) setFull(full bool) {
	s.mu.Lock()
	changed := s.full != full
	s.full = full
	s.mu.Unlock()
	if !changed {
		return
	}
	if full {
		s.options.Logger.Warn("the disk is nearly full: publishers wait until there is room", "reserve", s.options.DiskReserve)
	} else {
		s.options.Logger.Info("the disk has enough free space again")
	}
	s.options.Full(full)
	s.endPinIfFull()
}

package store

import (
	"errors"
	"time"
)

// fullRetry is how often a full disk is looked at.
const fullRetry = 500 * time.Millisecond

// untilRoom tries a write again and again while the disk is full, until the store closes.
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

// Free is how many bytes can yet be written.
func (s *Store) Free() (int64, error) { return s.fs.Free() }

// checkSpace compares what is free with the reserve. The way back needs a quarter more, so that it
// does not flutter.
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
		s.options.Logger.Warn("cannot tell how much space is free on disk", "error", err)
		return
	}
	if full {
		s.setFull(free < reserve+reserve/4)
	} else {
		s.setFull(free < reserve)
	}
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
		s.options.Logger.Info("the disk has room again")
	}
	s.options.Full(full)
}

package rabbit

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// destination is where a message is published to.
type destination struct{ exchange, key string }

// storms slow publishing down to where the broker keeps saying no, as it does for a full queue, and to nowhere else.
type storms struct {
	some atomic.Bool // refusals is not empty

	mu       sync.Mutex
	refusals map[destination]storm
}

// storm is how often a destination has refused in a row, and when last.
type storm struct {
	times int
	last  time.Time
}

// The longest pause is short, so that publishing resumes soon after there is room.
const (
	stormFrom = 8 // refusals in a row before the first pause
	stormMin  = 5 * time.Millisecond
	stormMax  = 100 * time.Millisecond
	stormEnds = time.Second // after the last refusal
	// maxStorms bounds memory. Where more destinations of an exchange refuse, it counts as one.
	maxStorms = 1000
)

// whole is the key under which an exchange counts as one.
func (d destination) whole() destination { return destination{exchange: d.exchange} }

// calm notes that the broker has taken a message.
func (s *storms) calm(d destination) {
	if !s.some.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.refusals, d)
	delete(s.refusals, d.whole())
	s.some.Store(len(s.refusals) > 0)
}

// grow notes that it has refused one.
func (s *storms) grow(d destination) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusals == nil {
		s.refusals = make(map[destination]storm)
	}
	if _, known := s.refusals[d]; !known && len(s.refusals) >= maxStorms {
		maps.DeleteFunc(s.refusals, func(_ destination, old storm) bool { return now.Sub(old.last) >= stormEnds })
		if len(s.refusals) >= maxStorms {
			d = d.whole()
		}
	}
	s.refusals[d] = storm{s.refusals[d].times + 1, now}
	s.some.Store(true)
}

// wait returns when a message may be sent.
func (s *storms) wait(ctx context.Context, d destination) error {
	if !s.some.Load() {
		return nil
	}
	now := time.Now()
	s.mu.Lock()
	times := 0
	for _, d := range []destination{d, d.whole()} {
		if r := s.refusals[d]; now.Sub(r.last) < stormEnds {
			times = max(times, r.times)
		}
	}
	s.mu.Unlock()
	if times < stormFrom {
		return nil
	}
	if err := Pause(ctx, Backoff{Min: stormMin, Max: stormMax}.Delay(times-stormFrom+1)); err != nil {
		return fmt.Errorf("%w: the broker refuses message after message: %w", ErrRefused, err)
	}
	return nil
}

package rabbit

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// destination is where a message is published to.
type destination struct{ exchange, key string }

// throttle slows down publishing to destinations that the broker keeps refusing, as it does for a full
// queue, and to no other.
type throttle struct {
	some atomic.Bool // there are refusals that may count

	mu     sync.Mutex
	known  map[destination]refusalStreak
	others [256]refusalStreak // those for which there is no room, by their hash
	newest time.Time          // of all refusals
}

// other is the streak of a destination for which there is no room. It is shared with few others.
func (s *throttle) other(d destination) *refusalStreak {
	return &s.others[maphash.Comparable(throttleSeed, d)%uint64(len(s.others))]
}

var throttleSeed = maphash.MakeSeed()

// refusalStreak is how often the broker has refused in a row, and when last.
type refusalStreak struct {
	times int
	last  time.Time
}

// The longest pause is short, so that publishing resumes soon after there is room.
const (
	throttleAfter = 8 // refusals in a row before the first pause
	throttleMin   = 5 * time.Millisecond
	throttleMax   = 100 * time.Millisecond
	throttleEnds  = time.Second // after the last refusal
	maxStreaks    = 1000        // bounds memory
)

// over reports whether the last refusal is too long ago to count.
func (s refusalStreak) over(now time.Time) bool { return now.Sub(s.last) >= throttleEnds }

func (s refusalStreak) plus(now time.Time) refusalStreak {
	if s.over(now) {
		s.times = 0
	}
	return refusalStreak{s.times + 1, now}
}

// refused notes that the broker has refused a message.
func (s *throttle) refused(d destination) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	if s.known == nil {
		s.known = make(map[destination]refusalStreak)
	}
	if one, ok := s.known[d]; ok || len(s.known) < maxStreaks {
		s.known[d] = one.plus(now)
	} else {
		other := s.other(d)
		*other = other.plus(now)
	}
	s.newest = now
	s.some.Store(true)
}

// accepted notes that the broker has confirmed a message.
func (s *throttle) accepted(d destination) {
	if !s.some.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.known[d]; ok {
		delete(s.known, d)
	} else {
		*s.other(d) = refusalStreak{}
	}
	s.forget(time.Now())
}

// forget drops everything when nothing counts any more. The mutex is held.
func (s *throttle) forget(now time.Time) {
	if len(s.known) > 0 && now.Sub(s.newest) >= throttleEnds {
		clear(s.known)
		s.others = [len(s.others)]refusalStreak{}
	}
	s.some.Store(len(s.known) > 0) // others are counted only when there are many
}

// pause is how long a message has to wait before it is sent.
func (s *throttle) pause(d destination) time.Duration {
	if !s.some.Load() {
		return 0
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	return s.pauseAt(now, d)
}

// split divides some of the items of a batch into those that are sent at once and those that wait, and for how long. All that have
// one destination are together, so that they keep their order, whatever the broker refuses or accepts meanwhile.
func (s *throttle) split(items []Item, some []int) (atOnce, later []int, pause time.Duration) {
	if !s.some.Load() {
		return some, nil, 0
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	for _, i := range some {
		one := s.pauseAt(now, destination{items[i].Exchange, items[i].Key})
		if one > 0 {
			later, pause = append(later, i), max(pause, one)
		} else {
			atOnce = append(atOnce, i)
		}
	}
	return atOnce, later, pause
}

// pauseAt is how long a message has to wait. The mutex is held.
func (s *throttle) pauseAt(now time.Time, d destination) time.Duration {
	one, ok := s.known[d]
	if !ok {
		one = *s.other(d)
	}
	if one.times < throttleAfter || one.over(now) {
		return 0
	}
	return Backoff{Min: throttleMin, Max: throttleMax}.Delay(one.times - throttleAfter + 1)
}

// await lets the pause of a message pass.
func (s *throttle) await(ctx context.Context, d destination) error {
	return pauseThrottled(ctx, s.pause(d))
}

func pauseThrottled(ctx context.Context, pause time.Duration) error {
	if pause == 0 {
		return nil
	}
	if err := Pause(ctx, pause); err != nil {
		return fmt.Errorf("%w: the broker refuses message after message: %w", ErrRefused, err)
	}
	return nil
}

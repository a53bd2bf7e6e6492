package rehop

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rehop/rehop/internal/layouts"
)

// Schedule says how often a failed message is tried again, and how long it waits before. The zero
// value is Subscriber.Retry's default.
type Schedule struct {
	steps     []time.Duration // the waits, if they are a list
	grows     bool            // they are not; then there is
	first     time.Duration   // the first wait,
	factor    float64         // by how much it grows,
	max       time.Duration   // up to,
	attempts  int             // and how many attempts there are in all
	jitter    float64
	immediate int
	set       bool
	usual     bool // it is a layout's own
}

// Steps waits for each of the delays in turn; when they are used up, the message has failed. So
// there is one attempt more than there are delays. Each distinct delay has a queue of its own on the
// broker, shared by all subscriptions.
func Steps(delays ...time.Duration) Schedule {
	return Schedule{steps: slices.Clone(delays), attempts: len(delays) + 1, set: true}
}

// NoRetry sends a message to the failed queue when its first attempt has failed.
func NoRetry() Schedule { return Steps() }

// Exponential waits for first, then factor times as long each time, at most max; the handler runs
// attempts times in all.
func Exponential(first time.Duration, factor float64, max time.Duration, attempts int) Schedule {
	return Schedule{grows: true, first: first, factor: factor, max: max, attempts: attempts, set: true}
}

// WithJitter makes each wait longer by a random part of it, up to fraction, so that messages which
// failed together do not come back together. It never makes a wait shorter.
func (s Schedule) WithJitter(fraction float64) Schedule {
	s.jitter = fraction
	return s
}

// WithImmediate runs the handler up to n more times at once, in the process, before the first wait.
// All of these are one attempt.
func (s Schedule) WithImmediate(n int) Schedule {
	s.immediate = n
	return s
}

// Attempts is how often the handler runs in all, immediate retries aside.
func (s Schedule) Attempts() int { return s.attempts }

func (s Schedule) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for i, d := range s.steps {
		if s.usual && d == 0 {
			continue // at once, where a layout has that
		}
		if d < time.Millisecond || d > layouts.MaxDelay {
			fault("Retry: step %d, %v, must be from 1 ms to %v", i+1, d, layouts.MaxDelay)
		} else if d%time.Millisecond != 0 {
			fault("Retry: step %d, %v, must be a whole number of milliseconds", i+1, d)
		}
	}
	if s.grows {
		if s.first < time.Millisecond || s.max < s.first || s.max > layouts.MaxDelay {
			fault("Retry: first wait %v and longest wait %v must be from 1 ms to %v, in this order", s.first, s.max, layouts.MaxDelay)
		}
		if s.factor < 1 || math.IsInf(s.factor, 0) || math.IsNaN(s.factor) {
			fault("Retry: factor %v must be at least 1", s.factor)
		}
	}
	if s.attempts < 1 {
		fault("Retry: attempts %d must be at least 1", s.attempts)
	}
	if s.jitter < 0 || s.jitter > 10 || math.IsNaN(s.jitter) {
		fault("Retry: jitter %v must be from 0 to 10", s.jitter)
	}
	if s.immediate < 0 {
		fault("Retry: immediate retries %d must not be negative", s.immediate)
	}
	return errors.Join(faults...)
}

// after is how long a message waits when it has failed n times, and whether it does at all.
func (s Schedule) after(n int) (time.Duration, bool) {
	if n >= s.attempts {
		return 0, false
	}
	d := s.nominal(n)
	if s.jitter > 0 {
		d += time.Duration(rand.Float64() * s.jitter * float64(d))
	}
	return min(d, layouts.MaxDelay), true
}

func (s Schedule) nominal(n int) time.Duration {
	if !s.grows {
		return s.steps[n-1]
	}
	d := float64(s.first) * math.Pow(s.factor, float64(n-1))
	if d >= float64(s.max) {
		return s.max
	}
	return time.Duration(d)
}

// fixed are the waits that come again and again, and so deserve a queue of their own.
func (s Schedule) fixed() []time.Duration {
	if s.jitter > 0 {
		return nil
	}
	return s.steps
}

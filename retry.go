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

// Schedule is how often a failed message is retried, and after which delays. The zero value is
// Subscriber.Retry's default.
type Schedule struct {
	steps       []time.Duration // the delays of Steps
	grows       bool            // it is Exponential
	first       time.Duration   // Exponential: the first delay
	factor      float64         // Exponential: by how much it grows
	max         time.Duration   // Exponential: the longest delay
	maxAttempts int             // in all
	jitter      float64
	immediate   int
	set         bool
	usual       bool // it is a layout's own
}

// Steps waits for each of the delays in turn. When they are used up, the message goes to the failed
// queue. So there is one attempt more than there are delays. Each distinct delay has a queue of its own
// on the broker, shared by all subscriptions. A delay is at least 1 ms and at most about 310 days.
func Steps(delays ...time.Duration) Schedule {
	return Schedule{steps: slices.Clone(delays), maxAttempts: len(delays) + 1, set: true}
}

// NoRetry sends a message to the failed queue when its first attempt has failed.
func NoRetry() Schedule { return Steps() }

// Exponential waits for first, then factor times as long each time, at most max. There are
// maxAttempts attempts in all.
func Exponential(first time.Duration, factor float64, max time.Duration, maxAttempts int) Schedule {
	return Schedule{grows: true, first: first, factor: factor, max: max, maxAttempts: maxAttempts, set: true}
}

// WithJitter makes each delay longer by a random part of it, up to fraction (0 to 10), so that messages
// that failed together are not retried together. It never makes a delay shorter. Default: 0.
func (s Schedule) WithJitter(fraction float64) Schedule {
	s.jitter = fraction
	return s
}

// WithImmediate runs the handler up to n more times at once, in the same process, before the first
// delay. All of these are one attempt. Default: 0.
func (s Schedule) WithImmediate(n int) Schedule {
	s.immediate = n
	return s
}

// MaxAttempts is how often the handler runs in all, immediate retries aside.
func (s Schedule) MaxAttempts() int { return s.maxAttempts }

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
	if s.maxAttempts < 1 {
		fault("Retry: attempts %d must be at least 1", s.maxAttempts)
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
	if n >= s.maxAttempts {
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

// fixed are the delays that are the same for many messages, and so have a queue of their own.
func (s Schedule) fixed() []time.Duration {
	if s.jitter > 0 {
		return nil
	}
	return s.steps
}

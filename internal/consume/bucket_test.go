package consume

import (
	"slices"
	"testing"
	"time"
)

// A bucket has its burst at first and again after a pause, and between that one token at a time.
func TestBucket(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	b, now := newBucket(10, 3), time.Now()
	began := now
	var at []time.Duration
	take := func(n int) {
		for range n {
			for wait := b.take(now); wait > 0; wait = b.take(now) {
				now = now.Add(wait)
			}
			at = append(at, now.Sub(began))
		}
	}
	take(5)
	now = now.Add(time.Hour)
	take(4)
	now = now.Add(150 * ms) // one token and a half
	take(2)
	pause := 200*ms + time.Hour
	want := []time.Duration{0, 0, 0, 100 * ms, 200 * ms, pause, pause, pause, pause + 100*ms, pause + 250*ms, pause + 300*ms}
	if !slices.Equal(at, want) {
		t.Errorf("got %v, want %v", at, want)
	}
}

// Only one at a time waits for the next token, and its turn passes on.
func TestBucketTurn(t *testing.T) {
	t.Parallel()
	b := newBucket(1, 1)
	if !b.tryTurn() || b.tryTurn() {
		t.Error("turn: want that exactly one has it")
	}
	b.pass()
	if !b.tryTurn() {
		t.Error("turn: want that it has passed on")
	}
}

// What the rate needs for all that is prefetched is on top of the time of the handlers.
func TestTimeoutOfARate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of                                  Timeout
		wait, consumer, hold, narrow, fixed time.Duration
	}{
		"none": {Timeout{Prefetch: 4, Concurrency: 1, Handler: 6 * time.Minute},
			0, 30 * time.Minute, 5 * time.Minute, 10 * time.Minute, 75 * time.Second},
		"slow": {Timeout{Prefetch: 4, Concurrency: 1, Handler: 6 * time.Minute, Rate: 1. / 60},
			4 * time.Minute, 30 * time.Minute, time.Minute, 10 * time.Minute, 15 * time.Second},
		"slow, with reruns": {Timeout{Prefetch: 4, Concurrency: 1, Handler: 6 * time.Minute, Rate: 1. / 60, Immediate: 2},
			12 * time.Minute, 85 * time.Minute, time.Minute, 8 * time.Minute, 15 * time.Second},
		"never": {Timeout{Prefetch: 65535, Concurrency: 1, Handler: time.Second, Rate: 1e-300},
			maxConsumerTimeout, maxConsumerTimeout, time.Minute, time.Minute, 915*time.Microsecond + 541*time.Nanosecond},
	} {
		for what, pair := range map[string][2]time.Duration{
			"wait":               {test.of.RateWait(), test.wait},
			"consumer timeout":   {test.of.Consumer(), test.consumer},
			"hold":               {test.of.hold(false, true), test.hold},
			"narrow hold":        {test.of.hold(true, true), test.narrow},
			"hold of a last one": {test.of.hold(false, false), test.fixed},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s: %s: got %v, want %v", name, what, pair[0], pair[1])
			}
		}
	}
}

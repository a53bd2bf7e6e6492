package rehop_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/rehoptest"
)

// The default schedule takes more than thirteen hours, with a last step of ten.
func TestStepsTakeTheirTime(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(fail)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log})
		publish(t, b.Client, rehop.Message{Key: "q"})
		failed := b.AwaitFailed("q", 1)
		want := []time.Duration{0, 10 * time.Second, 110 * time.Second, time.Hour + 110*time.Second, 3*time.Hour + 110*time.Second, 13*time.Hour + 110*time.Second}
		if got := log.times(); !slices.Equal(got, want) {
			t.Errorf("attempts: got %v, want %v", got, want)
		}
		m := failed[0]
		if m.Attempts != 6 || m.Error != errNotYet.Error() {
			t.Errorf("failed after %d attempts by %q, want 6 and %q", m.Attempts, m.Error, errNotYet)
		}
		if took := m.FailedAt.Sub(m.FirstFailed); took != want[len(want)-1] {
			t.Errorf("failed for %v, want %v", took, want[len(want)-1])
		}
	})
}

// No wait holds up another one, whatever their order.
func TestShortWaitsPassLongOnes(t *testing.T) {
	waits := []time.Duration{10 * time.Hour, time.Second, 5 * time.Hour, 150 * time.Millisecond, time.Minute, 7 * time.Hour}
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(func(_ context.Context, d *rehop.Delivery) error {
			if d.Attempt > 1 {
				return nil
			}
			wait, err := time.ParseDuration(d.ID)
			if err != nil {
				return rehop.Permanent(err)
			}
			return rehop.RetryAfter(wait, errNotYet)
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log})
		for _, wait := range waits {
			publish(t, b.Client, rehop.Message{ID: wait.String(), Key: "q"})
		}
		b.AwaitEmpty("q")
		for _, r := range log.all() {
			if r.Attempt == 2 {
				within(t, "retry after "+r.ID, r.at, mustParse(t, r.ID), mustParse(t, r.ID)+layouts.DelayUnit)
			}
		}
		if got, want := len(log.all()), 2*len(waits); got != want {
			t.Errorf("runs: got %d, want %d", got, want)
		}
	})
}

func mustParse(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// longest is not the longest delay there is: the more days, the more of the clients' own ticks must be gone through.
const longest = 25 * time.Hour

// delays are some that the cascade can meet: around each power of two of its unit, and others.
func delays() []time.Duration {
	all := []time.Duration{1, time.Millisecond, 99 * time.Millisecond, time.Second, 90 * time.Second, time.Hour, 24*time.Hour + 17*time.Millisecond, longest}
	for d := layouts.DelayUnit; d < longest; d *= 2 {
		all = append(all, d, d+1)
	}
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// A delayed message is never early, and arrives when the delay, rounded up to the cascade's unit, is over.
func TestDelaysAreExact(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(func(context.Context, *rehop.Delivery) error { return nil })
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Exchange: "x", Handler: log, Concurrency: 8})
		all := delays()
		for i, delay := range all {
			m := rehop.Message{ID: delay.String(), Exchange: "x", Key: "any.key", Delay: delay}
			if i%2 == 0 { // to a queue by its name, which takes another way out of the cascade
				m.Exchange, m.Key = "", "q"
			}
			publish(t, b.Client, m)
		}
		if took := log.now(); took != 0 {
			t.Fatalf("publishing took %v of virtual time, want none", took)
		}
		time.Sleep(longest)
		b.AwaitEmpty("q")
		wantArrivals(t, log.all(), all)
	})
}

// So is a retry that names its own delay.
func TestRetryAfterIsExact(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var mu sync.Mutex
		var returned []run
		log := newLogbook(func(context.Context, *rehop.Delivery) error { return nil })
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Concurrency: 8, Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.Attempt == 1 {
				return rehop.RetryAfter(mustParse(t, d.ID), errNotYet)
			}
			mu.Lock()
			defer mu.Unlock()
			returned = append(returned, run{log.now(), *d})
			return nil
		})})
		all := delays()
		for _, delay := range all {
			publish(t, b.Client, rehop.Message{ID: delay.String(), Key: "q"})
		}
		time.Sleep(longest)
		b.AwaitEmpty("q")
		mu.Lock()
		defer mu.Unlock()
		wantArrivals(t, returned, all)
	})
}

// wantArrivals checks that each message, whose id is its delay, has come once and when it was due.
func wantArrivals(t *testing.T, runs []run, delays []time.Duration) {
	t.Helper()
	arrived := make(map[string]time.Duration)
	for _, r := range runs {
		if _, twice := arrived[r.ID]; twice {
			t.Errorf("the message with delay %s came twice", r.ID)
		}
		arrived[r.ID] = r.at
	}
	for _, delay := range delays {
		at, ok := arrived[delay.String()]
		want := (delay + layouts.DelayUnit - 1).Truncate(layouts.DelayUnit)
		if !ok || at != want {
			t.Errorf("delay %v: came %t, after %v, want %v", delay, ok, at, want)
		}
	}
}

// A message that nobody takes for a day goes to the failed queue, whether its queue or it itself has that TTL.
func TestExpiryAfterADay(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct{ queue, message time.Duration }{
		"queue":          {day, 0},
		"message":        {0, day},
		"the lesser":     {2 * day, day},
		"the lesser yet": {day, 2 * day},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				sub := subscribe(t, b.Client, rehop.Subscriber{Queue: "q", MessageTTL: c.queue, Handler: newLogbook(fail)})
				if err := sub.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				published := time.Now()
				publish(t, b.Client, rehop.Message{Key: "q", Expiration: c.message})
				time.Sleep(day - time.Millisecond)
				if ready, _ := b.Depth("q"); ready != 1 {
					t.Errorf("ready just before the day is over: got %d, want 1", ready)
				}
				m := b.AwaitFailed("q", 1)[0]
				if got := m.FailedAt.Sub(published); got != day || m.Kind != "dead" || m.Queue != "q" {
					t.Errorf("got %s of %q after %v, want dead of \"q\" after %v", m.Kind, m.Queue, got, day)
				}
				if want := "dead-lettered by the broker: expired"; m.Error != want {
					t.Errorf("error: got %q, want %q", m.Error, want)
				}
			})
		})
	}
}

package rehop_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// While something is unavailable one message probes, alone, and all others wait.
func TestBatchOutage(t *testing.T) {
	const messages = 30
	for name, test := range map[string]struct {
		down time.Duration
		one  bool // only one message of each batch cannot be handled
		with rehop.Subscriber
	}{
		"of all, short": {down: 30 * time.Second},
		"of all, hours": {down: 3 * time.Hour},
		"of one":        {down: 30 * time.Second, one: true},
		"two workers":   {down: 3 * time.Hour, with: rehop.Subscriber{Concurrency: 2}},
		"auto-delete":   {down: 3 * time.Hour, with: rehop.Subscriber{AutoDelete: true}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				book := newBatchbook(nil)
				book.answer = func(_ context.Context, all []*rehop.Delivery) error {
					if book.now() >= test.down {
						return nil
					}
					if !test.one {
						return rehop.Unavailable(errNotYet)
					}
					err := &rehop.BatchError{Errors: make([]error, len(all))}
					for i, d := range all {
						if d.ID == "2" {
							err.Errors[i] = rehop.Unavailable(errNotYet)
						}
					}
					return err
				}
				client, events := openPausing(t, b)
				defer client.Close(context.Background())
				s := test.with
				s.Queue, s.ProbeMin, s.ProbeMax = "q", time.Second, 30*time.Second
				s.Batch = rehop.Batch{Size: 5, Wait: time.Second, Handle: book.handle}
				batches(t, client, s)
				for i := range messages {
					publishNumbers(t, client, "q", fmt.Sprint(i))
				}
				time.Sleep(test.down + 5*time.Minute)
				b.AwaitEmpty("q")
				handled := make(map[string]int)
				workers := max(1, s.Concurrency)
				full := 0
				for _, r := range book.calls() {
					if r.at < test.down && len(r.ids) > 1 {
						full++
					}
					for _, d := range r.all {
						if d.Attempt != 1 {
							t.Errorf("message %s at %v: got attempt %d, want 1", d.ID, r.at, d.Attempt)
						}
						if r.at >= test.down || test.one && d.ID != "2" {
							handled[d.ID]++
						}
					}
				}
				if full > workers {
					t.Errorf("batches of several messages during the outage: got %d, want at most %d, those that began it", full, workers)
				}
				for i := range messages {
					if got := handled[fmt.Sprint(i)]; got != 1 {
						t.Errorf("message %d: got it handled %d times, want once", i, got)
					}
				}
				events.wantOnePause(t)
			})
		})
	}
}

// A batch in an outage has nothing to finish: a drain gives it back at once.
func TestDrainBatchDuringOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newBatchbook(func(context.Context, []*rehop.Delivery) error { return rehop.Unavailable(errNotYet) })
		sub := batches(t, b.Client, rehop.Subscriber{Queue: "q", ProbeMin: time.Minute, ProbeMax: time.Hour, Batch: rehop.Batch{Size: 4, Handle: book.handle}})
		publishNumbers(t, b.Client, "q", "1", "2", "3", "3", "4", "5", "6")
		time.Sleep(10 * time.Second)
		draining := startClock()
		if err := sub.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		within(t, "drain", draining.now(), 0, time.Second)
		if ready, unacked := b.Depth("q"); ready != 7 || unacked != 0 {
			t.Errorf("queue: got %d ready and %d unacked, want 7 and 0", ready, unacked)
		}
		if got := len(book.calls()); got != 1 {
			t.Errorf("calls of the handler: got %d, want 1", got)
		}
	})
}

// In a long outage only the message that probes is held.
func TestBatchInLongOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newBatchbook(func(context.Context, []*rehop.Delivery) error { return rehop.Unavailable(errNotYet) })
		sub := batches(t, b.Client, rehop.Subscriber{Queue: "q", Batch: rehop.Batch{Size: 4, Handle: book.handle}})
		publishNumbers(t, b.Client, "q", "1", "2", "3", "4", "5", "6")
		time.Sleep(30 * time.Second)
		if ready, unacked := b.Depth("q"); ready != 0 || unacked != 6 {
			t.Errorf("queue in a short outage: got %d ready and %d unacked, want 0 and 6", ready, unacked)
		}
		time.Sleep(time.Minute)
		if ready, unacked := b.Depth("q"); ready != 5 || unacked != 1 {
			t.Errorf("queue in a long outage: got %d ready and %d unacked, want 5 and 1", ready, unacked)
		}
		if err := sub.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// If the handler of the message that probes does not return as it should, those that wait for the result are handled by the worker that takes
// over, or go back at a stop.
func TestBatchWaitsForLostProbe(t *testing.T) {
	for name, test := range map[string]struct {
		probe func()
		kind  rehop.Kind
		stops bool
	}{
		"hangs":           {func() { time.Sleep(time.Hour) }, rehop.KindTimeout, false},
		"ends by Goexit":  {runtime.Goexit, rehop.KindPanic, false},
		"hangs at a stop": {func() { time.Sleep(time.Hour) }, "", true},
		"panics":          {func() { panic("no") }, rehop.KindPanic, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				var calls atomic.Int64
				book := newBatchbook(func(context.Context, []*rehop.Delivery) error {
					switch calls.Add(1) {
					case 1:
						return rehop.Unavailable(errNotYet)
					case 2:
						test.probe()
					}
					return nil
				})
				client, results := recordResults(t, b)
				sub := batches(t, client, rehop.Subscriber{Queue: "q", Timeout: time.Minute, StuckAfter: 10 * time.Second, Retry: rehop.Steps(time.Minute),
					Batch: rehop.Batch{Size: 4, Wait: 20 * time.Second, Handle: book.handle}})
				publishNumbers(t, client, "q", "1", "2", "3", "3")
				time.Sleep(22 * time.Second) // the first message probes, 2 and 3 wait, and so does the copy of 3
				if test.stops {
					if err := sub.Stop(); err == nil || !strings.Contains(err.Error(), "1 handlers still run") {
						t.Errorf("stop: got %v, want an error about one handler", err)
					}
					if ready, unacked := b.Depth("q"); ready != 4 || unacked != 0 {
						t.Errorf("queue: got %d ready and %d unacked, want 4 and 0", ready, unacked)
					}
					time.Sleep(2 * time.Hour)
					return
				}
				time.Sleep(2 * time.Hour)
				b.AwaitEmpty("q")
				book.want(t, []string{"1", "2", "3"}, []string{"1"}, []string{"2", "3"}, []string{"3"}, []string{"1"})
				if got := results("1"); len(got) != 2 || got[0].Kind != test.kind || got[1].Outcome != rehop.OutcomeDone {
					t.Errorf("results of the message that probed: got %+v, want kind %s, then done", got, test.kind)
				}
				for id, n := range map[string]int{"2": 1, "3": 2} {
					if got := results(id); len(got) != n || got[0].Outcome != rehop.OutcomeDone {
						t.Errorf("results of message %s: got %+v, want %d times done", id, got, n)
					}
				}
			})
		})
	}
}

// Hooks for messages of a batch, which several goroutines call, cannot stop their own subscription.
func TestBatchHookCannotStop(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		const messages = 5
		var sub atomic.Pointer[rehop.Subscription]
		stopped := make(chan error, messages)
		client, _ := recordResults(t, b, rehop.Hooks{OnMove: func(context.Context, *rehop.Delivery, rehop.Result, map[string]any) {
			stopped <- sub.Load().Stop()
		}})
		book := newBatchbook(func(context.Context, []*rehop.Delivery) error { return errNotYet })
		sub.Store(batches(t, client, rehop.Subscriber{Queue: "q", Retry: rehop.NoRetry(), Batch: rehop.Batch{Size: messages, Handle: book.handle}}))
		for i := range messages {
			publishNumbers(t, client, "q", fmt.Sprint(i))
		}
		b.AwaitFailed("q", messages)
		synctest.Wait()
		for range messages {
			if err := <-stopped; err == nil {
				t.Error("stop by a hook: got nil, want an error")
			}
		}
	})
}

package rehop_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// wantRate checks that no more calls began than a rate allows.
func (b *batchbook) wantRate(t *testing.T, every time.Duration, burst int) {
	t.Helper()
	calls := b.calls()
	for i := burst; i < len(calls); i++ {
		if got := calls[i].at - calls[i-burst].at; got < every {
			t.Errorf("calls %d to %d: got %v between them, want at least %v", i-burst+1, i+1, got, every)
		}
	}
}

// wantOnce checks that each message was handled once, at its first attempt.
func (b *batchbook) wantOnce(t *testing.T, messages int) {
	t.Helper()
	for _, r := range b.calls() {
		for _, d := range r.all {
			if d.Attempt != 1 {
				t.Errorf("message %s: got attempt %d, want 1", d.ID, d.Attempt)
			}
		}
	}
	counts := b.counts()
	for i := range messages {
		if n := counts[fmt.Sprint(i)]; n != 1 {
			t.Errorf("message %d: got it handled %d times, want once", i, n)
		}
	}
}

// A batch is one run: calls begin no faster than the rate allows, after a burst, and no slower. Each has its whole time, and is as large as
// without a rate.
func TestBatchRate(t *testing.T) {
	const size, batchesOf, burst, every, timeout = 5, 8, 3, 2 * time.Second, 400 * time.Millisecond
	for _, concurrency := range []int{1, 3} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				book := newBatchbook(func(ctx context.Context, all []*rehop.Delivery) error {
					if deadline, _ := ctx.Deadline(); time.Until(deadline) != timeout {
						t.Errorf("time of the handler: got %v, want %v", time.Until(deadline), timeout)
					}
					return nil
				})
				batches(t, b.Client, rehop.Subscriber{Queue: "q", Concurrency: concurrency, Prefetch: size * batchesOf, Timeout: timeout, Rate: 1 / every.Seconds(), Burst: burst,
					Batch: rehop.Batch{Size: size, Handle: book.handle}})
				time.Sleep(time.Minute) // the burst is complete
				book.clock = startClock()
				publishMany(t, b.Client, "q", size*batchesOf)
				b.AwaitEmpty("q")
				book.wantOnce(t, size*batchesOf)
				for i, r := range book.calls() {
					from := max(0, i-burst+1) * int(every)
					within(t, fmt.Sprintf("call %d", i+1), r.at, time.Duration(from), time.Duration(from)+10*time.Millisecond)
					if len(r.ids) != size {
						t.Errorf("call %d: got %d messages, want %d", i+1, len(r.ids), size)
					}
				}
			})
		})
	}
}

// Neither a drain nor a stop waits for the rate. What waits goes back, also a copy that is to be in the next batch, and however often that
// happens, no message is suspected or uses an attempt.
func TestBatchRateAtEnd(t *testing.T) {
	const messages, ends = 40, 15
	for _, of := range []layout.QueueType{layout.Quorum, layout.Classic} {
		for name, end := range map[string]func(*testing.T, *rehop.Subscription) error{
			"drain": func(t *testing.T, sub *rehop.Subscription) error { return sub.Drain(t.Context()) },
			"stop":  func(_ *testing.T, sub *rehop.Subscription) error { return sub.Stop() },
		} {
			t.Run(name+" "+string(of), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
					book := newBatchbook(nil)
					s := rehop.Subscriber{Queue: "q", QueueType: of, Concurrency: 3, Prefetch: 20, Rate: 1. / 60, Retry: rehop.NoRetry(),
						Batch: rehop.Batch{Size: 4, Handle: book.handle}}
					for i := range ends {
						sub := subscribe(t, b.Client, s)
						if i == 0 {
							publishMany(t, b.Client, "q", messages)
							publishNumbers(t, b.Client, "q", "twice", "twice", "twice")
						}
						time.Sleep(10 * time.Second)
						clock := startClock()
						if err := end(t, sub); err != nil {
							t.Errorf("%s %d: %v", name, i+1, err)
						}
						within(t, name+" took", clock.now(), 0, time.Second)
						handled := 0
						for _, r := range book.calls() {
							handled += len(r.ids)
						}
						if ready, unacked := b.Depth("q"); ready+handled != messages+3 || unacked != 0 {
							t.Errorf("%s %d: got %d ready, %d unacked and %d handled, want %d ready and handled", name, i+1, ready, unacked, handled, messages+3)
						}
					}
					if got := len(book.calls()); got != ends {
						t.Errorf("calls: got %d, want one for each of %d subscriptions", got, ends)
					}
					s.Rate = 0
					subscribe(t, b.Client, s)
					b.AwaitEmpty("q")
					book.wantOnce(t, messages)
					if got := book.counts()["twice"]; got != 3 {
						t.Errorf("copies: got %d handled, want 3", got)
					}
				})
			})
		}
	}
}

// A queue that ends with its subscription, or with the client, is the only place where its messages are: a drain handles those that it has
// received, within the rate, and a stop reports how many are lost.
func TestBatchRateAtEndOfTemporaryQueue(t *testing.T) {
	const messages = 10
	for name, s := range map[string]rehop.Subscriber{"auto-delete": {AutoDelete: true}, "exclusive": {Exclusive: true}} {
		s.Queue, s.Concurrency, s.Prefetch, s.Rate = "q", 2, messages, 1./60
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				book := newBatchbook(nil)
				s.Batch = rehop.Batch{Size: 4, Handle: book.handle}
				sub := subscribe(t, b.Client, s)
				publishMany(t, b.Client, "q", messages)
				synctest.Wait()
				if err := sub.Drain(t.Context()); err != nil {
					t.Error(err)
				}
				book.wantOnce(t, messages)
				book.wantRate(t, time.Minute, 1)
			})
		})
		t.Run(name+", stop", func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				book := newBatchbook(nil)
				s.Batch = rehop.Batch{Size: 4, Handle: book.handle}
				sub := batches(t, b.Client, s)
				publishMany(t, b.Client, "q", messages)
				time.Sleep(time.Second)
				if err := sub.Stop(); err == nil || !strings.Contains(err.Error(), "not handled: 10; they are lost") {
					t.Errorf("stop: got %v, want an error about 10 lost messages", err)
				}
				book.want(t)
			})
		})
	}
}

// An immediate retry of a batch waits for the rate, too. A drain meanwhile gives the messages back with their attempts.
func TestBatchRateOfImmediateRetries(t *testing.T) {
	s := rehop.Subscriber{Queue: "q", Rate: .1, Retry: rehop.Steps(time.Hour).WithImmediate(2)}
	half := func(_ context.Context, all []*rehop.Delivery) error {
		err := &rehop.BatchError{Errors: make([]error, len(all))}
		for i, d := range all {
			if d.ID >= "3" {
				err.Errors[i] = errNotYet
			}
		}
		return err
	}
	t.Run("runs", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			book := newBatchbook(half)
			s.Batch = rehop.Batch{Size: 5, Handle: book.handle}
			batches(t, b.Client, s)
			publishMany(t, b.Client, "q", 5)
			for _, m := range b.AwaitFailed("q", 2) {
				if m.Attempts != 2 {
					t.Errorf("message %s: got %d attempts, want 2", m.ID, m.Attempts)
				}
			}
			if got := book.ids(); len(got) < 4 || !slices.Equal(got[0], []string{"0", "1", "2", "3", "4"}) || !slices.Equal(got[1], []string{"3", "4"}) || !slices.Equal(got[2], got[1]) {
				t.Errorf("batches: got %v, want all, then 3 and 4 twice at once, and these an hour later", got)
			}
			if got, want := book.counts(), map[string]int{"0": 1, "1": 1, "2": 1, "3": 4, "4": 4}; !maps.Equal(got, want) {
				t.Errorf("runs: got %v, want %v", got, want)
			}
			book.wantRate(t, 10*time.Second, 1)
		}, rehoptest.WithTimeout(2*time.Hour))
	})
	t.Run("drain", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			book := newBatchbook(half)
			s.Batch = rehop.Batch{Size: 5, Handle: book.handle}
			sub := batches(t, b.Client, s)
			publishMany(t, b.Client, "q", 5)
			time.Sleep(25 * time.Second)
			clock := startClock()
			if err := sub.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			within(t, "drain took", clock.now(), 0, time.Second)
			book.want(t, []string{"0", "1", "2", "3", "4"}, []string{"3", "4"})
			left := b.Messages("q")
			if len(left) != 2 || left[0].Attempts != 0 || left[1].Attempts != 0 {
				t.Errorf("left: got %+v, want 2 messages that have not failed", left)
			}
		})
	})
}

// While something is unavailable one message probes, within the rate, and is not kept waiting by batches that wait for the rate.
func TestBatchRateInOutage(t *testing.T) {
	const messages, probing = 30, 10 * time.Second
	for _, c := range []struct{ down, every time.Duration }{{30 * time.Second, 5 * time.Second}, {time.Hour, 5 * time.Second}, {time.Hour, time.Minute}} {
		down, every := c.down, c.every
		for _, concurrency := range []int{1, 4} {
			t.Run(fmt.Sprint(down, every, concurrency), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
					book := newBatchbook(nil)
					book.answer = func(context.Context, []*rehop.Delivery) error {
						time.Sleep(2 * time.Second) // meanwhile other batches begin to wait for the rate
						if book.now() < down {
							return rehop.Unavailable(errNotYet)
						}
						return nil
					}
					client, events := openPausing(t, b)
					defer client.Close(context.Background())
					batches(t, client, rehop.Subscriber{Queue: "q", Concurrency: concurrency, Prefetch: 20, Rate: 1 / every.Seconds(), ProbeMax: probing,
						Batch: rehop.Batch{Size: 5, Handle: book.handle}})
					book.clock = startClock()
					publishMany(t, client, "q", messages)
					time.Sleep(down)
					b.AwaitEmpty("q")
					book.wantRate(t, every, 1)
					handled, full, last := make(map[string]int), 0, time.Duration(0)
					for _, r := range book.calls() {
						if r.at < down-2*time.Second && len(r.ids) > 1 {
							full++
						}
						for _, d := range r.all {
							if d.Attempt != 1 {
								t.Errorf("message %s at %v: got attempt %d, want 1", d.ID, r.at, d.Attempt)
							}
							if r.at >= down-2*time.Second { // the handler returns after the outage
								handled[d.ID]++
							}
						}
						within(t, "pause before a call", r.at-last, 0, every+probing+5*time.Second)
						last = r.at
					}
					if full != 1 {
						t.Errorf("batches of several messages during the outage: got %d, want the one that began it", full)
					}
					for i := range messages {
						if got := handled[fmt.Sprint(i)]; got != 1 {
							t.Errorf("message %d: got it handled %d times, want once", i, got)
						}
					}
					events.wantOnePause(t)
				}, rehoptest.WithTimeout(time.Hour))
			})
		}
	}
}

// A batch that waits for the rate when the connection is lost comes again, and each of its deliveries is reported as lost.
func TestBatchRateAcrossReconnects(t *testing.T) {
	const messages = 30
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newBatchbook(nil)
		client, results := recordResults(t, b)
		subscribe(t, client, rehop.Subscriber{Queue: "q", Concurrency: 2, Prefetch: 12, Rate: .1, Batch: rehop.Batch{Size: 4, Handle: book.handle}})
		publishMany(t, client, "q", messages)
		for range 3 {
			time.Sleep(13 * time.Second) // not when a handler runs
			b.Drop()
		}
		b.AwaitEmpty("q")
		book.wantOnce(t, messages)
		book.wantRate(t, 10*time.Second, 1)
		lost := 0
		for i := range messages {
			for _, r := range results(fmt.Sprint(i)) {
				if r.Outcome == rehop.OutcomeLost {
					lost++
				}
			}
		}
		if lost < 8 {
			t.Errorf("lost deliveries: got %d, want at least those of two batches", lost)
		}
	}, rehoptest.WithTimeout(time.Hour))
}

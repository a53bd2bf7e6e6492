package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// publishMany publishes messages whose ids are their numbers.
func publishMany(t *testing.T, c *rehop.Client, key string, n int) {
	t.Helper()
	for i := range n {
		publish(t, c, rehop.Message{ID: fmt.Sprint(i), Key: key})
	}
}

// wantRate checks that no more runs began than a rate allows.
func (l *logbook) wantRate(t *testing.T, every time.Duration, burst int) {
	t.Helper()
	at := l.times()
	for i := burst; i < len(at); i++ {
		if got := at[i] - at[i-burst]; got < every {
			t.Errorf("runs %d to %d: got %v between them, want at least %v", i-burst+1, i+1, got, every)
		}
	}
}

// wantOnce checks that each message was handled once, at its first attempt.
func (l *logbook) wantOnce(t *testing.T, messages int) {
	t.Helper()
	seen := make(map[string]int)
	for _, r := range l.all() {
		seen[r.ID]++
		if r.Attempt != 1 {
			t.Errorf("message %s: got attempt %d, want 1", r.ID, r.Attempt)
		}
	}
	for i := range messages {
		if n := seen[fmt.Sprint(i)]; n != 1 {
			t.Errorf("message %d: got %d runs, want 1", i, n)
		}
	}
}

// Handlers begin no faster than the rate allows, after a burst, and no slower. Each has its whole time.
func TestRate(t *testing.T) {
	const messages, burst, every, timeout = 12, 3, 500 * time.Millisecond, 400 * time.Millisecond
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(func(ctx context.Context, _ *rehop.Delivery) error {
			if deadline, _ := ctx.Deadline(); time.Until(deadline) != timeout {
				t.Errorf("time of the handler: got %v, want %v", time.Until(deadline), timeout)
			}
			return nil
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log, Concurrency: 2, Prefetch: 10, Timeout: timeout, Rate: 2, Burst: burst})
		publishMany(t, b.Client, "q", messages)
		b.AwaitEmpty("q")
		log.wantOnce(t, messages)
		for i, at := range log.times() {
			from := max(0, i-burst+1) * int(every)
			within(t, fmt.Sprintf("run %d", i+1), at, time.Duration(from), time.Duration(from)+10*time.Millisecond)
		}
	})
}

// A drain does not wait for the rate. What waits goes back, and however often that happens, no message is suspected or uses an
// attempt.
func TestRateDrain(t *testing.T) {
	const messages, drains = 40, 15
	for _, of := range []layout.QueueType{layout.Quorum, layout.Classic} {
		t.Run(string(of), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				log := newLogbook(succeed)
				s := rehop.Subscriber{Queue: "q", QueueType: of, Handler: log, Concurrency: 3, Prefetch: 6, Rate: 1. / 60}
				for i := range drains {
					sub := subscribe(t, b.Client, s)
					if i == 0 {
						publishMany(t, b.Client, "q", messages)
					}
					time.Sleep(10 * time.Second)
					clock := startClock()
					if err := sub.Drain(t.Context()); err != nil {
						t.Errorf("drain %d: %v", i+1, err)
					}
					within(t, "draining took", clock.now(), 0, time.Second)
					if ready, unacked := b.Depth("q"); ready+len(log.all()) != messages || unacked != 0 {
						t.Errorf("drain %d: got %d ready, %d unacked and %d handled, want %d ready and handled", i+1, ready, unacked, len(log.all()), messages)
					}
				}
				if got := len(log.all()); got != drains {
					t.Errorf("handled: got %d, want one for each of %d subscriptions", got, drains)
				}
				s.Rate = 0
				subscribe(t, b.Client, s)
				b.AwaitEmpty("q")
				log.wantOnce(t, messages)
			})
		})
	}
}

// A stop does not wait for the rate either.
func TestRateStop(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		for _, s := range []rehop.Subscriber{{Queue: "lasting"}, {Queue: "exclusive", Exclusive: true}, {Queue: "auto-delete", AutoDelete: true}} {
			s.Handler, s.Concurrency, s.Prefetch, s.Rate = newLogbook(succeed), 2, 4, 1./60
			sub := subscribe(t, b.Client, s)
			publishMany(t, b.Client, s.Queue, 10)
			time.Sleep(time.Second)
			clock := startClock()
			err := sub.Stop()
			if lasts := s.Queue == "lasting"; lasts && err != nil || !lasts && (err == nil || !strings.Contains(err.Error(), "lost")) {
				t.Errorf("%s: got %v, want an error only where messages are lost", s.Queue, err)
			}
			within(t, s.Queue+": stopping took", clock.now(), 0, time.Second)
		}
	})
}

// A queue that ends with its subscription, or with the client, is the only place where its messages are: a drain handles those that it has
// received, within the rate.
func TestRateDrainOfTemporaryQueue(t *testing.T) {
	const messages = 5
	for name, s := range map[string]rehop.Subscriber{"auto-delete": {AutoDelete: true}, "exclusive": {Exclusive: true}} {
		s.Queue, s.Concurrency, s.Prefetch, s.Rate = "q", 2, messages, 1./60
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				log := newLogbook(succeed)
				s.Handler = log
				sub := subscribe(t, b.Client, s)
				publishMany(t, b.Client, "q", messages)
				synctest.Wait()
				if err := sub.Drain(t.Context()); err != nil {
					t.Error(err)
				}
				log.wantOnce(t, messages)
				log.wantRate(t, time.Minute, 1)
			})
		})
		t.Run(name+", too short", func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				log := newLogbook(succeed)
				s.Handler = log
				sub := subscribe(t, b.Client, s)
				publishMany(t, b.Client, "q", messages)
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
				defer cancel()
				err := sub.Drain(ctx)
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the rest is lost") {
					t.Errorf("drain: got %v, want that its time was up and what that means", err)
				}
				within(t, "drained after", log.now(), 90*time.Second, 91*time.Second)
				if got := len(log.all()); got != 2 {
					t.Errorf("handled: got %d, want 2, as many as the rate allows in this time", got)
				}
			})
		})
	}
}

// Immediate retries wait for the rate, too, and come to an end.
func TestRateOfImmediateRetries(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(fail)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log, Concurrency: 2, Prefetch: 3, Rate: 0.1, Retry: rehop.Steps(time.Hour).WithImmediate(2)})
		publishMany(t, b.Client, "q", 6)
		for _, m := range b.AwaitFailed("q", 6) {
			if m.Attempts != 2 {
				t.Errorf("message %s: got %d attempts, want 2", m.ID, m.Attempts)
			}
		}
		runs := make(map[string]int)
		for _, r := range log.all() {
			runs[r.ID]++
		}
		for id, n := range runs {
			if n != 4 {
				t.Errorf("message %s: got %d runs, want 3 and then 1", id, n)
			}
		}
		log.wantRate(t, 10*time.Second, 1)
	}, rehoptest.WithTimeout(time.Hour))
}

// A drain while an immediate retry waits for the rate gives the message back with its attempts.
func TestRateDrainOfImmediateRetry(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(fail)
		sub := subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log, Rate: 0.1, Retry: rehop.NoRetry().WithImmediate(5)})
		publish(t, b.Client, rehop.Message{Key: "q"})
		time.Sleep(15 * time.Second)
		if err := sub.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		within(t, "drained after", log.now(), 15*time.Second, 16*time.Second)
		if left := b.Messages("q"); len(left) != 1 || left[0].Attempts != 0 || len(log.all()) != 2 {
			t.Errorf("got %d runs and %+v in the queue, want 2, and one that has not failed", len(log.all()), left)
		}
	})
}

// A full queue, messages that fail into it, and those that come before they are due do not keep each other from being handled.
func TestRateWithAFullQueue(t *testing.T) {
	const messages, early = 20, 5
	for _, of := range []layout.QueueType{layout.Quorum, layout.Classic} {
		for _, concurrency := range []int{1, 3} {
			t.Run(fmt.Sprint(of, concurrency), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
					log := newLogbook(func(_ context.Context, d *rehop.Delivery) error {
						if d.Attempt == 1 {
							return errNotYet
						}
						return nil
					})
					subscribe(t, b.Client, rehop.Subscriber{Queue: "q", QueueType: of, Handler: log, Concurrency: concurrency, Rate: 1,
						MaxLength: 3, Overflow: "reject-publish", Retry: rehop.Steps(time.Second, time.Minute)})
					ch := channel(t, b)
					if err := ch.Confirm(false); err != nil {
						t.Fatal(err)
					}
					insist := func(send func() bool) {
						for !send() {
							time.Sleep(100 * time.Millisecond)
						}
					}
					for i := range messages {
						insist(func() bool { return b.Client.Publish(t.Context(), rehop.Message{ID: fmt.Sprint(i), Key: "q"}) == nil })
						if i >= early {
							continue
						}
						insist(func() bool {
							headers := amqp.Table{envelope.Attempt: int32(1), envelope.Queue: "q", envelope.Key: "q", envelope.Due: time.Now().Add(time.Minute).UnixMilli()}
							confirm, err := ch.PublishWithDeferredConfirm("", "q", true, false, amqp.Publishing{MessageId: fmt.Sprint("early ", i), Headers: headers})
							return err == nil && confirm.Wait()
						})
					}
					b.AwaitEmpty("q")
					if got, want := len(log.all()), 2*messages+early; got != want {
						t.Errorf("runs: got %d, want %d", got, want)
					}
					log.wantRate(t, time.Second, 1)
				}, rehoptest.WithTimeout(time.Hour))
			})
		}
	}
}

// Probes count, and are not kept waiting by those who wait for the rate: the outage is found to be over soon after it is.
func TestRateInOutage(t *testing.T) {
	const messages, probing = 30, 10 * time.Second
	for _, c := range []struct{ down, every time.Duration }{{30 * time.Second, 5 * time.Second}, {time.Hour, 5 * time.Second}, {time.Hour, time.Minute}} {
		down, every := c.down, c.every
		for _, concurrency := range []int{1, 4} {
			t.Run(fmt.Sprint(down, every, concurrency), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
					log := downFor(down)
					answer := log.answer
					log.answer = func(ctx context.Context, d *rehop.Delivery) error {
						time.Sleep(2 * time.Second) // meanwhile others begin to wait for the rate
						return answer(ctx, d)
					}
					client, events := openPausing(t, b)
					defer client.Close(context.Background())
					subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: log, Concurrency: concurrency, Prefetch: 8, Rate: 1 / every.Seconds(), ProbeMax: probing})
					publishMany(t, client, "q", messages)
					time.Sleep(down)
					b.AwaitEmpty("q")
					log.wantRate(t, every, 1)
					probes, last := 0, time.Duration(0)
					for _, r := range log.all() {
						if r.Attempt != 1 {
							t.Errorf("message %s at %v: got attempt %d, want 1", r.ID, r.at, r.Attempt)
						}
						if r.at < down-2*time.Second { // when the handler returned
							probes++
						}
						if r.at < min(down, 50*time.Second) && r.ID != "0" {
							t.Errorf("message %s at %v: its handler ran, want that only the first message probes", r.ID, r.at)
						}
						within(t, "pause before a run", r.at-last, 0, every+probing+5*time.Second)
						last = r.at
					}
					if got := len(log.all()) - probes; got != messages {
						t.Errorf("runs after the outage: got %d, want %d", got, messages)
					}
					events.wantOnePause(t)
				}, rehoptest.WithTimeout(time.Hour))
			})
		}
	}
}

// A message that waits for the rate when the connection is lost comes again.
func TestRateAcrossReconnects(t *testing.T) {
	const messages = 10
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(succeed)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log, Concurrency: 2, Rate: 0.1})
		publishMany(t, b.Client, "q", messages)
		for range 3 {
			time.Sleep(13 * time.Second) // not when a handler runs
			b.Drop()
		}
		b.AwaitEmpty("q")
		log.wantOnce(t, messages)
		log.wantRate(t, 10*time.Second, 1)
	}, rehoptest.WithTimeout(time.Hour))
}

// If the message that probes is lost while it waits for the rate, another one probes.
func TestRateProbeIsLost(t *testing.T) {
	const down = 2 * time.Minute
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := downFor(down)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log, Concurrency: 2, Rate: 1. / 30})
		publishMany(t, b.Client, "q", 4)
		time.Sleep(15 * time.Second)
		b.Drop()
		time.Sleep(down)
		b.AwaitEmpty("q")
		within(t, "all handled after", log.now(), down, down+5*time.Minute)
	}, rehoptest.WithTimeout(10*time.Minute))
}

// A broker that does not answer does not keep a drain from ending, whatever waits for the rate.
func TestRateDrainFromASilentBroker(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		client := openWith(t, b, func(*rehop.Config) {})
		sub := subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: newLogbook(succeed), Concurrency: 2, Prefetch: 4, Rate: 1. / 60})
		publishMany(t, client, "q", 10)
		time.Sleep(time.Second)
		b.Silence()
		clock := startClock()
		if err := sub.Drain(context.Background()); err == nil {
			t.Error("drain: got nil, want that the broker has not answered")
		}
		within(t, "drained after", clock.now(), 0, time.Minute)
		_ = client.Close(context.Background())
		within(t, "closed after", clock.now(), 0, 2*time.Minute)
	})
}

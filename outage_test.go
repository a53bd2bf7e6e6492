package rehop_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/rehoptest"
)

// downFor is a handler that cannot work for a while, because something that it needs is down.
func downFor(d time.Duration) *logbook {
	log := newLogbook(nil)
	log.answer = func(context.Context, *rehop.Delivery) error {
		if log.now() < d {
			return rehop.Unavailable(errNotYet)
		}
		return nil
	}
	return log
}

// While something that the handler needs is down, one message probes from time to time and all others wait. That may take hours: no
// attempt is used, nothing is lost, and work resumes soon after the end.
func TestOutageOfHours(t *testing.T) {
	const messages, down, slowest = 40, 3 * time.Hour, 30 * time.Second
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := downFor(down)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log, Concurrency: 4, ProbeMin: time.Second, ProbeMax: slowest})
		for i := range messages {
			publish(t, b.Client, rehop.Message{ID: fmt.Sprint(i), Key: "q"})
		}
		time.Sleep(down)
		b.AwaitEmpty("q")
		handled := make(map[string]int)
		probes := 0
		for _, r := range log.all() {
			if r.Attempt != 1 {
				t.Errorf("message %s at %v: got attempt %d, want 1", r.ID, r.at, r.Attempt)
			}
			if r.at < down {
				probes++
				continue
			}
			handled[r.ID]++
			within(t, "handled", r.at, down, down+2*slowest)
		}
		if len(handled) != messages {
			t.Errorf("messages handled: got %d, want %d", len(handled), messages)
		}
		// One probe takes from half of the longest pause to the whole; four workers begin together, and so at each end of a hold.
		least, most := int(down/slowest)/2, int(down/(slowest/2))*2
		if probes < least || probes > most {
			t.Errorf("runs of the handler in %v: got %d, want from %d to %d", down, probes, least, most)
		}
		if failed, _ := b.Depth("q.failed"); failed != 0 {
			t.Errorf("failed messages: got %d, want none", failed)
		}
	})
}

// A subscription that pauses has nothing to finish: draining it takes no time, and what it holds is in the queue again, with its attempts.
func TestDrainDuringOutage(t *testing.T) {
	const messages = 10
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(func(context.Context, *rehop.Delivery) error { return rehop.Unavailable(errNotYet) })
		sub := subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log, Concurrency: 4, ProbeMin: time.Minute, ProbeMax: time.Hour})
		for i := range messages {
			publish(t, b.Client, rehop.Message{ID: fmt.Sprint(i), Key: "q"})
		}
		time.Sleep(10 * time.Second)
		draining := startClock()
		if err := sub.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if took := draining.now(); took > time.Second {
			t.Errorf("draining took %v, want no time", took)
		}
		if ready, _ := b.Depth("q"); ready != messages {
			t.Errorf("%d messages in the queue, want %d", ready, messages)
		}
		done := newLogbook(func(context.Context, *rehop.Delivery) error { return nil })
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: done})
		b.AwaitEmpty("q")
		for _, r := range done.all() {
			if r.Attempt != 1 {
				t.Errorf("message %s: got attempt %d, want 1", r.ID, r.Attempt)
			}
		}
	})
}

// An outage of hours is one pause, in which the broker never has to take a message back, however many wait behind the one that probes.
func TestOutageIsOnePause(t *testing.T) {
	const messages, down = 30, 3 * time.Hour
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := downFor(down)
		client, events := openPausing(t, b)
		defer client.Close(context.Background())
		subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: log, Concurrency: 1, Prefetch: 4, ProbeMin: time.Second, ProbeMax: time.Minute})
		for i := range messages {
			publish(t, client, rehop.Message{ID: fmt.Sprint(i), Key: "q"})
		}
		time.Sleep(down + 2*time.Minute) // until a probe has found its end
		b.AwaitEmpty("q")
		handled := make(map[string]int)
		for _, r := range log.all() {
			if r.at >= down {
				handled[r.ID]++
			}
			if r.Attempt != 1 {
				t.Errorf("message %s at %v: got attempt %d, want 1", r.ID, r.at, r.Attempt)
			}
		}
		if len(handled) != messages {
			t.Errorf("messages handled: got %d, want %d", len(handled), messages)
		}
		events.wantOnePause(t)
	})
}

// A pause ends for no message in the broker's consumer timeout, however much of it slow handlers have used up before the pause and use up in
// each probe, and neither does what follows: no more is sent ahead than the prefetch allows.
func TestOutageOfSlowHandlers(t *testing.T) {
	const messages, down, each = 8, 3 * time.Hour, 6 * time.Minute
	for _, compat := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ40, broker.RabbitMQ43} {
		t.Run(compat.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				var runs atomic.Int64
				log := newLogbook(nil)
				log.answer = func(context.Context, *rehop.Delivery) error {
					run := runs.Add(1)
					time.Sleep(each)
					if run > 2 && log.now() < down {
						return rehop.Unavailable(errNotYet)
					}
					return nil
				}
				client, events := openPausing(t, b)
				defer client.Close(context.Background())
				subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: log, Timeout: 7 * time.Minute, Concurrency: 1, Prefetch: 4, ProbeMin: time.Second, ProbeMax: time.Minute})
				for i := range messages {
					publish(t, client, rehop.Message{ID: fmt.Sprint(i), Key: "q"})
				}
				time.Sleep(down + (messages+1)*each)
				b.AwaitEmpty("q")
				handled := make(map[string]int)
				for i, r := range log.all() {
					if r.at+each >= down || i < 2 {
						handled[r.ID]++
					}
				}
				for id, n := range handled {
					if n != 1 {
						t.Errorf("message %s was handled %d times, want once", id, n)
					}
				}
				if len(handled) != messages {
					t.Errorf("messages handled: got %d, want %d", len(handled), messages)
				}
				events.wantOnePause(t)
			}, rehoptest.WithServer(func(s *broker.Server) { s.Compat = compat }))
		})
	}
}

// A pause between probes that is longer than a message may be held comes to its end: other messages wait for the rest of it.
func TestOutageWithRareProbes(t *testing.T) {
	const down, rare = 3 * time.Hour, time.Hour
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := downFor(down)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log, ProbeMin: rare, ProbeMax: rare})
		publish(t, b.Client, rehop.Message{Key: "q"})
		time.Sleep(down + rare)
		b.AwaitEmpty("q")
		if n := len(log.all()); n < 4 || n > 7 {
			t.Errorf("runs of the handler: got %d, want one at the start and then one each %v to %v", n, rare/2, rare)
		}
	})
}

// An auto-delete queue, which ends with its last consumer, survives a pause, with all its messages and within the consumer timeout.
func TestOutageKeepsAutoDeleteQueue(t *testing.T) {
	const messages, down = 10, 3 * time.Hour
	for _, compat := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ43} {
		t.Run(compat.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				log := downFor(down)
				client, events := openPausing(t, b)
				defer client.Close(context.Background())
				subscribe(t, client, rehop.Subscriber{Queue: "q", AutoDelete: true, Handler: log})
				for i := range messages {
					publish(t, client, rehop.Message{ID: fmt.Sprint(i), Key: "q"})
				}
				time.Sleep(down + time.Minute)
				b.AwaitEmpty("q")
				handled := make(map[string]bool)
				for _, r := range log.all() {
					if r.at >= down {
						handled[r.ID] = true
					}
				}
				if len(handled) != messages {
					t.Errorf("messages handled: got %d, want %d", len(handled), messages)
				}
				events.wantOnePause(t)
			}, rehoptest.WithServer(func(s *broker.Server) { s.Compat = compat }))
		})
	}
}

// pauseBook counts pauses, lost consumers and deliveries whose session ended before they were settled.
type pauseBook struct {
	mu                           sync.Mutex
	paused, resumed, lost, taken int
}

func (p *pauseBook) OnResult(_ context.Context, _ *rehop.Delivery, r rehop.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Outcome == rehop.OutcomeLost {
		p.taken++
	}
}

func (p *pauseBook) OnPause(e rehop.PauseEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Paused {
		p.paused++
	} else {
		p.resumed++
	}
}

func (p *pauseBook) OnConsumer(e rehop.ConsumerEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !e.Up && !e.Ended {
		p.lost++
	}
}

// wantOnePause checks that there was one pause, which is over, and that the broker took nothing away in it.
func (p *pauseBook) wantOnePause(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused != 1 || p.resumed != 1 || p.lost != 0 || p.taken != 0 {
		t.Errorf("got %d pauses, %d ends of one, %d lost consumers and %d messages that the broker took away, want 1, 1, 0 and 0", p.paused, p.resumed, p.lost, p.taken)
	}
}

// A subscription that stops while it pauses reports that the pause is over.
func TestStopEndsPause(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		client, events := openPausing(t, b)
		defer client.Close(context.Background())
		sub := subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: newLogbook(func(context.Context, *rehop.Delivery) error { return rehop.Unavailable(errNotYet) })})
		publish(t, client, rehop.Message{Key: "q"})
		time.Sleep(10 * time.Minute)
		if err := sub.Stop(); err != nil {
			t.Error(err)
		}
		events.wantOnePause(t)
	})
}

// openPausing opens a client whose pauses are counted.
func openPausing(t *testing.T, b *rehoptest.Broker) (*rehop.Client, *pauseBook) {
	t.Helper()
	events := &pauseBook{}
	config := b.Config()
	config.Hooks = append(config.Hooks, rehop.Hooks{OnResult: events.OnResult, OnPause: events.OnPause, OnConsumer: events.OnConsumer})
	client, err := rehop.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return client, events
}

package rehop_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// While something that the handler needs is down, one message probes from time to time and all others wait. That may take hours: no
// attempt is burnt, nothing is lost, and work goes on soon after the end.
func TestOutageOfHours(t *testing.T) {
	const messages, down, slowest = 40, 3 * time.Hour, 30 * time.Second
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		began := startClock()
		log := newLogbook(func(context.Context, *rehop.Delivery) error {
			if began.now() < down {
				return rehop.Unavailable(errNotYet)
			}
			return nil
		})
		subscribe(t, b.Client, rehop.Subscription{Queue: "q", Handler: log, Concurrency: 4, ProbeMin: time.Second, ProbeMax: slowest})
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
		sub := subscribe(t, b.Client, rehop.Subscription{Queue: "q", Handler: log, Concurrency: 4, ProbeMin: time.Minute, ProbeMax: time.Hour})
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
		subscribe(t, b.Client, rehop.Subscription{Queue: "q", Handler: done})
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
		began := startClock()
		log := newLogbook(func(context.Context, *rehop.Delivery) error {
			if began.now() < down {
				return rehop.Unavailable(errNotYet)
			}
			return nil
		})
		client, events := openPausing(t, b)
		defer client.Close(context.Background())
		subscribe(t, client, rehop.Subscription{Queue: "q", Handler: log, Concurrency: 1, Prefetch: 4, ProbeMin: time.Second, ProbeMax: time.Minute})
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
		if paused, resumed, lost := events.counts(); paused != 1 || resumed != 1 || lost != 0 {
			t.Errorf("got %d pauses, %d ends of one and %d lost consumers, want 1, 1 and 0", paused, resumed, lost)
		}
	})
}

// pauseBook counts pauses and lost consumers.
type pauseBook struct {
	mu                    sync.Mutex
	paused, resumed, lost int
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
	if !e.Up {
		p.lost++
	}
}

func (p *pauseBook) counts() (paused, resumed, lost int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused, p.resumed, p.lost
}

// A subscription that stops while it pauses says that the pause is over: nobody else will.
func TestStopEndsPause(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		client, events := openPausing(t, b)
		defer client.Close(context.Background())
		sub := subscribe(t, client, rehop.Subscription{Queue: "q", Handler: newLogbook(func(context.Context, *rehop.Delivery) error { return rehop.Unavailable(errNotYet) })})
		publish(t, client, rehop.Message{Key: "q"})
		time.Sleep(10 * time.Minute)
		if err := sub.Stop(); err != nil {
			t.Error(err)
		}
		if paused, resumed, lost := events.counts(); paused != 1 || resumed != 1 || lost != 0 {
			t.Errorf("got %d pauses, %d ends of one and %d lost consumers, want 1, 1 and 0", paused, resumed, lost)
		}
	})
}

// openPausing opens a client whose pauses are counted.
func openPausing(t *testing.T, b *rehoptest.Broker) (*rehop.Client, *pauseBook) {
	t.Helper()
	events := &pauseBook{}
	config := b.Config()
	config.Hooks = append(config.Hooks, events)
	client, err := rehop.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return client, events
}

package rehop_test

import (
	"context"
	"fmt"
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

package connections

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
)

// events remembers what a client's hooks receive, and when.
type events struct {
	mu        sync.Mutex
	states    []rehop.StateChange
	consumers []consumerEvent
	published []error
	changed   chan struct{}
}

type consumerEvent struct {
	rehop.ConsumerEvent
	at time.Time
}

func (e *events) record(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

func (e *events) hooks() []rehop.Hooks {
	return []rehop.Hooks{{OnState: e.OnState, OnConsumer: e.OnConsumer, OnPublishEnd: e.OnPublishEnd}}
}

func (e *events) OnState(s rehop.StateChange) {
	e.record(func() { e.states = append(e.states, s) })
}

func (e *events) OnConsumer(c rehop.ConsumerEvent) {
	if c.Ended {
		return
	}
	e.record(func() { e.consumers = append(e.consumers, consumerEvent{c, time.Now()}) })
}

func (e *events) OnPublishEnd(_ context.Context, _ *rehop.Message, _ time.Duration, err error) {
	e.record(func() { e.published = append(e.published, err) })
}

// await waits until a condition holds, which is looked at after every event.
func (e *events) await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(kit.Limit)
	for {
		e.mu.Lock()
		done := condition()
		if e.changed == nil {
			e.changed = make(chan struct{})
		}
		changed := e.changed
		e.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			e.mu.Lock()
			defer e.mu.Unlock()
			t.Fatalf("after %v still not: %s\nstates: %v\nconsumers: %v", kit.Limit, what, e.states, e.consumers)
		}
	}
}

// ups is how often the consumer of a queue began to receive.
func (e *events) ups(queue string) int { return e.countConsumer(queue, true) }

// downs is how often it ceased to.
func (e *events) downs(queue string) int { return e.countConsumer(queue, false) }

// downsOf is downs for one who does not hold the lock.
func (e *events) downsOf(queue string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.downs(queue)
}

// isUp reports whether the last event of a queue's consumer is that it receives messages.
func (e *events) isUp(queue string) bool {
	for _, c := range slices.Backward(e.consumers) {
		if c.Queue == queue {
			return c.Up
		}
	}
	return false
}

func (e *events) countConsumer(queue string, up bool) int {
	n := 0
	for _, c := range e.consumers {
		if c.Queue == queue && c.Up == up {
			n++
		}
	}
	return n
}

// in is how often a connection entered a state.
func (e *events) in(connection string, s rehop.State) int {
	n := 0
	for _, c := range e.states {
		if c.Connection == connection && c.State == s {
			n++
		}
	}
	return n
}

// errors are all that hooks received.
func (e *events) errors() []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := append([]error(nil), e.published...)
	for _, s := range e.states {
		all = append(all, s.Err)
	}
	for _, c := range e.consumers {
		all = append(all, c.Err)
	}
	return all
}

// settle handles a first message. A subscription begins carefully, with one message at a time, and
// then opens its session again: what follows is not to be mixed up with that.
func settle(t testing.TB, c *rehop.Client, e *events, queue string, got <-chan *rehop.Delivery) {
	t.Helper()
	kit.Publish(t, c, rehop.Message{ID: "settle", Key: queue})
	if d := kit.Receive(t, got, "first message"); d.ID != "settle" || d.Queue != queue {
		t.Fatalf("got %q from %q, want the first message of %q", d.ID, d.Queue, queue)
	}
	e.await(t, "second session of "+queue, func() bool { return e.ups(queue) >= 2 })
}

// wantUntouched checks that a subscription was never interrupted, and no connection reopened.
func wantUntouched(t testing.TB, w *kit.Wire, e *events, queue string) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := e.downs(queue); n != 0 {
		t.Errorf("the subscription to %q was interrupted %d times, want 0", queue, n)
	}
	if n := w.Dials(); n != 2 {
		t.Errorf("got %d dials, want 2: connections must not be touched", n)
	}
}

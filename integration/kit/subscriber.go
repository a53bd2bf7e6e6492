package kit

import (
	"context"
	"sync"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/lab"
)

// Nop is a handler that does nothing.
var Nop = rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })

// Into is a handler that hands its deliveries on.
func Into(got chan<- *rehop.Delivery) rehop.Handler {
	return rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		got <- d
		return nil
	})
}

// Subscribe begins a subscription.
func Subscribe(t testing.TB, c *rehop.Client, s rehop.Subscriber) *rehop.Subscription {
	t.Helper()
	sub, err := c.Subscribe(Context(t), s)
	if err != nil {
		t.Fatalf("subscribe to %q: %v", s.Queue, err)
	}
	return sub
}

// Drain ends a subscription when its handlers have finished.
func Drain(t testing.TB, sub *rehop.Subscription) {
	t.Helper()
	if err := sub.Drain(Context(t)); err != nil {
		t.Errorf("drain: got %v, want nil", err)
	}
}

// Attempts is a handler that fails all attempts of one message, up to a last one. See Leave.
type Attempts struct {
	Last   int                                                // at which Leave ends the subscription
	Answer func(ctx context.Context, d *rehop.Delivery) error // what the handler returns

	once    sync.Once
	reached chan struct{}
	leaving chan struct{}
}

// NewAttempts returns a handler for the given number of attempts.
func NewAttempts(last int, answer func(ctx context.Context, d *rehop.Delivery) error) *Attempts {
	return &Attempts{Last: last, Answer: answer, reached: make(chan struct{}), leaving: make(chan struct{})}
}

// Handle calls Answer, at the last attempt when Leave has the broker send no more.
func (a *Attempts) Handle(ctx context.Context, d *rehop.Delivery) error {
	if d.Attempt == a.Last {
		a.once.Do(func() { close(a.reached) })
		<-a.leaving
	}
	return a.Answer(ctx, d)
}

// Leave waits for the last attempt and ends the subscription with it, so that the message does not come back to it,
// however short its delay is.
func (a *Attempts) Leave(t testing.TB, sub *rehop.Subscription) {
	t.Helper()
	Receive(t, a.reached, "the last attempt")
	drained := make(chan error, 1)
	go func() { drained <- sub.Drain(Context(t)) }()
	lab.Eventually(t, Limit, "the subscription receives no more", func() bool { return !sub.Receiving() })
	close(a.leaving)
	if err := Receive(t, drained, "the end of the subscription"); err != nil {
		t.Errorf("drain: got %v, want nil", err)
	}
}

// Stop ends a subscription at once.
func Stop(t testing.TB, sub *rehop.Subscription) {
	t.Helper()
	if err := sub.Stop(); err != nil {
		t.Errorf("stop: got %v, want nil", err)
	}
}

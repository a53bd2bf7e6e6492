package kit

import (
	"context"
	"testing"

	"github.com/rehop/rehop"
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

// Stop ends a subscription at once.
func Stop(t testing.TB, sub *rehop.Subscription) {
	t.Helper()
	if err := sub.Stop(); err != nil {
		t.Errorf("stop: got %v, want nil", err)
	}
}

package layouts

import (
	"context"
	"errors"
	"time"

	"github.com/rehop/rehop"
)

// errFailed is what a failing handler returns.
var errFailed = errors.New("it does not work")

// Rule is what a handler answers to a delivery.
type Rule func(*rehop.Delivery) error

func succeeds(*rehop.Delivery) error { return nil }
func fails(*rehop.Delivery) error    { return errFailed }

// failsUntil fails the attempts before one.
func failsUntil(attempt int) Rule {
	return func(d *rehop.Delivery) error {
		if d.Attempt < attempt {
			return errFailed
		}
		return nil
	}
}

// waitsThenFails is a handler that reports that it has begun, and fails when it may.
func waitsThenFails(began chan<- struct{}, may <-chan struct{}) rehop.HandlerFunc {
	return func(ctx context.Context, _ *rehop.Delivery) error {
		began <- struct{}{}
		select {
		case <-may:
		case <-ctx.Done():
		}
		return errFailed
	}
}

// Desk is a handler that answers by a rule, and reports each delivery to the test.
type Desk struct {
	b    *Bench
	rule Rule
	seen chan Seen
}

// Seen is a delivery that was handled.
type Seen struct {
	rehop.Delivery
	At time.Time
}

// Desk makes one.
func (b *Bench) Desk(rule Rule) *Desk { return &Desk{b: b, rule: rule, seen: make(chan Seen, 1000)} }

// Handle answers.
func (d *Desk) Handle(_ context.Context, delivery *rehop.Delivery) error {
	select {
	case d.seen <- Seen{*delivery, time.Now()}:
		return d.rule(delivery)
	default: // an end to a loop that would have none
		d.b.t.Errorf("queue %q: %d messages were handled that the test did not wait for", delivery.Queue, cap(d.seen))
		return nil
	}
}

// Next waits for the next delivery.
func (d *Desk) Next() Seen {
	d.b.t.Helper()
	return receive(d.b, d.seen, d.b.limit(), "rehop handles a message")
}

// NextAttempt waits for the next delivery and checks which attempt it is.
func (d *Desk) NextAttempt(want int) Seen {
	d.b.t.Helper()
	s := d.Next()
	if s.Attempt != want {
		d.b.t.Fatalf("message %q: got attempt %d, want %d", s.Body, s.Attempt, want)
	}
	return s
}

// WantBodies waits for these messages, in any order, and checks that there were no others before the last of them.
func (d *Desk) WantBodies(want ...string) {
	d.b.t.Helper()
	left := make(map[string]int)
	for _, body := range want {
		left[body]++
	}
	for range want {
		s := d.Next()
		if left[string(s.Body)]--; left[string(s.Body)] < 0 {
			d.b.t.Fatalf("queue %q: got message %q once more than wanted; want %q", s.Queue, s.Body, want)
		}
	}
}

// WantNone checks that nothing was handled that the test has not seen.
func (d *Desk) WantNone() {
	d.b.t.Helper()
	select {
	case s := <-d.seen:
		d.b.t.Errorf("queue %q: got message %q, attempt %d, want none", s.Queue, s.Body, s.Attempt)
	default:
	}
}

package rehop

import (
	"context"
	"fmt"

	"github.com/rehop/rehop/internal/consume"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// Subscription is a running subscription.
type Subscription struct {
	config  Subscriber
	queue   topology.Queue // as declared
	running *consume.Subscription
}

// Subscribe declares what the subscription needs and starts to handle messages. If the broker cannot
// be reached now, that happens as soon as it can. If the broker refuses something, Subscribe returns a
// *TopologyError.
//
// ctx limits the start, and its values reach the handler's context. The subscription runs until
// [Subscription.Stop], [Subscription.Drain] or [Client.Close].
func (c *Client) Subscribe(ctx context.Context, config Subscriber) (*Subscription, error) {
	config = config.withDefaults(c.native)
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("rehop: subscription %q: %w", config.Queue, err)
	}
	forms, err := config.forms(c.native)
	if err != nil {
		return nil, fmt.Errorf("rehop: subscription %q: %w", config.Queue, err)
	}
	settings := config.settings(forms)
	s := &Subscription{config: config, queue: settings.Declared}
	settings.Events = c.events(s)
	s.running = consume.New(&c.consuming, settings)
	if c.State() == StateOpen || c.State() == StateBlocked {
		if err := s.running.Open(ctx); err != nil && (rabbit.Permanent(err) || ctx.Err() != nil) {
			return nil, fmt.Errorf("rehop: subscribe to %q: %w", config.Queue, publicError(err))
		}
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		s.running.Abort()
		return nil, fmt.Errorf("rehop: subscribe to %q: %w", config.Queue, ErrClosed)
	}
	c.subscriptions[s] = struct{}{}
	base := context.WithoutCancel(ctx)
	c.background.Go(func() { s.running.Supervise(base) })
	c.mu.Unlock()
	s.running.Work(base)
	return s, nil
}

// forget removes a subscription that has ended. It reports whether it was the last one to its queue.
func (c *Client) forget(s *Subscription) (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.subscriptions, s)
	for other := range c.subscriptions {
		if other.config.Queue == s.config.Queue {
			return false
		}
	}
	return true
}

// Queue is the name of the queue.
func (s *Subscription) Queue() string { return s.config.Queue }

// Receiving reports whether the broker sends messages to the subscription. While it drains or stops it
// is false as soon as the broker has canceled the consumer.
func (s *Subscription) Receiving() bool { return s.running.Receiving() }

// Closed is closed when the subscription has ended.
func (s *Subscription) Closed() <-chan struct{} { return s.running.Closed() }

// Drain stops receiving and lets handlers finish what was received. It returns nil when the broker has
// all acks. When ctx ends first, Drain continues like Stop and returns an error.
//
// A message that waits because of [Subscriber.Rate] goes back to its queue at once. Where the queue is
// deleted with the subscription or the client (AutoDelete, Exclusive), it is handled when the rate
// allows it. If ctx ends first, it is lost with the queue, and Drain returns an error.
//
// Handlers have the time of [Subscriber.Timeout] and [Subscriber.StuckAfter]. The broker has 30 s to
// confirm a failed message in its delay or failed queue, and half as long after each one that it did
// not confirm, for example because of a memory alarm: a minute in all. Such messages go back to the
// queue, this attempt does not count, and the error has their number. Drain does not wait either for a
// broker that does not answer for 30 s.
//
// In a handler or hook of this subscription, Drain does nothing and returns an error, because it would
// wait for itself.
func (s *Subscription) Drain(ctx context.Context) error { return s.running.Drain(ctx) }

// Stop starts no more handlers and cancels the contexts of running ones. Messages that they do not
// finish go back to the queue, and no attempt is used. Stop waits for handlers for
// [Subscriber.StopGrace]. The message of a handler that runs longer goes back while the handler still
// runs, and Stop returns an error. A failed message that the broker does not confirm within 2 s goes
// back, too. In a handler or hook of this subscription, Stop does nothing and returns an error, because
// it would wait for itself.
func (s *Subscription) Stop() error { return s.running.Stop() }

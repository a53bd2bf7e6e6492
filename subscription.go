package rehop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rehop/rehop/internal/consume"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// Subscription is a running subscription.
type Subscription struct {
	config Subscriber
	queue  topology.Queue          // as declared
	parts  []*consume.Subscription // one for each queue: see Subscriber.Partitions
	live   map[string]bool         // the queues of those that have not ended; the client's mutex protects it
	closed chan struct{}
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
	s := &Subscription{config: config, queue: settings[0].Declared, live: make(map[string]bool), closed: make(chan struct{})}
	for _, part := range settings {
		s.live[part.Queue] = true
		part.Events = c.events(s, part.Queue)
		s.parts = append(s.parts, consume.New(&c.consuming, part))
	}
	abort := func(err error) (*Subscription, error) {
		for _, part := range s.parts {
			part.Abort()
		}
		return nil, fmt.Errorf("rehop: subscribe to %q: %w", config.Queue, err)
	}
	if c.State() == StateOpen || c.State() == StateBlocked {
		for _, part := range s.parts {
			if err := part.Open(ctx); err != nil && (rabbit.Permanent(err) || ctx.Err() != nil) {
				return abort(config.explain(publicError(err)))
			}
		}
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return abort(ErrClosed)
	}
	c.subscriptions[s] = struct{}{}
	base := context.WithoutCancel(ctx)
	for _, part := range s.parts {
		c.background.Go(func() { part.Supervise(base) })
	}
	c.background.Go(func() {
		for _, part := range s.parts {
			<-part.Closed()
		}
		close(s.closed)
	})
	c.mu.Unlock()
	for _, part := range s.parts {
		part.Work(base)
	}
	return s, nil
}

// forget notes that a subscription to a queue has ended. It reports whether it was the last one.
func (c *Client) forget(s *Subscription, queue string) (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(s.live, queue); len(s.live) == 0 {
		delete(c.subscriptions, s)
	}
	for other := range c.subscriptions {
		if other.live[queue] {
			return false
		}
	}
	return true
}

// Queue is the name of the queue.
func (s *Subscription) Queue() string { return s.config.Queue }

// Receiving reports whether the broker sends messages to the subscription. While it drains or stops it
// is false as soon as the broker has canceled the consumer.
func (s *Subscription) Receiving() bool {
	return slices.ContainsFunc(s.parts, (*consume.Subscription).Receiving)
}

// Closed is closed when the subscription has ended.
func (s *Subscription) Closed() <-chan struct{} { return s.closed }

// each calls a function that ends the subscription to each queue, at once.
func (s *Subscription) each(what string, end func(part *consume.Subscription) error) error {
	for _, part := range s.parts {
		if err := part.FromInside(what); err != nil {
			return err
		}
	}
	faults := make([]error, len(s.parts))
	var ending sync.WaitGroup
	for i, part := range s.parts {
		ending.Go(func() { faults[i] = end(part) })
	}
	ending.Wait()
	for _, part := range s.parts {
		select {
		case <-part.Closed():
		default: // it was given up
			return errors.Join(faults...)
		}
	}
	<-s.closed
	return errors.Join(faults...)
}

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
func (s *Subscription) Drain(ctx context.Context) error {
	return s.each("drain", func(part *consume.Subscription) error { return part.Drain(ctx) })
}

// Stop starts no more handlers and cancels the contexts of running ones. Messages that they do not
// finish go back to the queue, and no attempt is used. Stop waits for handlers for
// [Subscriber.StopGrace]. The message of a handler that runs longer goes back while the handler still
// runs, and Stop returns an error. A failed message that the broker does not confirm within 10 s goes
// back, too, and within 2 s if it is blocked or cannot be reached. In a handler or hook of this
// subscription, Stop does nothing and returns an error, because it would wait for itself.
func (s *Subscription) Stop() error { return s.each("stop", (*consume.Subscription).Stop) }

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
	queue   topology.Queue // as it is declared
	running *consume.Subscription
}

// Subscribe declares what the subscription needs and begins to handle messages. If the broker cannot
// be reached now, that happens when it can. What the broker refuses is a *TopologyError.
//
// ctx bounds the start, and its values reach the handler's context; the subscription ends with
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
	c.background.Go(s.running.Supervise)
	c.mu.Unlock()
	s.running.Work(context.WithoutCancel(ctx))
	return s, nil
}

// forget is called when a subscription has ended. It reports whether the client has no other one to
// the same queue.
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

// Receiving reports whether the broker sends messages to the subscription, as [Hooks].OnConsumer
// reports it.
func (s *Subscription) Receiving() bool { return s.running.Receiving() }

// Closed is closed when the subscription has ended.
func (s *Subscription) Closed() <-chan struct{} { return s.running.Closed() }

// Drain receives no more, and lets what has been received be handled. It returns nil when the broker
// knows of all that. When ctx ends before, it continues as Stop does, and the error says so.
//
// A message that waits because of [Subscriber.Rate] goes back to its queue at once. Where the queue
// ends with the subscription or the client (Exclusive, AutoDelete), it is handled when the rate
// allows it. If ctx ends before, it is lost with the queue, and the error says so.
//
// Handlers have the time that [Subscriber.Timeout] and [Subscriber.StuckAfter] give them. The broker has 30 s to take a message that
// failed, and half as long after each one that it has not taken, because of a memory alarm for example: a minute in all. Such
// messages go back to the queue, this attempt does not count, and the error says how many they are. A broker that does not answer at all
// for 30 s is not waited for either.
//
// Called by a handler or hook of this subscription, Drain does nothing and returns an error, as it would wait for itself.
func (s *Subscription) Drain(ctx context.Context) error { return s.running.Drain(ctx) }

// Stop begins no more handlers and cancels the contexts of those that run. What they do not finish
// goes back to the queue, and no attempt is used. It waits for them for [Subscriber.StopGrace]. A handler that ignores its context
// for longer does not keep Stop from returning: its message goes back while it still runs, and Stop says so. A message that has failed and that
// the broker does not take within 2 s goes back, too. Called by a handler or hook of this subscription, Stop does nothing and returns an
// error, as it would wait for itself.
func (s *Subscription) Stop() error { return s.running.Stop() }

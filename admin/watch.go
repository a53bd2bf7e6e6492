package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// WatchOptions are what Watch watches: an exchange or a queue.
type WatchOptions struct {
	// Exchange watches the messages that an exchange routes to permanent queues, which are neither exclusive nor auto-delete, by the
	// bindings that exist when the watch begins. It needs the management API. Messages that are not routed to such a queue are not
	// seen; messages that are routed to another exchange are seen when you watch that one.
	Exchange string
	// Keys are binding keys to use instead of the existing bindings. For the broker, the watch is then a queue like any other: a message that
	// no other queue is bound for counts as routed, is confirmed and not kept in the unrouted queue, and is lost with the watch.
	// Default: the existing bindings.
	Keys []string
	// Queue watches the messages that arrive in a queue through its bindings. It needs the management API. Messages that are published
	// to the queue by name, through the default exchange, are not seen.
	Queue string
	// Began is called when the watch has begun: messages that are published from then on are seen. Default: none.
	Began func()
}

const (
	watchPrefix   = "rehop.watch."
	watchLength   = 10_000 // messages that the broker keeps for a slow watcher; it drops the oldest of more
	watchPrefetch = 256
)

// ErrWatchEnded: the connection was lost, or the broker has deleted the queue of the watch. Messages since then were not seen.
var ErrWatchEnded = errors.New("the watch has ended: the connection is lost, or the broker has deleted its queue")

// Watch calls see for each message that passes, until ctx ends or see returns an error, and returns that error. Other consumers receive
// all messages as before: the broker routes copies to a queue of the watch, which is deleted when the watch ends. If see is slow, the
// broker drops the oldest of more than 10,000 copies.
func (a *Admin) Watch(ctx context.Context, o WatchOptions, see func(Message) error) error {
	plan, err := a.watchPlan(ctx, o)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	queue := plan.Queues[0].Name
	session, err := a.read.OpenSession(ctx, rabbit.ConsumeOptions{Queue: queue, Plan: plan}, watchPrefetch)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	stop := context.AfterFunc(ctx, session.Close)
	defer func() {
		if stop() {
			session.Close()
		}
	}()
	if o.Began != nil {
		o.Began()
	}
	passing := place{layout: layouts.Native{}, source: queue}
	for {
		d, ok := session.Next()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !ok:
			return ErrWatchEnded
		}
		if err := see(passing.read(d.Delivery)); err != nil {
			return err
		}
		d.Ack()
	}
}

// watchPlan is the queue of a watch, with its bindings.
func (a *Admin) watchPlan(ctx context.Context, o WatchOptions) (topology.Plan, error) {
	own := topology.Queue{Name: watchPrefix + rabbit.NewID(), Exclusive: true, AutoDelete: true, Args: topology.Args{"x-max-length": int64(watchLength)}}
	plan := topology.Plan{Queues: []topology.Queue{own}}
	switch {
	case (o.Exchange == "") == (o.Queue == ""):
		return plan, errors.New("name either an exchange or a queue; the default exchange cannot be watched")
	case o.Exchange != "" && len(o.Keys) > 0:
		for _, key := range o.Keys {
			plan.Bindings = append(plan.Bindings, topology.Binding{Source: o.Exchange, Destination: own.Name, Key: key})
		}
		return plan, nil
	}
	live, err := a.Live(ctx)
	if err != nil {
		return plan, err
	}
	copied, err := watchable(live, o)
	if err != nil {
		return plan, err
	}
	if copied, err = a.newTyping().of(ctx, copied); err != nil {
		return plan, err
	}
	for _, b := range copied {
		b.Destination, b.ToExchange = own.Name, false
		if !slices.ContainsFunc(plan.Bindings, b.Equal) {
			plan.Bindings = append(plan.Bindings, b)
		}
	}
	return plan, nil
}

// watchable are the bindings that a watch can copy without making unroutable messages routable.
func watchable(live topology.Live, o WatchOptions) ([]topology.Binding, error) {
	if _, exists := live.Queue(o.Queue); o.Queue != "" && !exists {
		return nil, fmt.Errorf("%w: %q", ErrNoQueue, o.Queue)
	}
	if _, exists := live.Exchange(o.Exchange); o.Exchange != "" && !exists {
		return nil, fmt.Errorf("no exchange %q", o.Exchange)
	}
	bindings := slices.DeleteFunc(slices.Clone(live.Bindings), func(b topology.Binding) bool {
		if o.Queue != "" {
			return b.ToExchange || b.Destination != o.Queue
		}
		return b.Source != o.Exchange || !keeps(live, b)
	})
	switch {
	case len(bindings) > 0:
		return bindings, nil
	case o.Queue != "":
		return nil, fmt.Errorf("queue %q has no bindings: messages arrive only by its name, through the default exchange, which cannot be watched", o.Queue)
	}
	return nil, fmt.Errorf("exchange %q has no bindings to a permanent queue, one that is neither exclusive nor auto-delete: to watch it anyway, give binding keys", o.Exchange)
}

// keeps reports whether messages of a binding reach a queue that lasts as long as the watch. Queues of a connection can be deleted at any time, and
// another exchange may have no bindings; but the exchange of a migration always has one.
func keeps(live topology.Live, b topology.Binding) bool {
	if b.ToExchange {
		return layouts.Migrated(b.Destination) != b.Destination
	}
	q, exists := live.Queue(b.Destination)
	return exists && !q.Exclusive && !q.AutoDelete
}

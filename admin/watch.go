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

// WatchOptions say what to watch: an exchange, or a queue.
type WatchOptions struct {
	// Exchange: copies of what the exchange routes to queues that last, by the bindings that these have when watching begins. The
	// management API tells them. What no such queue is bound for is not seen, and what goes on to another exchange is seen there.
	Exchange string
	// Keys to bind with instead. To the broker the watcher is then a queue like any other: what nobody else is bound for counts as
	// routed, is confirmed, is not kept with the unrouted, and ends with the watch.
	Keys []string
	// Queue: copies of what comes to the queue by its bindings, which the management API tells. What is published to it by name,
	// through the default exchange, is not seen.
	Queue string
	// Began is called when watching has begun: what is published from then on is seen.
	Began func()
}

const (
	watchPrefix   = "rehop.watch."
	watchLength   = 10_000 // messages that the broker keeps for a watcher who is slow; the oldest of more are dropped
	watchPrefetch = 256
)

// ErrWatchEnded: the broker or the connection has ended a watch. What has passed since is not seen.
var ErrWatchEnded = errors.New("the watch has ended: the connection is lost, or the broker has deleted its queue")

// Watch calls see for each message that passes, until ctx ends or see returns an error, which is returned then. It takes no message away from
// anybody: the broker makes copies for a queue of the watcher's own, which is bound beside the others and ends with the watch.
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

// watchPlan is the watcher's queue with its bindings.
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

// watchable are the bindings that a watcher can have too without making a route where there is none.
func watchable(live topology.Live, o WatchOptions) (bindings []topology.Binding, err error) {
	if o.Queue != "" {
		if _, exists := live.Queue(o.Queue); !exists {
			return nil, fmt.Errorf("%w: %q", ErrNoQueue, o.Queue)
		}
		for _, b := range live.Bindings {
			if b.Destination == o.Queue && !b.ToExchange {
				bindings = append(bindings, b)
			}
		}
		if len(bindings) == 0 {
			err = fmt.Errorf("queue %q has no bindings: messages come to it by its name alone, and of those the broker makes no copies", o.Queue)
		}
		return bindings, err
	}
	if _, exists := live.Exchange(o.Exchange); !exists {
		return nil, fmt.Errorf("no exchange %q", o.Exchange)
	}
	for _, b := range live.Bindings {
		if b.Source == o.Exchange && keeps(live, b) {
			bindings = append(bindings, b)
		}
	}
	if len(bindings) == 0 {
		err = fmt.Errorf("exchange %q leads to no queue that lasts: there is nothing to watch, unless by keys of the watcher's own", o.Exchange)
	}
	return bindings, err
}

// keeps reports whether what follows a binding is in a queue for as long as the watch may take. Queues of a connection go away without notice;
// another exchange may lead nowhere, but for one that a migration puts before a queue, which never does.
func keeps(live topology.Live, b topology.Binding) bool {
	if b.ToExchange {
		return layouts.Moved(b.Destination) != b.Destination
	}
	q, exists := live.Queue(b.Destination)
	return exists && !q.Exclusive && !q.AutoDelete
}

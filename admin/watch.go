package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/internal/topology"
	"github.com/rehop/rehop/layout"
)

// WatchOptions say what to watch: an exchange, or a queue.
type WatchOptions struct {
	// Exchange and Keys: what the exchange routes by one of the binding keys. Default of Keys: "#", which is everything on a
	// topic, fanout or headers exchange.
	Exchange string
	Keys     []string
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
	passing := place{layout: layout.Native{}, source: queue}
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
func (a *Admin) watchPlan(ctx context.Context, o WatchOptions) (layout.Plan, error) {
	own := topology.Queue{Name: watchPrefix + rabbit.NewID(), Exclusive: true, AutoDelete: true, Args: topology.Args{"x-max-length": int64(watchLength)}}
	plan := layout.Plan{Queues: []topology.Queue{own}}
	switch {
	case (o.Exchange == "") == (o.Queue == ""):
		return plan, errors.New("name either an exchange or a queue; the default exchange cannot be watched")
	case o.Exchange != "":
		keys := o.Keys
		if len(keys) == 0 {
			keys = []string{"#"}
		}
		for _, key := range keys {
			plan.Bindings = append(plan.Bindings, topology.Binding{Source: o.Exchange, Destination: own.Name, Key: key})
		}
		return plan, nil
	}
	live, err := a.Live(ctx)
	if err != nil {
		return plan, err
	}
	if _, exists := live.Queue(o.Queue); !exists {
		return plan, fmt.Errorf("%w: %q", ErrNoQueue, o.Queue)
	}
	for _, b := range live.Bindings {
		if b.Destination == o.Queue && !b.ToExchange {
			b.Destination = own.Name
			if b.Args, err = declarable(b.Args); err != nil {
				return plan, fmt.Errorf("binding from %q: %w", b.Source, err)
			}
			plan.Bindings = append(plan.Bindings, b)
		}
	}
	if len(plan.Bindings) == 0 {
		return plan, fmt.Errorf("queue %q has no bindings: messages come to it by its name alone, and of those the broker makes no copies", o.Queue)
	}
	return plan, nil
}

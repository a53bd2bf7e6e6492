package rehopotel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/rehop/rehop/admin"
)

// Overviewer tells what is on a broker: an *admin.Admin with the management API.
type Overviewer interface {
	Queues(ctx context.Context) (admin.Overview, error)
}

// lookLimit is how long one look at the broker may hold up a collection of metrics.
const lookLimit = 5 * time.Second

// Watch has the depths of rehop's queues reported whenever metrics are collected: what no client knows by itself. One process for each
// virtual host is enough; where several watch, they report the same. It ends with Unregister.
func Watch(broker Overviewer, config Config) (metric.Registration, error) {
	w := workshop{meter: config.withDefaults().meter()}
	var (
		messages  = w.observed("rehop.queue.messages", "{message}", "Messages of a queue that are ready, in the hands of consumers, or at rest in its failed queue")
		consumers = w.observed("rehop.queue.consumers", "{consumer}", "Consumers of a queue, of all processes")
		waiting   = w.observed("rehop.waiting.messages", "{message}", "Messages that wait for their next attempt or for their time, by the queue in which they do")
		orphans   = w.observed("rehop.orphans.messages", "{message}", "Messages that lost their queue while they waited")
		unrouted  = w.observed("rehop.unrouted.messages", "{message}", "Messages that were kept because no queue was bound for them")
	)
	if err := errors.Join(w.faults...); err != nil {
		return nil, fmt.Errorf("rehopotel: %w", err)
	}
	look := func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, lookLimit)
		defer cancel()
		seen, err := broker.Queues(ctx)
		if err != nil {
			return fmt.Errorf("rehopotel: look at the broker's queues: %w", err)
		}
		for _, q := range seen.Queues {
			for state, n := range map[string]int{"ready": q.Ready, "unacked": q.Unacked, "failed": q.Failed} {
				o.ObserveInt64(messages, int64(n), with(keyQueue.String(q.Name), keyState.String(state)))
			}
			o.ObserveInt64(consumers, int64(q.Consumers), with(keyQueue.String(q.Name)))
		}
		for _, wait := range seen.DelayQueues {
			o.ObserveInt64(waiting, int64(wait.Messages), with(keyWait.String(wait.Name)))
		}
		o.ObserveInt64(orphans, int64(seen.Orphans))
		o.ObserveInt64(unrouted, int64(seen.Unrouted))
		return nil
	}
	registration, err := w.meter.RegisterCallback(look, messages, consumers, waiting, orphans, unrouted)
	if err != nil {
		return nil, fmt.Errorf("rehopotel: %w", err)
	}
	return registration, nil
}

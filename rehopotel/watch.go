package rehopotel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/rehop/rehop/admin"
)

// Overviewer lists the queues of a broker. *admin.Admin implements it, and needs the management API for this.
type Overviewer interface {
	Queues(ctx context.Context) (admin.Overview, error)
}

// listLimit is how long the list of queues may delay a collection of metrics.
const listLimit = 5 * time.Second

// Watch reports the number of messages in rehop's queues whenever metrics are collected. No client knows these numbers. One process per
// virtual host is enough; several report the same. It ends with Unregister.
func Watch(broker Overviewer, config Config) (metric.Registration, error) {
	w := maker{meter: config.withDefaults().meter()}
	var (
		messages  = w.observed("rehop.queue.messages", "{message}", "Messages of a queue that are ready, unacked, or in its failed queue")
		consumers = w.observed("rehop.queue.consumers", "{consumer}", "Consumers of a queue in all processes")
		waiting   = w.observed("rehop.waiting.messages", "{message}", "Messages in delay queues, by delay queue")
		orphans   = w.observed("rehop.orphans.messages", "{message}", "Messages whose queue was deleted while they waited")
		unrouted  = w.observed("rehop.unrouted.messages", "{message}", "Messages in the unrouted queue, for which no queue was bound")
	)
	if err := errors.Join(w.faults...); err != nil {
		return nil, fmt.Errorf("rehopotel: %w", err)
	}
	observe := func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, listLimit)
		defer cancel()
		seen, err := broker.Queues(ctx)
		if err != nil {
			return fmt.Errorf("rehopotel: list the broker's queues: %w", err)
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
	registration, err := w.meter.RegisterCallback(observe, messages, consumers, waiting, orphans, unrouted)
	if err != nil {
		return nil, fmt.Errorf("rehopotel: %w", err)
	}
	return registration, nil
}

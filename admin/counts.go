package admin

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// countsAtOnce is how many queues are asked for their counts at the same time: with a broker far away, each answer takes its time.
const countsAtOnce = 8

// updateCounts replaces the counts of the management API by those of the queues themselves: RabbitMQ's statistics are up to 20 s old,
// and show a queue as empty that has just received messages. A queue that does not answer, because it is exclusive or was deleted,
// keeps the counts of the API.
func (a *Admin) updateCounts(ctx context.Context, queues map[string]topology.LiveQueue, which map[string]bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(which)), func(name string) bool {
		_, exists := queues[name]
		return !exists
	})
	depths := make([]*rabbit.Depth, len(names))
	next := make(chan int)
	var asking sync.WaitGroup
	for range min(countsAtOnce, len(names)) {
		asking.Go(func() {
			for i := range next {
				depth, err := a.read.Inspect(ctx, names[i])
				switch {
				case err == nil:
					depths[i] = &depth
				case declareCode(err) == 0:
					cancel(err)
				}
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	asking.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for i, name := range names {
		if depths[i] != nil {
			queues[name] = updated(queues[name], *depths[i])
		}
	}
	return nil
}

// updated is a queue with its own counts. What the statistics show as unacked can be ready again: together they are not more than before,
// unless more are ready than there were messages.
func updated(q topology.LiveQueue, depth rabbit.Depth) topology.LiveQueue {
	if depth.Messages >= q.Messages() {
		q.Unacked, q.Delayed = 0, 0
	}
	q.Ready, q.Consumers = depth.Messages, depth.Consumers
	return q
}

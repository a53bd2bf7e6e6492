package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rehop/rehop/internal/layouts"
)

// FailedQueue is a queue with failed messages.
type FailedQueue struct {
	Name string
	// Queue is what Failed, EachFailed, Replay, Discard and Export need to reach all its messages.
	Queue string
	// Messages is how many it has that nobody is reading.
	Messages int
}

// FailedQueueOf returns the failed queue of a queue, which itself need not exist. If there is no failed queue, it returns ErrNoQueue.
func (a *Admin) FailedQueueOf(ctx context.Context, queue string) (FailedQueue, error) {
	from, err := a.placeOf(queue)
	if err != nil {
		return FailedQueue{}, err
	}
	depth, err := a.read.Inspect(ctx, from.source)
	if err != nil {
		return FailedQueue{}, queueError(err)
	}
	if from.common {
		queue = from.source
	}
	return FailedQueue{Name: from.source, Queue: queue, Messages: depth.Messages}, nil
}

// FailedQueues lists the failed queues that exist, by name: those of the queues in Config.Layouts, and with the management API those of all
// of rehop's queues, too, and the queues for messages without a queue.
func (a *Admin) FailedQueues(ctx context.Context) ([]FailedQueue, error) {
	owners := make(map[string]string) // of failed queues
	add := func(queue string) error {
		from, err := a.placeOf(queue)
		if err != nil {
			return err
		}
		if from.common {
			queue = from.source
		}
		owners[from.source] = queue
		return nil
	}
	for queue := range a.layouts.byQueue {
		if err := add(queue); err != nil {
			return nil, fmt.Errorf("list failed queues: %w", err)
		}
	}
	all, err := a.Queues(ctx)
	if err != nil && !errors.Is(err, ErrNoManagement) {
		return nil, fmt.Errorf("list failed queues: %w", err)
	}
	for _, q := range all.Queues {
		if err := add(layouts.Partitioned(q.Name)); err != nil {
			return nil, fmt.Errorf("list failed queues: %w", err)
		}
	}
	for _, q := range append(all.Recovered, QueueSize{Name: layouts.OrphansQueue}, QueueSize{Name: layouts.UnroutedQueue}) {
		owners[q.Name] = q.Name
	}
	var found []FailedQueue
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		depth, exists, err := existing(a.read.Inspect(ctx, name))
		if err != nil {
			return nil, fmt.Errorf("list failed queues: %w", err)
		}
		if exists {
			found = append(found, FailedQueue{Name: name, Queue: owners[name], Messages: depth.Messages})
		}
	}
	return found, nil
}

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
	// Err is why the queue cannot be used now, such as that its node is down. How many messages it has is not known then.
	Err error
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
	owners, all, err := a.failedOwners(ctx)
	if err != nil && !errors.Is(err, ErrNoManagement) {
		return nil, fmt.Errorf("list failed queues: %w", err)
	}
	for _, q := range append(all.Recovered, QueueSize{Name: layouts.OrphansQueue}, QueueSize{Name: layouts.UnroutedQueue}) {
		owners[q.Name] = q.Name
	}
	names := slices.Sorted(maps.Keys(owners))
	answers, err := a.depthsOf(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("list failed queues: %w", err)
	}
	var found []FailedQueue
	for i, name := range names {
		if depth, exists, err := existing(answers[i].depth, answers[i].err); exists || err != nil {
			found = append(found, FailedQueue{Name: name, Queue: owners[name], Messages: depth.Messages, Err: err})
		}
	}
	return found, nil
}

// failedOwners are what FailedQueue.Queue is for the names of failed queues, which may not exist. With ErrNoManagement they are those of the queues in
// Config.Layouts.
func (a *Admin) failedOwners(ctx context.Context) (owners map[string]string, all Overview, err error) {
	owners = make(map[string]string)
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
			return nil, all, err
		}
	}
	if all, err = a.Queues(ctx); err != nil {
		return owners, all, err
	}
	for _, q := range all.Queues {
		if err := add(layouts.Partitioned(q.Name)); err != nil {
			return nil, all, err
		}
	}
	return owners, all, nil
}

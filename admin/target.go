package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rehop/rehop/internal/layouts"
)

// ErrTarget: messages cannot be replayed to this queue, because they would come from it, or because rehop uses it itself: whoever reads it would
// delete them, or send them elsewhere.
var ErrTarget = errors.New("messages cannot be replayed to this queue")

// CheckTarget returns an error if messages cannot be replayed to a queue: ErrNoQueue if it does not exist, and ErrTarget if its name begins with
// "rehop.", or if it is a failed queue or one in which messages wait. Without the management API, only the failed queues of Config.Layouts are
// known, and those whose name is that of an existing queue with a suffix such as ".failed".
func (a *Admin) CheckTarget(ctx context.Context, queue string) error {
	if layouts.IsOwn(queue) {
		return targetError(queue, "it is one of rehop's own queues")
	}
	if _, err := a.read.Inspect(ctx, queue); err != nil {
		return queueError(err)
	}
	owners, all, err := a.failedOwners(ctx)
	unknown := errors.Is(err, ErrNoManagement)
	if err != nil && !unknown {
		return fmt.Errorf("find out whether messages can be replayed to queue %q: %w", queue, err)
	}
	if of, failed := owners[queue]; failed {
		return targetError(queue, fmt.Sprintf("it is the failed queue of %q", of))
	}
	if slices.ContainsFunc(all.DelayQueues, func(q QueueSize) bool { return q.Name == queue }) {
		return targetError(queue, "messages wait in it for their next attempt")
	}
	for _, q := range all.Queues {
		for _, other := range a.layouts.of(q.Name).RetryTopology(layouts.QueueSpec{Name: q.Name}).Queues {
			if other.Name == queue && queue != q.Name {
				return targetError(queue, fmt.Sprintf("messages of queue %q that failed or wait are in it", q.Name))
			}
		}
	}
	if of, serves := layouts.Served(queue); serves && (unknown || layouts.IsHeldQueue(queue)) {
		_, exists, err := existing(a.read.Inspect(ctx, of))
		if err != nil {
			return err
		}
		if exists {
			return targetError(queue, fmt.Sprintf("messages of queue %q that failed or wait are in it", of))
		}
	}
	return nil
}

func targetError(queue, why string) error {
	return fmt.Errorf("%w: %q: %s; name a queue that a program consumes", ErrTarget, queue, why)
}

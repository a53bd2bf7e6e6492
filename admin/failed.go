package admin

import (
	"context"
	"fmt"
	"time"
)

// Failed returns up to limit messages from the failed queue of a queue, the oldest first, and leaves them there. queue may also be
// layout.OrphansQueue, layout.UnroutedQueue or a queue that a repair of the embedded broker has created (layout.IsRecoveredQueue).
//
// In layouts in which all queues share a failed queue, only messages of queue are returned; to get all, pass the name of the shared
// queue. A message whose Queue is another one is a copy of a message in that queue's failed queue. It cannot be replayed from here.
func (a *Admin) Failed(ctx context.Context, queue string, limit int, filter Filter) ([]Message, error) {
	from, err := a.placeOf(queue)
	if err != nil {
		return nil, err
	}
	return a.peek(ctx, from, limit, filter)
}

func (a *Admin) peek(ctx context.Context, from place, limit int, filter Filter) (found []Message, err error) {
	if limit <= 0 {
		return nil, nil
	}
	ahead := 0
	if filter.isEmpty() && !from.common {
		ahead = limit
	}
	_, err = a.each(ctx, from, ahead, filter, func(m Message) (bool, error) {
		found = append(found, m)
		return len(found) < limit, nil
	})
	return found, err
}

// Count is how many failed messages there are, and when the latest of them failed.
type Count struct {
	Messages int
	// Latest is when the last of them failed, by the clock of the host that failed it; see Filter. It is zero if no time is known.
	Latest time.Time
	// Delayed is how many messages could not be counted because the queue delays them; see Admin.Delayed.
	Delayed int
}

// CountFailed counts the messages in the failed queue of a queue that match the filter, and leaves them there.
func (a *Admin) CountFailed(ctx context.Context, queue string, filter Filter) (n Count, err error) {
	from, err := a.placeOf(queue)
	if err != nil {
		return n, err
	}
	n.Delayed, err = a.each(ctx, from, 0, filter, func(m Message) (bool, error) {
		n.Messages++
		if m.when.After(n.Latest) {
			n.Latest = m.when
		}
		return true, nil
	})
	return n, err
}

// Delayed returns how many messages in the failed queue of a queue are delayed because they were returned to it. Quorum queues of
// RabbitMQ 4.3 delay returned messages if an argument or a policy sets delayed-retry-type. Nobody receives such messages before the
// delay is over, so Failed, CountFailed, Export, Replay and Discard do not see them; and messages that these methods return to such
// a queue are delayed, too. The number comes from the management API, which this method needs, and is some seconds old.
func (a *Admin) Delayed(ctx context.Context, queue string) (int, error) {
	from, err := a.placeOf(queue)
	if err != nil {
		return 0, err
	}
	asking, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	f, err := a.management.figures(asking, from.source)
	if err != nil {
		return 0, fmt.Errorf("look at queue %q: %w", from.source, err)
	}
	return f.Delayed, nil
}

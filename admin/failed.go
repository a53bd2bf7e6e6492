package admin

import (
	"context"
	"fmt"
	"slices"
	"time"
)

func contains(list []string, s string) bool { return slices.Contains(list, s) }

func headerText(v any) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(v)
}

// Failed looks at up to limit messages that rest in the failed queue of queue, oldest first, and
// leaves them where they are. Queue can also be rehop.orphans, rehop.unrouted, or a queue that
// a repair of the embedded broker has made (rehop.recovered.<number>).
//
// Where all queues of a layout share one, only those of queue are found; named by itself, all of them. A
// message whose Queue is another one is a copy of one that rests for that queue, and is not replayed from here.
func (a *Admin) Failed(ctx context.Context, queue string, limit int, filter Filter) ([]Message, error) {
	from, err := a.placeOf(queue)
	if err != nil {
		return nil, err
	}
	return a.peek(ctx, from, limit, filter)
}

func (a *Admin) peek(ctx context.Context, from place, limit int, filter Filter) ([]Message, error) {
	if limit <= 0 {
		return nil, nil
	}
	largest := 0
	if filter.isEmpty() && !from.common {
		largest = limit
	}
	var found []Message
	err := a.each(ctx, from, largest, func(m Message) (bool, error) {
		if from.has(m) && filter.accepts(m) {
			found = append(found, m)
		}
		return len(found) < limit, nil
	})
	return found, err
}

// Count is how many messages rest, and until when they have failed.
type Count struct {
	Messages int
	// Latest is when the last of them failed, by the clock of who failed it, as Filter has it. Zero: nothing says when.
	Latest time.Time
	// Delayed is how many messages the queue held back, so that they were not counted: see Admin.Delayed.
	Delayed int
}

// CountFailed counts the messages in the failed queue of queue that meet the filter, and leaves them where they are.
func (a *Admin) CountFailed(ctx context.Context, queue string, filter Filter) (Count, error) {
	var n Count
	from, err := a.placeOf(queue)
	if err != nil {
		return n, err
	}
	err = a.eachOf(ctx, from, 0, func(s *sweep) { n.Delayed = s.delayed }, func(m Message) (bool, error) {
		if from.has(m) && filter.accepts(m) {
			n.Messages++
			if m.when.After(n.Latest) {
				n.Latest = m.when
			}
		}
		return true, nil
	})
	return n, err
}

// Delayed is how many messages of the failed queue of queue RabbitMQ 4.3 holds back because somebody has returned them: a quorum queue does so if
// its arguments or a policy set delayed-retry-type. Nobody sees such messages until their time is up, so Failed, CountFailed, Export, Replay and Discard
// pass over them, and what these return to such a queue is held back in its turn. The number is that of the management API, which it needs, and some
// seconds old.
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

// UpTo is a filter for what was counted: what is known to have failed since does not meet it.
func (f Filter) UpTo(n Count) Filter {
	f.until = n.Latest
	return f
}

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
// leaves them where they are. Queue may also be layout.OrphansQueue or layout.UnroutedQueue.
//
// Where all queues of a layout share one, only those of queue are found; named by itself, all of them. A
// message whose Queue is another one is a copy of one that rests for that queue, and is not replayed from here.
func (a *Admin) Failed(ctx context.Context, queue string, limit int, filter Filter) ([]Message, error) {
	return a.peek(ctx, a.placeOf(queue), limit, filter)
}

func (a *Admin) peek(ctx context.Context, from place, limit int, filter Filter) ([]Message, error) {
	reader, _, err := a.read.OpenReader(ctx, from.source)
	if err != nil {
		return nil, queueError(err)
	}
	defer reader.Close()
	var found []Message
	for len(found) < limit && ctx.Err() == nil {
		d, ok, err := reader.Next()
		if err != nil {
			return found, err
		}
		if !ok {
			break
		}
		if m := from.read(d); from.has(m) && filter.accepts(m) {
			found = append(found, m)
		}
	}
	return found, ctx.Err()
}

// Count is how many messages rest, and until when they have failed.
type Count struct {
	Messages int
	// Latest is when the last of them failed, by the clock of who failed it. Zero: nothing says when.
	Latest time.Time
}

// CountFailed counts the messages in the failed queue of queue that meet the filter, and leaves them where they are.
func (a *Admin) CountFailed(ctx context.Context, queue string, filter Filter) (Count, error) {
	var n Count
	from := a.placeOf(queue)
	reader, _, err := a.read.OpenReader(ctx, from.source)
	if err != nil {
		return n, queueError(err)
	}
	defer reader.Close()
	for ctx.Err() == nil {
		d, ok, err := reader.Next()
		if err != nil || !ok {
			return n, err
		}
		if m := from.read(d); from.has(m) && filter.accepts(m) {
			n.Messages++
			if m.FailedAt.After(n.Latest) {
				n.Latest = m.FailedAt
			}
		}
	}
	return n, ctx.Err()
}

// UpTo is a filter for what was counted: what has failed since does not meet it.
func (f Filter) UpTo(n Count) Filter {
	end := n.Latest.Add(1) // the last of them is among them
	if !n.Latest.IsZero() && (f.Before.IsZero() || end.Before(f.Before)) {
		f.Before = end
	}
	return f
}

package admin

import (
	"context"
	"fmt"
	"slices"
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

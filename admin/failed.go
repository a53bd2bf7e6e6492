package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/rehop/rehop/internal/rabbit"
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
func (a *Admin) Failed(ctx context.Context, queue string, limit int, filter Filter) ([]Message, error) {
	return a.peek(ctx, sourceOf(queue), limit, filter, func(d rabbit.Message) Message { return messageOf(d, true) })
}

func (a *Admin) peek(ctx context.Context, source string, limit int, filter Filter, read func(rabbit.Message) Message) ([]Message, error) {
	reader, _, err := a.read.OpenReader(ctx, source)
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
		if m := read(d); filter.accepts(m) {
			found = append(found, m)
		}
	}
	return found, ctx.Err()
}

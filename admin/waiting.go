package admin

import (
	"context"
	"fmt"

	"github.com/rehop/rehop/internal/layouts"
)

// EachWaiting calls see with up to limit messages of a delay queue, which is one of Overview.DelayQueues, and returns them to it. A limit
// of 0 means all. Message.Due is the time of the next attempt, if it is known. This can delay their next attempt by the time that it
// takes; it is never early.
func (a *Admin) EachWaiting(ctx context.Context, delayQueue string, limit int, see func(Message) error) error {
	if !layouts.IsWaitQueue(delayQueue) && !layouts.IsLandingQueue(delayQueue) {
		return fmt.Errorf("read waiting messages: %w: %q is not the name of a delay queue", ErrNoQueue, delayQueue)
	}
	return a.visit(ctx, place{layout: a.layouts.usual, source: delayQueue}, limit, Filter{}, see)
}

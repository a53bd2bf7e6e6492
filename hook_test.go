package rehop_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// limiter is a hook that bounds the handler's context, as one that calls something would.
type limiter struct{ limit time.Duration }

// OnHandleStart is called before each run.
func (l limiter) OnHandleStart(ctx context.Context, _ *rehop.Delivery) context.Context {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// A hook sees the handler's deadline, and what it derives from its context lives.
func TestHookSeesDeadline(t *testing.T) {
	const timeout = 10 * time.Second
	for name, limit := range map[string]time.Duration{"earlier": time.Second, "later": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := rehoptest.Open(t, rehoptest.WithConfig(func(c *rehop.Config) {
					c.Hooks = append(c.Hooks, rehop.Hooks{OnHandleStart: limiter{limit}.OnHandleStart})
				}))
				left := make(chan time.Duration, 1)
				subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Timeout: timeout, Handler: rehop.HandlerFunc(func(ctx context.Context, _ *rehop.Delivery) error {
					deadline, _ := ctx.Deadline()
					left <- time.Until(deadline)
					return ctx.Err()
				})})
				publish(t, b.Client, rehop.Message{Key: "q"})
				if got, want := <-left, min(limit, timeout); got != want {
					t.Errorf("time left for the handler: got %v, want %v", got, want)
				}
			})
		})
	}
}

package rabbit

import (
	"context"
	"time"
)

// Grace is a context that outlasts another by d, for calls that cannot be canceled.
func Grace(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return longer, func() {
		stop()
		cancel()
	}
}

package rabbit

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is a growing pause between tries, with jitter so that many clients do not come at once.
type Backoff struct {
	Min, Max time.Duration
}

// Delay is the pause after n failures, n ≥ 1: between half of and the whole of Min·2ⁿ⁻¹, at most Max.
func (b Backoff) Delay(n int) time.Duration {
	d := b.Max
	if n < 60 && b.Min <= b.Max>>(n-1) {
		d = b.Min << (n - 1)
	}
	if d < 2 {
		return d
	}
	return d/2 + rand.N(d/2)
}

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package throttle

import "time"

// budget is how many failures are free: burst at once, and one more per second.
type budget struct {
	left   float64
	filled time.Time
}

// wait is how long it takes until a failure is free.
func (b *budget) wait(now time.Time) time.Duration {
	b.left = min(b.left+now.Sub(b.filled).Seconds(), burst)
	b.filled = now
	if b.left >= 1 {
		return 0
	}
	return time.Duration((1 - b.left) * float64(time.Second))
}

func (b *budget) spend() { b.left = max(b.left-1, 0) }

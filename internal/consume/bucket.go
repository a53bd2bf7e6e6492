package consume

import "time"

// bucket is a token bucket: it holds up to burst tokens, is full at first, and gets another token
// each time that every has passed. The turn belongs to the worker that takes a token, or waits for the
// next one, so that workers are served in order. Nothing is reserved, so a worker can stop waiting.
type bucket struct {
	every time.Duration
	burst int
	turn  chan struct{} // has room for the one worker whose turn it is, which alone uses full
	full  time.Time     // when the bucket is full, if no token is taken before
}

// newBucket returns a bucket that gets this many tokens per second.
func newBucket(perSecond float64, burst int) *bucket {
	return &bucket{every: time.Duration(float64(time.Second) / perSecond), burst: burst, turn: make(chan struct{}, 1)}
}

// tryTurn reports whether it is the caller's turn. Then the caller must call pass.
func (b *bucket) tryTurn() bool {
	select {
	case b.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

// pass ends the caller's turn.
func (b *bucket) pass() { <-b.turn }

// take takes a token, or returns how long it takes until there is one. It must be the caller's turn.
func (b *bucket) take(now time.Time) (wait time.Duration) {
	if wait = b.full.Add(-time.Duration(b.burst-1) * b.every).Sub(now); wait > 0 {
		return wait
	}
	if b.full.Before(now) {
		b.full = now
	}
	b.full = b.full.Add(b.every)
	return 0
}

package store

import (
	"errors"
	"time"
)

// A disk may fail to read for a while: a controller resets, or a network disk is unavailable. Such reads
// are retried for about ten minutes. Then the message is set aside, because space is freed from the
// oldest segment on, and the log would grow without limit.
const (
	readTries    = 15
	minReadPause = time.Second
	maxReadPause = time.Minute
)

// readError is for a message that could not be read and may be readable later.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

func (e *readError) Unwrap() error { return e.err }

// readFailures counts how often the cleaner failed to read a segment. The zero value is none.
type readFailures struct {
	segment *segment
	tries   int
	pause   time.Duration
	next    time.Time
}

func (t *readFailures) note(g *segment) {
	t.segment = g
	t.tries++
	t.pause = min(max(2*t.pause, minReadPause), maxReadPause)
	t.next = time.Now().Add(t.pause)
}

// lasts reports whether a segment was tried often enough.
func (t *readFailures) lasts(g *segment) bool { return t.segment == g && t.tries >= readTries }

// waits reports whether it is too early to try again.
func (t *readFailures) waits() bool { return t.segment != nil && time.Now().Before(t.next) }

// again returns a channel that receives when it is time to try again, or nil.
func (t *readFailures) again() <-chan time.Time {
	if t.segment == nil {
		return nil
	}
	return time.After(time.Until(t.next))
}

// isDamage reports whether an error means that a file is not what was written, which is permanent.
func isDamage(err error) bool {
	_, ok := errors.AsType[*CorruptError](err)
	return ok
}

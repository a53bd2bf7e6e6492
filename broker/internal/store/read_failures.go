package store

import (
	"errors"
	"time"
)

// A disk may fail to read for a while: a controller resets, a network disk is away. What cannot be read then is read again later; only what
// cannot be read for about ten minutes is given up, because space is given back from the oldest segment on, and one bad place would have
// the log grow for ever.
const (
	readTries    = 15
	minReadPause = time.Second
	maxReadPause = time.Minute
)

// readError says that a message could not be read, for a reason that may pass.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

func (e *readError) Unwrap() error { return e.err }

// readFailures is what the keeper has with reading a segment. Its zero value is none.
type readFailures struct {
	segment *segment
	tries   int
	pause   time.Duration
	next    time.Time
}

// note counts a failure to read.
func (t *readFailures) note(g *segment) {
	t.segment = g
	t.tries++
	t.pause = min(max(2*t.pause, minReadPause), maxReadPause)
	t.next = time.Now().Add(t.pause)
}

// lasts says whether a segment has been tried often enough.
func (t *readFailures) lasts(g *segment) bool { return t.segment == g && t.tries >= readTries }

// waits says whether it is too early to try again.
func (t *readFailures) waits() bool { return t.segment != nil && time.Now().Before(t.next) }

// again returns a channel that says when to try again, or nil.
func (t *readFailures) again() <-chan time.Time {
	if t.segment == nil {
		return nil
	}
	return time.After(time.Until(t.next))
}

// isDamage says whether a message is not what was written, which does not pass.
func isDamage(err error) bool {
	_, ok := errors.AsType[*CorruptError](err)
	return ok
}

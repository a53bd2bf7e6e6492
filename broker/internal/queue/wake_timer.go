package queue

import "time"

// wakeTimer is the one timer of a queue: for the head's expiry, for the queue's own, and for delayed items.
type wakeTimer struct {
	wake  func()
	timer *time.Timer
	at    time.Duration // when it rings, 0 if it is not set
}

// set sets the alarm to what comes first. The queue is locked.
func (a *wakeTimer) set(q *Queue) {
	at := q.deadline()
	if at == a.at {
		return
	}
	a.at = at
	switch {
	case at == 0:
		a.timer.Stop()
	case a.timer == nil:
		a.timer = time.AfterFunc(at-q.clock(), a.wake)
	default:
		a.timer.Reset(at - q.clock())
	}
}

// fired notes that the timer has fired.
func (a *wakeTimer) fired() { a.at = 0 }

func (a *wakeTimer) stop() {
	a.at = 0
	if a.timer != nil {
		a.timer.Stop()
	}
}

// deadline returns when something is due, or 0.
func (q *Queue) deadline() time.Duration {
	var at time.Duration
	if q.deleted {
		return 0
	}
	if head := q.head(); head != nil && !q.clogged() { // else whoever takes the dead away sees to it
		at = head.Expires
	}
	if len(q.delayed) > 0 {
		at = sooner(at, q.delayed[0].until)
	}
	if q.settings.Expires >= 0 && len(q.consumers) == 0 {
		at = sooner(at, max(q.used+q.settings.Expires, 1))
	}
	return at
}

// sooner returns the first of two times, of which the one before may be none.
func sooner(at, other time.Duration) time.Duration {
	if at == 0 || other < at {
		return other
	}
	return at
}

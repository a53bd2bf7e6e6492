package queue

import "time"

// wakeTimer is the timer of a queue: for the expiry of its head, for its own expiry, and for delayed items.
type wakeTimer struct {
	timer *time.Timer
	at    time.Duration // when it fires, 0 if it is not set
}

// set sets the timer to the next deadline. The queue is locked.
func (w *wakeTimer) set(q *Queue) {
	at := q.deadline()
	if at == w.at {
		return
	}
	w.at = at
	switch {
	case at == 0:
		w.timer.Stop()
	case w.timer == nil:
		w.timer = time.AfterFunc(at-q.Clock(), q.Wake)
	default:
		w.timer.Reset(at - q.Clock())
	}
}

// fired is called after the timer has fired.
func (w *wakeTimer) fired() { w.at = 0 }

func (w *wakeTimer) stop() {
	w.at = 0
	if w.timer != nil {
		w.timer.Stop()
	}
}

// deadline returns the next time at which the queue has to do something, or 0.
func (q *Queue) deadline() time.Duration {
	var at time.Duration
	if q.deleted {
		return 0
	}
	if head := q.head(); head != nil && !q.tooManyDead() { // if there are too many, TakeDead drops more
		at = head.Expires
	}
	if len(q.delayed) > 0 {
		at = sooner(at, q.delayed[0].until)
	}
	if q.settings.Expires >= 0 && len(q.consumers) == 0 {
		at = sooner(at, max(q.lastUse+q.settings.Expires, 1))
	}
	return at
}

// sooner returns the earlier of two times. The first may be 0 for none.
func sooner(at, other time.Duration) time.Duration {
	if at == 0 || other < at {
		return other
	}
	return at
}

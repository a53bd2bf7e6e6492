package consume

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// watch ends the contexts of a subscription's handlers when their time is up, and finds those that
// ignore it. It has one timer for all: a handler's deadline is never before that of one which began
// earlier, so most begin without touching the timer.
type watch struct {
	sub   *Subscription
	epoch time.Time
	due   atomic.Int64 // when the timer fires, since epoch; 0: it does not

	mu     sync.Mutex
	timer  *time.Timer // nil before it is first needed
	over   bool
	checks sync.WaitGroup
}

// begin has the handlers looked at when a deadline has come. The handling is the worker's current
// one.
func (w *watch) begin(deadline time.Time) {
	if due := w.due.Load(); due == 0 || due > w.since(deadline) {
		w.set(deadline)
	}
}

// since is a time since the epoch, never 0.
func (w *watch) since(t time.Time) int64 { return max(1, int64(t.Sub(w.epoch))) }

// set has the handlers looked at at a time, or before.
func (w *watch) set(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	due := w.due.Load()
	if w.over || due != 0 && due <= w.since(at) {
		return
	}
	w.due.Store(w.since(at))
	if w.timer == nil {
		w.timer = time.AfterFunc(time.Until(at), w.check)
	} else {
		w.timer.Reset(time.Until(at))
	}
}

// end stops the timer for good, and returns when no hook is being called.
func (w *watch) end() {
	w.mu.Lock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	w.checks.Wait()
}

// enter reports whether to look at the handlers. The caller must call looks.Done then.
func (w *watch) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.checks.Add(1)
	}
	return !w.over
}

// look sees to all handlers. One that begins meanwhile sets the timer itself: it finds that it is
// not set.
func (w *watch) check() {
	if !w.enter() {
		return
	}
	defer w.checks.Done()
	w.due.Store(0)
	now := time.Now()
	var next time.Time
	stuck := make(map[*worker]*Handling)
	w.sub.eachRunning(func(worker *worker, h *Handling) bool {
		at := h.deadline
		if !now.Before(at) {
			h.cancel(context.DeadlineExceeded, ErrTimeout)
			var reports bool
			if reports, at = h.stuckBy(now, w.sub.settings.StuckAfter); reports {
				stuck[worker] = h
			}
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
		return true
	})
	if !next.IsZero() {
		w.set(next)
	}
	if len(stuck) == 0 {
		return
	}
	// Last, because hooks are called, which may take their time, or call for an end that would wait
	// for them.
	defer w.sub.shared.Inside.Leave(w.sub.shared.Inside.Enter(w.sub))
	for worker, h := range stuck {
		w.sub.replace(worker, h)
	}
}

// stuckBy reports whether it is to be reported now that the handler runs on, and when next.
func (h *Handling) stuckBy(now time.Time, every time.Duration) (stuck bool, next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if stuck = !now.Before(h.stuckAt); stuck {
		h.stuckAt = now.Add(every)
	}
	return stuck, h.stuckAt
}

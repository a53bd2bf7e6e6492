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

// begin has the handlers checked at a deadline. The handling is the worker's current one.
func (w *watch) begin(deadline time.Time) {
	if due := w.due.Load(); due == 0 || due > w.since(deadline) {
		w.set(deadline)
	}
}

// since is a time since the epoch, never 0.
func (w *watch) since(t time.Time) int64 { return max(1, int64(t.Sub(w.epoch))) }

// set has the handlers checked at a time, or before.
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

// end stops the timer, and returns when no hook is being called.
func (w *watch) end() {
	w.mu.Lock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	w.checks.Wait()
}

// check cancels handlers whose time is up, and replaces stuck ones. A handler that begins meanwhile
// finds that the timer is not set, and sets it.
func (w *watch) check() {
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return
	}
	w.checks.Add(1)
	w.mu.Unlock()
	defer w.checks.Done()
	w.due.Store(0)
	now := time.Now()
	var next time.Time
	stuck := make(map[*worker]*Handling)
	for worker, h := range w.sub.handlers() {
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
	}
	if !next.IsZero() {
		w.set(next)
	}
	if len(stuck) == 0 {
		return
	}
	// Last, because hooks are called, which may take long, or call Stop, which would wait for them.
	defer w.sub.shared.Inside.Leave(w.sub.shared.Inside.Enter(w.sub))
	for worker, h := range stuck {
		w.sub.replace(worker, h)
	}
}

// stuckBy reports whether to report now that the handler still runs, and when next.
func (h *Handling) stuckBy(now time.Time, every time.Duration) (stuck bool, next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if stuck = !now.Before(h.stuckAt); stuck {
		h.stuckAt = now.Add(every)
	}
	return stuck, h.stuckAt
}

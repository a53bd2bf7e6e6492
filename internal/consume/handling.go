package consume

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/ordering"
	"github.com/rehop/rehop/internal/rabbit"
)

// Handling is one delivery that a worker handles, or a batch of them, and the context of its handler.
// It implements context.Context because one is needed for every message. With those of package
// context, which have timers of their own, consuming took 1.33 times the processor time, with that of
// the broker (docs/benchmarks.md; BenchmarkHandlerContext has the contexts alone). Here one timer serves
// all handlers of a subscription (see watch), and the Done channel is made when it is first needed.
type Handling struct {
	// View is what the handler sees of the delivery. See Handler.
	View any

	base     context.Context // of the subscription
	from     offer
	raw      rabbit.Delivery
	began    time.Time
	deadline time.Time // when the handler's time is up

	mu        sync.Mutex
	done      chan struct{}
	err       error // what Err returns
	cause     error
	after     []*afterFunc
	stuckAt   time.Time // when to report next that the handler ignores its end
	finished  bool      // the handler has returned
	abandoned bool      // another worker has taken over; what the handler returns does not count

	givenID string            // its id from its first failure on, if it has none
	hookCtx context.Context   // the handler's context with what hooks added
	added   map[string]any    // headers that OnMove hooks have added
	past    *envelope.Failure // the record of earlier attempts
	mark    redelivery        // whether it was delivered from this queue before
	probes  *outage           // the outage whose end this message is to find out
	taken   time.Time         // when a worker took it, if it waits for the end of an outage

	batch    *batch // what is handled together; nil if this is a single delivery
	*inOrder        // nil if the subscription handles messages in any order
}

// inOrder is what a Handling has in addition in a subscription that handles messages in order.
type inOrder struct {
	ordered *ordered
	message *ordering.Message
	ran     bool              // a handler has run
	rejects bool              // the broker is to move it to the failed queue
	keyless *PanicError       // why its key is not known
	record  *envelope.Failure // what is written into the copy of the message; nil if there is none to write
	pending *Result           // what is reported when the delivery is acked; nil if the handler has not run
	settled bool              // the delivery was acked; the lock of the session guards it
	// The copy of the message in the held queue, whose delivery is acked instead, or the message of which this is the
	// copy. The lock of the session guards it.
	exchanged *Handling
}

type afterFunc struct{ call func() }

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// begin starts the time of the handler.
func (h *Handling) begin(limit, stuckAfter time.Duration) {
	h.began = time.Now()
	h.deadline = h.began.Add(limit)
	h.stuckAt = h.deadline.Add(stuckAfter)
	if h.batch != nil {
		for _, m := range h.batch.members { // hooks get their contexts
			m.began, m.deadline = h.began, h.deadline
		}
	}
}

// Deadline is when the handler's time is up.
func (h *Handling) Deadline() (time.Time, bool) { return h.deadline, true }

// Done is closed when the handler's time is up, at a stop, and when the handler has returned.
func (h *Handling) Done() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.done == nil && h.err != nil:
		h.done = closedChan
	case h.done == nil:
		h.done = make(chan struct{})
	}
	return h.done
}

// Err is why Done is closed.
func (h *Handling) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// ViewKey is the key of a Handling's View in the context of its handler.
type ViewKey struct{}

// Value has the View, and what the subscription's context has.
func (h *Handling) Value(key any) any {
	if _, ok := key.(ViewKey); ok {
		return h.View
	}
	return h.base.Value(key)
}

// AfterFunc lets package context derive contexts from this one without a goroutine for each.
func (h *Handling) AfterFunc(f func()) func() bool {
	a := &afterFunc{call: f}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		go f()
		return func() bool { return false }
	}
	h.after = append(h.after, a)
	return func() bool { return h.forget(a) }
}

// forget removes a function, and reports whether it was still to be called.
func (h *Handling) forget(a *afterFunc) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.after, a)
	if i < 0 {
		return false
	}
	h.after = slices.Delete(h.after, i, i+1)
	return true
}

// cancel ends the context. Only the first call counts.
func (h *Handling) cancel(err, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return
	}
	h.err, h.cause = err, cause
	if h.batch != nil {
		for _, m := range h.batch.members {
			m.cancel(err, cause)
		}
	}
	if h.done != nil {
		close(h.done)
	}
	for _, a := range h.after {
		go a.call()
	}
	h.after = nil
}

// stop cancels the handler because the subscription stops.
func (h *Handling) stop() { h.cancel(context.Canceled, ErrStopping) }

// end ends the context of a handler that has returned.
func (h *Handling) end() { h.cancel(context.Canceled, nil) }

// why is the reason why the handler was canceled, nil if it was not.
func (h *Handling) why() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// finish notes that the handler has returned. False: it was abandoned before.
func (h *Handling) finish() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finished = !h.abandoned
	return h.finished
}

// abandon takes the delivery away from a handler that does not return. False: it just has.
func (h *Handling) abandon() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.finished || h.abandoned {
		return false
	}
	h.abandoned = true
	return true
}

// isAbandoned reports whether another worker has taken over.
func (h *Handling) isAbandoned() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.abandoned
}

// decided reports whether the handler's error has no effect on the delivery any more.
func (h *Handling) decided() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.abandoned || h.cause == ErrStopping
}

// state is what a decision needs to know of the message.
func (h *Handling) state(reruns int) State {
	why := h.why()
	return State{Failures: h.past.Attempt, Reruns: reruns, TimedOut: why == ErrTimeout, Stopping: why == ErrStopping}
}

// again is the same delivery for another run of the handler. What the last run has changed in its View is not there.
func (s *Subscription) again(h *Handling) *Handling {
	next := s.settings.Handler.New()
	next.base, next.from, next.raw, next.givenID, next.past = h.base, h.from, h.raw, h.givenID, h.past
	next.mark, next.hookCtx, next.probes, next.taken = h.mark, h.hookCtx, h.probes, h.taken
	if h.inOrder != nil {
		next.inOrder = &inOrder{ordered: h.ordered, message: h.message, ran: h.ran}
	}
	s.show(next)
	return next
}

// takenOver is the same delivery for whoever concludes it while its handler may still run, and use its View.
func (s *Subscription) takenOver(h *Handling) *Handling {
	next := s.again(h)
	next.began = h.began
	return next
}

package rehop

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
)

// handling is one delivery that a worker handles, and the context of its handler. It is a context of its own because one is made for every
// message: with those of package context, which have timers of their own, a consumer took 1.4 to 1.6 times the processor time
// (BenchmarkHandlerContext). Here one timer serves all handlers of a subscription (see watch), and the Done channel is made only if somebody
// asks for it.
type handling struct {
	base     context.Context // of the subscription
	from     offer
	raw      rabbit.Delivery
	Delivery Delivery
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

	givenID string            // what it is given at its first failure if it has no id
	told    context.Context   // the handler's context with what hooks added
	added   map[string]any    // headers that hooks have added to it for its way
	past    *envelope.Failure // what is known of earlier attempts
	mark    redelivery        // whether it was delivered from this queue before
	probes  *outage           // the outage whose end this message is to find out
	taken   time.Time         // when a worker took it, if it waits for the end of an outage
}

type afterFunc struct{ call func() }

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// begin starts the time of the handler.
func (h *handling) begin(limit, stuckAfter time.Duration) {
	h.began = time.Now()
	h.deadline = h.began.Add(limit)
	h.stuckAt = h.deadline.Add(stuckAfter)
}

// Deadline is when the handler's time is up.
func (h *handling) Deadline() (time.Time, bool) { return h.deadline, true }

// Done is closed when the handler's time is up, at a stop, and when the handler has returned.
func (h *handling) Done() <-chan struct{} {
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

// Err says why Done is closed.
func (h *handling) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Value has the delivery, and what the subscription's context has.
func (h *handling) Value(key any) any {
	if _, ok := key.(deliveryKey); ok {
		return &h.Delivery
	}
	return h.base.Value(key)
}

// AfterFunc lets package context derive contexts from this one without a goroutine for each.
func (h *handling) AfterFunc(f func()) func() bool {
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

// forget reports whether a function was still to be called. It is not then.
func (h *handling) forget(a *afterFunc) bool {
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
func (h *handling) cancel(err, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return
	}
	h.err, h.cause = err, cause
	if h.done != nil {
		close(h.done)
	}
	for _, a := range h.after {
		go a.call()
	}
	h.after = nil
}

// stop cancels the handler because the subscription stops.
func (h *handling) stop() { h.cancel(context.Canceled, errStopping) }

// end ends the context of a handler that has returned.
func (h *handling) end() { h.cancel(context.Canceled, nil) }

// why is the reason why the handler was canceled, nil if it was not.
func (h *handling) why() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// finish says that the handler has returned. False: it was abandoned before.
func (h *handling) finish() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finished = !h.abandoned
	return h.finished
}

// abandon takes the delivery away from a handler that does not return. False: it just has.
func (h *handling) abandon() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.finished || h.abandoned {
		return false
	}
	h.abandoned = true
	return true
}

// again is the same delivery for another run of the handler.
func (h *handling) again() *handling {
	return &handling{base: h.base, from: h.from, raw: h.raw, Delivery: h.Delivery, givenID: h.givenID, past: h.past, mark: h.mark, told: h.told, probes: h.probes, taken: h.taken}
}

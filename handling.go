package rehop

import (
	"context"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
)

// handling is one delivery in the hands of a worker, and the context that its handler gets. It is a
// context of its own rather than one from context.WithDeadline because it is made for every
// message: its timer belongs to the worker, and its Done channel is made only if somebody asks.
type handling struct {
	parent   context.Context
	from     offer
	raw      rabbit.Delivery
	Delivery Delivery
	began    time.Time
	limit    time.Duration // how long the handler may take

	mu        sync.Mutex
	done      chan struct{}
	err       error // what Err returns
	cause     error
	after     []*afterFunc
	finished  bool // the handler has returned
	abandoned bool // another worker has taken over; what the handler returns does not count

	givenID   string            // what it is given at its first failure if it has no id
	told      context.Context   // the handler's context with what hooks added
	added     map[string]any    // headers that hooks have added to it for its way
	past      *envelope.Failure // what is known of earlier attempts
	probes    *outage           // the outage whose end this message is to find out
	heldSince time.Time         // since when it waits for the end of an outage
}

type afterFunc struct{ call func() }

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (h *handling) Deadline() (time.Time, bool) { return h.began.Add(h.limit), true }

func (h *handling) Done() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done == nil {
		if h.err != nil {
			h.done = closedChan
		} else {
			h.done = make(chan struct{})
		}
	}
	return h.done
}

func (h *handling) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

func (h *handling) Value(key any) any {
	if _, ok := key.(deliveryKey); ok {
		return &h.Delivery
	}
	return h.parent.Value(key)
}

// AfterFunc lets package context derive contexts from this one without a goroutine for each.
func (h *handling) AfterFunc(f func()) func() bool {
	a := &afterFunc{call: f}
	h.mu.Lock()
	if h.err != nil {
		h.mu.Unlock()
		go f()
		return func() bool { return false }
	}
	h.after = append(h.after, a)
	h.mu.Unlock()
	return func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for i, b := range h.after {
			if a == b {
				h.after = append(h.after[:i], h.after[i+1:]...)
				return true
			}
		}
		return false
	}
}

// cancel ends the context. Only the first call counts.
func (h *handling) cancel(err, cause error) {
	h.mu.Lock()
	if h.err != nil {
		h.mu.Unlock()
		return
	}
	h.err, h.cause = err, cause
	if h.done != nil {
		close(h.done)
	}
	after := h.after
	h.after = nil
	h.mu.Unlock()
	for _, a := range after {
		go a.call()
	}
}

// why is the cause of the cancellation, nil if there was none.
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
	return &handling{parent: h.parent, from: h.from, raw: h.raw, Delivery: h.Delivery, givenID: h.givenID, past: h.past, told: h.told, probes: h.probes, heldSince: h.heldSince}
}

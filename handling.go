package rehop

import (
	"context"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
)

// handling is one delivery that a worker handles.
type handling struct {
	base     context.Context // of the subscription
	from     offer
	raw      rabbit.Delivery
	Delivery Delivery
	began    time.Time

	ctx     context.Context // the handler's; nil before it runs
	cancel  context.CancelCauseFunc
	release context.CancelFunc
	stuck   *time.Timer // runs out when the handler ignores that its context has ended

	mu        sync.Mutex
	finished  bool // the handler has returned
	abandoned bool // another worker has taken over; what the handler returns does not count

	givenID   string            // what it is given at its first failure if it has no id
	told      context.Context   // the handler's context with what hooks added
	added     map[string]any    // headers that hooks have added to it for its way
	past      *envelope.Failure // what is known of earlier attempts
	probes    *outage           // the outage whose end this message is to find out
	heldSince time.Time         // since when it waits for the end of an outage
}

// begin gives the handler its context, which ends after a limit, at a stop, and when the handler has returned.
func (h *handling) begin(limit time.Duration) {
	h.began = time.Now()
	ctx, cancel := context.WithCancelCause(context.WithValue(h.base, deliveryKey{}, &h.Delivery))
	h.cancel = cancel
	h.ctx, h.release = context.WithTimeoutCause(ctx, limit, errTimeout)
}

// end releases what the context holds.
func (h *handling) end() {
	h.stuck.Stop()
	h.cancel(nil)
	h.release()
}

// why is the reason why the handler was canceled, nil if it was not.
func (h *handling) why() error {
	if h.ctx == nil {
		return nil
	}
	if cause := context.Cause(h.ctx); cause == errTimeout || cause == errStopping {
		return cause
	}
	return nil
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
	return &handling{base: h.base, from: h.from, raw: h.raw, Delivery: h.Delivery, givenID: h.givenID, past: h.past, told: h.told, probes: h.probes, heldSince: h.heldSince}
}

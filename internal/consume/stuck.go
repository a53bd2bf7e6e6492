package consume

import (
	"fmt"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/ordering"
)

// Stuck is a handler that still runs although its time is up and its context canceled.
type Stuck struct {
	MessageID string        // of a batch, that of its first message
	Messages  int           // that it handles: more than one only in a batch
	For       time.Duration // since it began
	Replaced  bool          // another worker has taken its place
	Returned  bool          // it has returned after all
}

// replace starts a new worker in place of one whose handler is stuck. At most Concurrency handlers are
// abandoned; further ones keep their worker, and the reports have Replaced false.
func (s *Subscription) replace(w *worker, h *Handling) {
	if h.isAbandoned() {
		return // by a check that began earlier
	}
	may := s.mayAbandon()
	replaced := may && h.abandon()
	if may && !replaced {
		s.stuckEnded()
		return // it has just returned
	}
	if replaced {
		// No longer counted among the workers: a stop does not wait for it.
		s.startWorker(w.base, h, fmt.Errorf("%w, and still runs %v after it was canceled", ErrTimeout, s.settings.StuckAfter))
		s.forget(w)
	}
	s.reportStuck(Stuck{MessageID: h.raw.MessageId, Messages: h.messages(), For: time.Since(h.began), Replaced: replaced})
}

// abandonedReturned notes that an abandoned handler has returned after all.
func (s *Subscription) abandonedReturned(h *Handling) {
	s.stuckEnded()
	s.reportStuck(Stuck{MessageID: h.raw.MessageId, Messages: h.messages(), For: time.Since(h.began), Returned: true})
}

// mayAbandon counts a handler that is to be abandoned, unless there are too many already.
func (s *Subscription) mayAbandon() bool {
	mu, stuck := s.countStuck()
	s.mu.Lock()
	stopping := s.phase >= halted
	s.mu.Unlock()
	mu.Lock()
	defer mu.Unlock()
	if stopping || *stuck >= s.settings.Concurrency {
		return false
	}
	*stuck++
	return true
}

// stuckEnded counts one less.
func (s *Subscription) stuckEnded() {
	mu, stuck := s.countStuck()
	mu.Lock()
	defer mu.Unlock()
	*stuck--
}

// countStuck is the number of handlers that were abandoned and have not returned, of all partitions, and what protects it.
func (s *Subscription) countStuck() (*sync.Mutex, *int) {
	if o := s.settings.Order; o != nil && o.Shared != nil {
		return &o.Shared.mu, &o.Shared.stuck
	}
	return &s.mu, &s.stuck
}

func (s *Subscription) reportStuck(e Stuck) {
	s.shared.Logger.Warn("rehop: handler ignores its context", "queue", s.settings.Queue, "message", e.MessageID, "messages", e.Messages,
		"for", e.For, "replaced", e.Replaced, "returned", e.Returned)
	s.settings.Events.Stuck(e)
}

// abandonAll requeues the messages of handlers that ignore their context, and returns how many handlers
// there are.
func (s *Subscription) abandonAll() (n int) {
	for w, h := range s.handlers() {
		if h.why() == nil || !h.abandon() {
			continue
		}
		n++
		s.mu.Lock()
		s.stuck++
		s.mu.Unlock()
		took := time.Since(h.began)
		for _, held := range h.held() {
			if h.inOrder != nil { // it goes back when the session closes
				h.ordered.done(h, ordering.Unfinished, time.Time{}, Result{Outcome: Returned, Took: took})
				continue
			}
			s.requeue(held, false)
			s.report(held, Result{Outcome: Returned, Took: took})
		}
		s.forget(w)
	}
	return n
}

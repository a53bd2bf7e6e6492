package rehop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
)

// worker handles one message at a time.
type worker struct {
	sub  *Subscription
	base context.Context
	last *rabbit.Session // from which there is nothing more to take

	goroutine string // that it runs on

	mu      sync.Mutex
	busy    bool          // a handler is called, or is about to be
	idle    chan struct{} // closed when it is no longer busy; nil: nobody waits for that
	current *handling
}

// startWorker starts a worker. If it takes the place of another, it first concludes what that one
// had in hand.
func (s *Subscription) startWorker(base context.Context, inherited *handling, err error) {
	w := &worker{sub: s, base: base}
	s.mu.Lock()
	s.workers[w] = struct{}{}
	s.mu.Unlock()
	go func() { // gone is closed when all workers have left, save those that were abandoned
		w.goroutine = s.client.inside.enter(s)
		var from offer
		if inherited != nil {
			s.conclude(inherited, err)
			from = inherited.from
		}
		w.loop(from)
	}()
}

func (s *Subscription) forget(w *worker) {
	s.client.inside.leave(w.goroutine)
	s.mu.Lock()
	delete(s.workers, w)
	s.checkGone()
	s.mu.Unlock()
}

// loop takes from a session, if it is given one that another worker has left, and then from each that
// is offered.
func (w *worker) loop(o offer) {
	s := w.sub
	returned := false
	defer func() {
		if !returned { // the handler called runtime.Goexit, which ends this goroutine
			h := w.current
			if h == nil { // not in a handler: a hook's doing, or a panic that is to end the process
				s.forget(w)
				return
			}
			err := &panicError{text: "the handler called runtime.Goexit", stack: string(debug.Stack())}
			s.tellEnd(h, err)
			w.rest()
			h.end()
			if h.finish() {
				s.startWorker(w.base, h, err)
			} else {
				s.cameBack(h)
			}
		}
		s.forget(w)
	}()
	for {
		if o.session == nil {
			var ok bool
			if o, ok = s.next(w.last); !ok {
				break
			}
		}
		for {
			d, ok := o.session.Next()
			if !ok {
				break
			}
			if !w.handle(o, d) {
				returned = true
				return
			}
		}
		w.last, o = o.session, offer{}
	}
	returned = true
}

// handle sees to one delivery. False: another worker has taken this one's place.
func (w *worker) handle(o offer, d rabbit.Delivery) bool {
	s := w.sub
	h := s.receive(w.base, o, d)
	if s.halting() {
		s.giveBack(h, Result{})
		return true
	}
	if !s.admit(o, h) {
		return true
	}
	for rerun := 0; ; {
		if !s.awaitOutage(h) {
			return true
		}
		mine, err := w.run(h)
		if !mine {
			return false
		}
		switch s.weigh(h, err) {
		case notInHand:
			return true
		case askAgain:
		case answered:
			if !s.atOnce(h, err, rerun) {
				s.conclude(h, err)
				return true
			}
			rerun++
		}
		h = h.again()
	}
}

// run calls the handler. mine is false if another worker has meanwhile taken over.
func (w *worker) run(h *handling) (mine bool, err error) {
	s := w.sub
	h.begin(s.config.Timeout, s.config.StuckAfter)
	// In this order: either a stop sees that this worker is busy, and waits, or the worker sees the stop.
	w.mu.Lock()
	w.busy = true
	w.mu.Unlock()
	if s.halting() {
		w.rest()
		h.stop()
		return true, errStopping
	}
	ctx := context.Context(h)
	for _, on := range s.client.hooks.handleStart {
		ctx = on(ctx, &h.Delivery)
	}
	h.told = ctx
	w.mu.Lock()
	w.current = h
	w.mu.Unlock()
	s.watch.begin(h.deadline)
	if s.halting() { // since it became busy, and before it was current
		h.stop()
	}

	err = call(ctx, s.handler, &h.Delivery)
	s.tellEnd(h, err)

	w.rest()
	h.end()
	if h.finish() {
		return true, err
	}
	s.cameBack(h)
	return false, nil
}

// rest notes that no handler is being called.
func (w *worker) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current, w.busy = nil, false
	if w.idle != nil {
		close(w.idle)
		w.idle = nil
	}
}

// untilIdle returns a channel that is closed when the worker calls no handler; nil: it calls none now.
func (w *worker) untilIdle() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy && w.idle == nil {
		w.idle = make(chan struct{})
	}
	return w.idle
}

func (s *Subscription) tellEnd(h *handling, err error) {
	if len(s.client.hooks.handleEnd) > 0 {
		took := time.Since(h.began)
		for _, on := range s.client.hooks.handleEnd {
			on(h.told, &h.Delivery, took, err)
		}
	}
}

// call turns a panic into an error.
func call(ctx context.Context, handler Handler, d *Delivery) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{text: fmt.Sprintf("panic: %v", r), stack: string(debug.Stack())}
		}
	}()
	if err = handler.Handle(ctx, d); err != nil {
		// An error whose methods panic, such as a nil pointer in the interface, does so here, where it
		// counts as a failure, and not where it would end the process.
		_ = err.Error()
		_, _ = instructionOf(err)
		_ = errors.Is(err, errTimeout)
	}
	return err
}

// replace gives the slot of a stuck handler to a new worker. As many may be abandoned as there are
// slots; then slots stay occupied, and the reports say so.
func (s *Subscription) replace(w *worker, h *handling) {
	s.mu.Lock()
	may := s.stuck < s.config.Concurrency && s.phase < halted
	if may {
		s.stuck++
	}
	s.mu.Unlock()
	replaced := may && h.abandon()
	if may && !replaced {
		s.mu.Lock()
		s.stuck--
		s.mu.Unlock()
		return // it has just returned
	}
	if replaced {
		// No longer counted among the workers: a stop does not wait for it.
		s.startWorker(w.base, h, fmt.Errorf("%w, and still runs %v after it was canceled", errTimeout, s.config.StuckAfter))
		s.forget(w)
	}
	s.tellStuck(StuckHandler{Queue: s.config.Queue, MessageID: h.Delivery.ID, For: time.Since(h.began), Replaced: replaced})
}

// cameBack is told of an abandoned handler that has returned after all.
func (s *Subscription) cameBack(h *handling) {
	s.mu.Lock()
	s.stuck--
	s.mu.Unlock()
	s.tellStuck(StuckHandler{Queue: s.config.Queue, MessageID: h.Delivery.ID, For: time.Since(h.began), Returned: true})
}

func (s *Subscription) tellStuck(e StuckHandler) {
	s.client.config.Logger.Warn("rehop: handler ignores its context", "queue", e.Queue, "message", e.MessageID,
		"for", e.For, "replaced", e.Replaced, "returned", e.Returned)
	tell(s.client.hooks.stuck, e)
}

// cancelHandlers cancels what runs, and tells how many.
func (s *Subscription) cancelHandlers() int {
	return s.eachRunning(func(_ *worker, h *handling) bool {
		h.stop()
		return true
	})
}

// awaitHandlers waits, at a stop, until no handler runs, or for a limited time.
func (s *Subscription) awaitHandlers(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, w := range s.allWorkers() {
		idle := w.untilIdle()
		if idle == nil {
			continue
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return
		}
	}
}

// abandonAll gives back the messages of handlers that ignore their context, and tells how many.
func (s *Subscription) abandonAll() int {
	return s.eachRunning(func(w *worker, h *handling) bool {
		if h.why() == nil || !h.abandon() {
			return false
		}
		s.mu.Lock()
		s.stuck++
		s.mu.Unlock()
		h.raw.Requeue()
		s.tellHandled(h, Result{Outcome: OutcomeReturned, Took: time.Since(h.began)})
		s.forget(w)
		return true
	})
}

func (s *Subscription) eachRunning(do func(*worker, *handling) bool) int {
	n := 0
	for _, w := range s.allWorkers() {
		w.mu.Lock()
		h := w.current
		w.mu.Unlock()
		if h != nil && do(w, h) {
			n++
		}
	}
	return n
}

func (s *Subscription) allWorkers() []*worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.workers))
}

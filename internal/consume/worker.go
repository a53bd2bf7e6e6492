package consume

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
)

// worker handles one message at a time, or one batch.
type worker struct {
	sub  *Subscription
	base context.Context
	last *rabbit.Session // from which there is nothing more to take
	next *Handling       // that is to be in the next batch

	goroutine  string  // that it runs on
	classified []error // for each message, while Settings.Classify is called, and after that has ended the goroutine

	mu      sync.Mutex
	busy    bool          // a handler is called, or is about to be
	idle    chan struct{} // closed when it is no longer busy; nil: nobody waits for that
	current *Handling
}

// startWorker starts a worker. If it replaces another one, it first concludes the message of that one.
func (s *Subscription) startWorker(base context.Context, inherited *Handling, err error) {
	w := &worker{sub: s, base: base}
	s.mu.Lock()
	s.workers[w] = struct{}{}
	s.mu.Unlock()
	go func() { // gone is closed when all workers have left, except those that were abandoned
		w.goroutine = s.shared.Inside.Enter(s)
		w.loop(inherited, err)
	}()
}

func (s *Subscription) forget(w *worker) {
	s.shared.Inside.Leave(w.goroutine)
	s.mu.Lock()
	delete(s.workers, w)
	s.checkGone()
	s.mu.Unlock()
}

// loop handles deliveries until the subscription ends or another worker replaces this one.
func (w *worker) loop(inherited *Handling, err error) {
	defer w.sub.forget(w)
	returned := false
	defer func() {
		if !returned { // runtime.Goexit, or a panic
			w.exited()
		}
	}()
	w.work(inherited, err)
	returned = true
}

// work concludes the message of the worker that it replaces, if any, takes from the session of that
// message, and then from each session that is offered.
func (w *worker) work(inherited *Handling, err error) {
	if w.sub.settings.Order != nil {
		if inherited != nil {
			w.takeOverOrdered(inherited, err)
		}
		w.workOrdered()
		return
	}
	var o offer
	if inherited != nil {
		if o = inherited.from; !w.takeOver(inherited, err) {
			return
		}
	}
	for {
		if o.session == nil {
			var ok bool
			if o, ok = w.sub.next(w.last); !ok {
				return
			}
		}
		for more := true; more; {
			var mine bool
			if more, mine = w.handleNext(o); !mine {
				return
			}
		}
		w.last, o = o.session, offer{}
	}
}

// handleNext handles the next delivery of a session, or the next batch. more is false if there is none,
// mine if another worker has replaced this one.
func (w *worker) handleNext(o offer) (more, mine bool) {
	if w.sub.settings.Batch.Size > 0 {
		return w.handleBatch(o)
	}
	d, ok := o.session.Next()
	if !ok {
		return false, true
	}
	return true, w.handle(o, d)
}

// handle handles one delivery. False: another worker has replaced this one.
func (w *worker) handle(o offer, d rabbit.Delivery) bool {
	s := w.sub
	h := s.receive(w.base, o, d)
	if s.halting() {
		s.giveBack(h, Result{})
		return true
	}
	return !s.carryOut(o, h, s.judge(o, h)) || w.attempt(h)
}

// takeOver concludes the message of another worker, or its batch: the messages whose handler did not
// return have failed, and those that have waited for it are handled. False: as handle.
func (w *worker) takeOver(h *Handling, err error) bool {
	if h.batch != nil {
		return w.handleAll(w.concludeAll(h, err, true))
	}
	s, state := w.sub, h.state(0)
	state.TakenOver = true
	decision := Decide(state, AnswerOf(err), s.settings.Schedule)
	h = s.takenOver(h)
	if decision.Do == AwaitOutage {
		return !s.pause(h, err) || w.attempt(s.again(h))
	}
	s.conclude(h, err, decision)
	return true
}

// attempt runs the handler until its answer ends the handling of the delivery. False: as handle.
func (w *worker) attempt(h *Handling) bool {
	s := w.sub
	for rerun := 0; ; {
		if !s.awaitOutage(h) || s.bucket != nil && !s.awaitRate(h) {
			return true
		}
		mine, err := w.run(h)
		if !mine {
			return false
		}
		switch decision := Decide(h.state(rerun), AnswerOf(err), s.settings.Schedule); decision.Do {
		case AwaitOutage:
			if !s.pause(h, err) {
				return true
			}
		case Rerun:
			rerun++
		default:
			s.conclude(h, err, decision)
			return true
		}
		h = s.again(h)
	}
}

// run calls the handler. mine is false if another worker has meanwhile taken over. The answers of a
// batch are in the batch, unless there is an error for all.
func (w *worker) run(h *Handling) (mine bool, err error) {
	s := w.sub
	h.begin(s.settings.Timeout, s.settings.StuckAfter)
	// In this order: either a stop sees that this worker is busy, and waits, or the worker sees the
	// stop.
	w.mu.Lock()
	w.busy = true
	w.mu.Unlock()
	if s.halting() {
		w.setIdle()
		h.stop()
		return true, ErrStopping
	}
	ctx := s.reportStart(h)
	w.mu.Lock()
	w.current = h
	w.mu.Unlock()
	s.watch.begin(h.deadline)
	if s.halting() { // since it became busy, and before it was current
		h.stop()
	}

	answers, err := call(ctx, s.settings.Handler, h)
	answers, err = w.classify(h, answers, err)
	s.reportEnd(h, answers, err)

	w.setIdle()
	h.end()
	if h.finish() {
		if h.batch != nil {
			h.batch.answers = answers
		}
		return true, err
	}
	s.abandonedReturned(h)
	return false, nil
}

// setIdle notes that no handler is being called.
func (w *worker) setIdle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current, w.busy = nil, false
	if w.idle != nil {
		close(w.idle)
		w.idle = nil
	}
}

// untilIdle returns a channel that is closed when the worker calls no handler; nil: it calls none
// now.
func (w *worker) untilIdle() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy && w.idle == nil {
		w.idle = make(chan struct{})
	}
	return w.idle
}

// reportStart reports that a handler is about to run, and returns its context.
func (s *Subscription) reportStart(h *Handling) context.Context {
	if h.batch != nil {
		for _, m := range h.batch.members {
			s.reportStart(m)
		}
		return h
	}
	h.hookCtx = h
	if s.settings.Events.HandleStart != nil {
		h.hookCtx = s.settings.Events.HandleStart(h, h.View)
	}
	return h.hookCtx
}

// reportEnd reports that a handler has returned, and for a batch what it returned for each message.
func (s *Subscription) reportEnd(h *Handling, answers []error, err error) {
	if s.settings.Events.HandleEnd == nil {
		return
	}
	if h.batch == nil {
		s.settings.Events.HandleEnd(h.hookCtx, h.View, time.Since(h.began), err)
		return
	}
	for i, m := range h.batch.members {
		answer := err
		if err == nil {
			answer = answers[i]
		}
		s.settings.Events.HandleEnd(m.hookCtx, m.View, time.Since(m.began), answer)
	}
}

// call turns a panic into an error.
func call(ctx context.Context, handler Handler, h *Handling) (answers []error, err error) {
	defer func() {
		if r := recover(); r != nil {
			answers, err = nil, &PanicError{Text: fmt.Sprintf("panic: %v", r), Stack: string(debug.Stack())}
		}
	}()
	if h.batch == nil {
		err = handler.Handle(ctx, h)
		readable(err)
		return nil, err
	}
	answers = handler.HandleAll(ctx, h.batch.members)
	for _, answer := range answers {
		readable(answer)
	}
	return answers, nil
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

// handlers are the running handlers.
func (s *Subscription) handlers() iter.Seq2[*worker, *Handling] {
	return func(yield func(*worker, *Handling) bool) {
		for _, w := range s.allWorkers() {
			w.mu.Lock()
			h := w.current
			w.mu.Unlock()
			if h != nil && !yield(w, h) {
				return
			}
		}
	}
}

func (s *Subscription) allWorkers() []*worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.workers))
}

package consume

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/ordering"
	"github.com/rehop/rehop/internal/rabbit"
)

// errSkipped is why a message that an operator has skipped is in the failed queue.
var errSkipped = errors.New("skipped by an operator while it waited for its next attempt")

// work handles messages in order until the subscription stops, or another worker replaces this one.
func (w *worker) workOrdered() {
	var last *ordered
	for {
		r, ok := w.sub.nextOrdered(last)
		if !ok {
			return
		}
		for m, ok := r.take(); ok; m, ok = r.take() {
			if !w.attemptOrdered(r.turn(m)) {
				return // the worker that has replaced this one has ended its turn
			}
			w.sub.endTurn()
		}
		last = r
	}
}

// takeOverOrdered concludes the message of another worker, whose handler did not return: it has failed.
func (w *worker) takeOverOrdered(h *Handling, err error) {
	state := h.state(0)
	state.TakenOver = true
	w.sub.concludeOrdered(w.sub.takenOver(h), err, Decide(state, AnswerOf(err), w.sub.settings.Schedule))
	w.sub.endTurn()
}

// nextOrdered waits for a session other than last. False: there will be none.
func (s *Subscription) nextOrdered(last *ordered) (*ordered, bool) {
	for {
		s.mu.Lock()
		r, offered := s.order, s.offered
		s.mu.Unlock()
		if r != nil && r != last {
			return r, true
		}
		select {
		case <-offered:
		case <-s.stop:
			return nil, false
		}
	}
}

// turn is the handling of a message that was taken.
func (r *ordered) turn(m *ordering.Message) *Handling {
	h := m.Data.(*Handling)
	if h.ran { // it has waited where it is
		h = r.sub.again(h)
		past := h.history()
		past.Attempt = m.Attempt
		h.past = &past
		r.sub.show(h)
		r.mu.Lock()
		hold(m, h)
		r.mu.Unlock()
	}
	h.ordered, h.message = r, m
	return h
}

// hold notes by whom a message is handled. The caller holds the lock.
func hold(m *ordering.Message, h *Handling) {
	h.exchanged = m.Data.(*Handling).exchanged
	m.Data = h
}

// attemptOrdered runs the handler until its answer ends the handling of the delivery. False: another worker has
// replaced this one.
func (w *worker) attemptOrdered(h *Handling) bool {
	s := w.sub
	if h.keyless != nil {
		h.ordered.resumeBy(h)
		h.ordered.fail(h, h.keyless, envelope.KindPanic, Result{Err: h.keyless})
		return true
	}
	for rerun := 0; ; rerun++ {
		if s.bucket != nil && (s.takeToken(h, h.ordered.ending) != taken || h.ordered.pausedFor(h)) {
			h.ordered.done(h, ordering.Unfinished, time.Time{}, Result{Outcome: Returned})
			return true
		}
		mine, err := w.run(h)
		if !mine {
			return false
		}
		h.ran = true
		decision := Decide(h.state(rerun), AnswerOf(err), s.settings.Schedule)
		if decision.Do != Rerun {
			s.concludeOrdered(h, err, decision)
			return true
		}
		h = s.again(h)
	}
}

// concludeOrdered carries out a decision that ends the handling of a delivery.
func (s *Subscription) concludeOrdered(h *Handling, err error, d Decision) {
	r, result := h.ordered, Result{Err: err, Took: time.Since(h.began)}
	h.ran = true
	if d.Do != AwaitOutage && d.Do != GiveBack {
		r.resumeBy(h)
	}
	switch d.Do {
	case Ack:
		result.Outcome = Done
		s.shared.Reports.outcome(h, s.settings.Queue, Done)
		r.done(h, ordering.Finished, time.Time{}, result)
	case AckDiscard:
		result.Outcome = Discarded
		s.shared.Reports.outcome(h, s.settings.Queue, Discarded)
		r.done(h, ordering.Finished, time.Time{}, result)
	case AwaitOutage:
		r.pause(h, err)
	case MoveAside:
		result.Outcome, result.Delay = Postponed, d.Delay
		record, due := h.history(), time.Now().Add(d.Delay)
		record.Queue, record.Due = s.settings.Queue, due
		h.record = &record
		r.done(h, ordering.Postpone, due, result)
	case MoveToWait:
		result.Outcome, result.Kind, result.Delay = Retried, d.Kind, d.Delay
		record, due := s.failure(h, err, d.Kind), time.Now().Add(d.Delay)
		record.Due = due
		h.record = &record
		r.done(h, ordering.Retry, due, result)
	case MoveToFail:
		r.fail(h, err, d.Kind, result)
	default:
		result.Outcome = Returned
		r.done(h, ordering.Unfinished, time.Time{}, result)
	}
}

// fail moves a message to the failed queue.
func (r *ordered) fail(h *Handling, err error, kind string, result Result) {
	result.Outcome, result.Kind = Failed, kind
	record := r.sub.failure(h, err, kind)
	record.InFailedQueue = true
	h.record = &record
	r.done(h, ordering.FailForGood, time.Time{}, result)
}

// giveUp fails a message for which no handler runs.
func (r *ordered) giveUp(m *ordering.Message, crashed bool) {
	if m.Kind == ordering.Block { // its message is in the failed queue
		r.event(func(o *ordering.Owner, now time.Time) { o.Done(m, ordering.FailForGood, time.Time{}, now) })
		return
	}
	h := r.turn(m)
	err, kind := errSkipped, envelope.KindPermanent
	if crashed {
		err, kind = fmt.Errorf("the process died or lost its connection %d times while it handled the message", r.sub.settings.CrashLimit), envelope.KindCrash
	}
	r.resumeBy(h)
	r.fail(h, err, kind, Result{Err: err})
}

// done reports to the Owner what has become of a message. What has become of the delivery is reported when it is acked;
// if it is not, at once.
func (r *ordered) done(h *Handling, v ordering.Verdict, due time.Time, result Result) {
	m := h.message
	moved := v == ordering.Retry || v == ordering.Postpone || v == ordering.FailForGood
	if moved && !r.hasEnded() {
		r.sub.reportMove(h, result)
	}
	r.mu.Lock()
	lost := r.owner.Closed()
	if !lost {
		if h.raw.MessageId == "" {
			h.raw.MessageId = h.givenID // its copies have it, too
		}
		hold(m, h)
		m.ID = h.raw.MessageId
		reports := v != ordering.Unfinished && v != ordering.Unavailable
		if reports {
			h.pending = &result
		}
		r.owner.Done(m, v, due, time.Now())
		r.carryOut()
		if reports && !h.settled {
			r.pending[h] = struct{}{}
		}
	}
	r.mu.Unlock()
	switch {
	case lost:
		r.sub.report(h, Result{Outcome: Lost, Err: result.Err, Took: result.Took})
	case v == ordering.Unfinished && r.sub.stopping():
		r.sub.report(h, result)
	}
}

// hasEnded reports whether the session has ended: nothing is moved any more.
func (r *ordered) hasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owner.Closed()
}

// orderedPause is a pause of a subscription that handles messages in order. It outlasts sessions: the Owner of each knows
// which message finds out whether it is over.
type orderedPause struct{ tries atomic.Int64 }

// pause lets no message run but those of this key, the first of which finds out whether what the handler needs is up again.
func (r *ordered) pause(h *Handling, err error) {
	s := r.sub
	if s.pausedOrder.CompareAndSwap(nil, &orderedPause{}) {
		s.reportPause(true, err)
	}
	lost := false
	r.event(func(o *ordering.Owner, now time.Time) {
		if lost = o.Closed(); lost {
			return
		}
		due := now
		if o.Probing(h.message) {
			due = now.Add(rabbit.Backoff{Min: s.settings.ProbeMin, Max: s.settings.ProbeMax}.Delay(s.probesOrdered()))
		}
		hold(h.message, h)
		o.Done(h.message, ordering.Unavailable, due, now)
	})
	if lost {
		s.report(h, Result{Outcome: Lost, Err: err})
	}
}

// probesOrdered is how often messages have found out that a pause is not over, this one included.
func (s *Subscription) probesOrdered() int {
	p := s.pausedOrder.Load()
	if p == nil { // another message has ended it
		return 1
	}
	return int(p.tries.Add(1))
}

// pausedFor reports whether another message finds out whether a pause is over.
func (r *ordered) pausedFor(h *Handling) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.owner.Probing(h.message)
}

// resumeBy ends a pause if this is the message that was to find out, or if no message is any more: the session that had one has
// ended, or an operator has skipped it.
func (r *ordered) resumeBy(h *Handling) {
	if r.sub.pausedOrder.Load() != nil && !r.pausedFor(h) {
		r.sub.resumeOrdered()
	}
}

// resumeOrdered ends a pause, if there is one.
func (s *Subscription) resumeOrdered() {
	if s.pausedOrder.Swap(nil) != nil {
		s.reportPause(false, nil)
	}
}

package consume

import (
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
)

// admit decides whether a delivery is handled at all. Where a message has been delivered over and
// over without an answer, its consumers have died or lost their connections. Such a message is
// handled alone, and if that kills them too, it goes to the failed queue.
func (s *Subscription) admit(o offer, h *Handling) bool {
	if s.shares && s.settings.Layout.Stray(s.letter(h)) {
		s.ack(h, Discarded, Result{})
		return false
	}
	if h.past != &unwritten {
		s.rounds.await(h.raw.MessageId)
	}
	if s.uncarried(h) {
		s.sendRound(h)
		return false
	}
	if h.mark == again && !s.counts(h) && !s.gaveBack(o) {
		// Classic queues say that they deliver a message again, and not how often: it is counted by
		// sending the message round with a higher number.
		h.setReturns(h.past.Returns + 1)
		if h.past.Returns < s.settings.CrashLimit {
			s.sendRound(h)
			return false
		}
	}
	if s.shares {
		if err := s.settings.Layout.Check(s.letter(h)); err != nil {
			s.fail(h, err, envelope.KindPermanent, Result{Err: err})
			return false
		}
	}
	if early := time.Until(h.past.Due); !h.past.Due.IsZero() && early > layout.DelayUnit {
		s.waitOn(h, early)
		return false
	}
	returns := s.returns(h)
	switch {
	case returns >= s.settings.CrashLimit:
		err := fmt.Errorf("delivered %d times without an answer: the process died or lost its connection each time", returns)
		s.fail(h, err, envelope.KindCrash, Result{Err: err})
		return false
	case returns < suspectAfter:
		if o.careful {
			s.setCareful(false)
			// Before this message is acked, or the broker gives this consumer another one, which it would
			// take back, and count, when the consumer ends.
			o.session.Cancel()
		}
		return true
	case !s.settings.Isolates:
		return true
	case !o.careful:
		return s.isolate(o, h)
	}
	relaxed := !s.isCareful()
	if relaxed { // the next session has already begun, with many: this one's turn comes later
		s.giveBack(h, Result{})
	}
	return !relaxed
}

// gaveBack reports whether a message that is delivered again was given back by somebody who failed it, as far as
// that can be told: after a process was killed or a connection was lost, the consumer is careful, if it can be.
func (s *Subscription) gaveBack(o offer) bool {
	return s.settings.Layout.RedeliveryFails() && s.settings.Isolates && !o.careful
}

// isolate sees to it that a suspect is the only message that the broker has given us: if it kills the
// process, no other message is counted as delivered without an answer. The consumer is ended, what is
// already here is handled or given back, and the next consumer takes one message at a time.
func (s *Subscription) isolate(o offer, h *Handling) bool {
	s.mu.Lock()
	another := s.suspect != nil
	if !another {
		s.suspect = h
	}
	s.mu.Unlock()
	if another { // one at a time: this one's turn comes later, and its count stays as it is
		s.giveBack(h, Result{})
		return false
	}
	s.setCareful(true)
	o.session.Cancel()
	alone := o.session.Alone(s.halt, func(d rabbit.Delivery) {
		s.giveBack(s.receive(h.base, o, d), Result{})
	})
	s.mu.Lock()
	s.suspect = nil
	s.mu.Unlock()
	if alone {
		return true
	}
	if s.halting() {
		s.giveBack(h, Result{})
	} else {
		s.report(h, Result{Outcome: Lost})
	}
	return false
}

package consume

import "github.com/rehop/rehop/internal/rabbit"

// isolate sees to it that a suspect is the only message that the broker has given us: if it kills
// the process, no other message is counted as delivered without an answer. The consumer is ended,
// what is already here is handled or given back, and the next consumer takes one message at a time.
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

// alone reports whether a suspect that came as the only message of its consumer may be handled.
// False: the next session has already begun, with many, and the message was given back: its turn
// comes later.
func (s *Subscription) alone(h *Handling) bool {
	if s.isCareful() {
		return true
	}
	s.giveBack(h, Result{})
	return false
}

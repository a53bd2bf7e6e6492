package consume

import "github.com/rehop/rehop/internal/rabbit"

// isolate waits until a suspect is the only unacked message: if it crashes the process, no other
// message is counted as delivered without an answer. The consumer is canceled, what was received is
// handled or requeued, and the next consumer has a prefetch of one.
func (s *Subscription) isolate(o offer, h *Handling) bool {
	s.mu.Lock()
	another := s.suspect != nil
	if !another {
		s.suspect = h
	}
	s.mu.Unlock()
	if another { // one at a time: this one comes later, with its count unchanged
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

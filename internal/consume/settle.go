package consume

import (
	"fmt"
	"maps"
	"strings"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
)

func (s *Subscription) ack(h *Handling, outcome Outcome, result Result) {
	result.Outcome = outcome
	s.shared.Reports.outcome(h, s.settings.Queue, outcome)
	s.settle(h, result, (*rabbit.Delivery).Ack)
}

// settle acks, requeues or rejects a delivery. Its result is reported when that has been sent.
func (s *Subscription) settle(h *Handling, result Result, by func(*rabbit.Delivery) bool) {
	if s.settings.Events.Result != nil {
		h.raw.Note = &settled{h, result}
	}
	if !by(&h.raw) {
		result.Outcome = Lost
		s.report(h, result)
	}
}

// settled is a delivery whose result is reported as soon as its ack, requeue or reject has been sent.
type settled struct {
	handling *Handling
	result   Result
}

// reportSettled is called when acks, requeues or rejects of deliveries have been sent, or cannot be any
// more.
func (s *Subscription) reportSettled(notes []any, sent bool) {
	for _, note := range notes {
		of := note.(*settled)
		if !sent {
			of.result.Outcome = Lost
		}
		s.report(of.handling, of.result)
	}
}

// report reports what happened to a delivery.
func (s *Subscription) report(h *Handling, result Result) {
	if s.settings.Events.Result != nil {
		s.settings.Events.Result(h.hookCtx, h.View, result)
	}
}

// reportMove reports that a message is about to be moved, and notes the headers that hooks add.
func (s *Subscription) reportMove(h *Handling, result Result) {
	if s.settings.Events.Move == nil {
		return
	}
	h.added = make(map[string]any)
	s.settings.Events.Move(h.hookCtx, h.View, result, h.added)
	maps.DeleteFunc(h.added, func(name string, _ any) bool {
		return envelope.Owned(name) && !strings.HasPrefix(name, envelope.HookPrefix)
	})
}

// giveBack returns a message to its queue because the subscription stops. The broker counts that like a
// crash. So a message that was returned before is republished to the end of the queue instead, with its
// count unchanged: no number of clean stops makes it suspect. The same applies to every message that
// has not failed where a redelivery counts as a failure, and to one that has brought along a count
// which may be above the limit of the queue.
func (s *Subscription) giveBack(h *Handling, result Result) {
	n := s.returns(h)
	if n > 0 || s.settings.Layout.RedeliveryFails() && h.mark != again || s.mustRepublish(h) {
		h.raw.Session.Cancel() // otherwise it would be delivered to this consumer again
		h.setReturns(n)
		s.republish(h)
		return
	}
	s.requeue(h, false)
	result.Outcome = Returned
	s.report(h, result)
}

// requeue has the broker return a message to its queue. False: the session has ended, and the broker does that
// by itself. A message that has failed is counted by noteUnmoved.
func (s *Subscription) requeue(h *Handling, failed bool) bool {
	if s.stopping() {
		h.raw.Session.Cancel() // or it would come back to us
	}
	ours := h.raw.Requeue()
	if ours && !failed && s.stopping() && s.settings.temporary() {
		s.mu.Lock()
		s.unhandled++
		s.mu.Unlock()
	}
	return ours
}

// unhandledError reports how many messages a stop has returned to a queue that does not outlive the subscription or
// the client.
func (s *Subscription) unhandledError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unhandled == 0 {
		return nil
	}
	return fmt.Errorf("rehop: subscription %q: messages that were received and not handled: %d; they are lost: %s",
		s.settings.Queue, s.unhandled, s.settings.ends())
}

package rehop

import (
	"context"
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
)

// receive opens a message's envelope.
func (s *Subscription) receive(base context.Context, from offer, d rabbit.Delivery) *handling {
	raw := rabbit.FromTable(d.Headers)
	past := &unwritten
	if envelope.Written(raw) {
		read := envelope.Read(raw, d.Exchange, d.RoutingKey)
		switch {
		case read.Queue != "" && read.Queue != s.config.Queue:
			read = read.Elsewhere()
		case read.Rests:
			read = read.Replayed()
		}
		past = &read
	}
	h := &handling{base: base, told: base, from: from, raw: d, past: past}
	if d.MessageId == "" {
		h.givenID = NewID()
	}
	h.mark = s.redeliveryOf(h)
	if s.shares {
		s.adopt(h)
		past = h.past
	}
	h.Delivery = Delivery{
		Message: Message{
			ID: d.MessageId, Exchange: d.Exchange, Key: d.RoutingKey, Headers: visible(raw), Body: d.Body,
			ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, Transient: past.Transient || d.DeliveryMode == rabbit.Transient,
			Priority: d.Priority, Expiration: expiration(d.Expiration), Timestamp: d.Timestamp,
			CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo, Type: d.Type, AppID: d.AppId,
		},
		Queue: s.config.Queue, Attempt: past.Attempt + 1,
		// Others may try a message more often than the schedule does: then this attempt is the last.
		Attempts:  max(s.config.Retry.attempts, past.Attempt+1),
		LastError: past.Error, FirstFailed: past.FirstFailed, Redelivered: h.mark != first || past.Returns > 0, Replays: past.Replays, givenID: h.givenID,
	}
	if past != &unwritten {
		h.Delivery.Exchange, h.Delivery.Key, h.Delivery.hooks = past.Exchange, past.Key, past.Hooks
	}
	if past.Expiration != "" {
		h.Delivery.Expiration = expiration(past.Expiration)
	}
	return h
}

// unwritten is the past of a message that has none: most have, and share it. Nobody writes to it.
var unwritten envelope.Failure

// history is a copy of what is known of a message's earlier attempts. It does not rest on the Delivery,
// which is in the handler's hands.
func (h *handling) history() envelope.Failure {
	past := *h.past
	if h.past == &unwritten {
		past.Exchange, past.Key = h.raw.Exchange, h.raw.RoutingKey
	}
	return past
}

// adopt takes up what others than rehop have written down of a message.
func (s *Subscription) adopt(h *handling) {
	l, past := s.letter(h), h.history()
	if h.past == &unwritten {
		past.Exchange, past.Key = s.layout.Origin(l)
	}
	past.Attempt = max(past.Attempt, s.layout.Failures(l))
	if h.mark == again && s.layout.RedeliveryFails() {
		// It may also have been in the hands of somebody who died: it is not given up without another try.
		past.Attempt = max(past.Attempt, min(past.Attempt+1, s.config.Retry.attempts-1))
	}
	h.past = &past
}

// letter is a delivery as the layout sees it.
func (s *Subscription) letter(h *handling) layouts.Letter {
	d, l := &h.raw, layouts.Letter{}
	l.Queue, l.ID, l.Exchange, l.Key = s.config.Queue, d.MessageId, d.Exchange, d.RoutingKey
	if h.past != &unwritten {
		l.Exchange, l.Key = h.past.Exchange, h.past.Key
	}
	l.Headers, l.Body, l.ContentType, l.Redelivered = rabbit.FromTable(d.Headers), d.Body, d.ContentType, h.mark != first
	l.CorrelationID, l.ReplyTo, l.Type, l.AppID = d.CorrelationId, d.ReplyTo, d.Type, d.AppId
	l.Priority, l.Transient = d.Priority, h.past.Transient || d.DeliveryMode == rabbit.Transient
	return l
}

// setReturns notes how often the message was delivered before without an answer.
func (h *handling) setReturns(n int) {
	past := h.history()
	past.Returns = n
	h.past = &past
}

// visible are the headers that a handler sees. A message without headers of its own is the usual
// case, and costs no copy.
func visible(headers map[string]any) map[string]any {
	for name := range headers {
		if !envelope.Owned(name) {
			return envelope.Clean(headers)
		}
	}
	if _, ok := headers[envelope.CC]; ok {
		return envelope.Clean(headers)
	}
	return nil
}

// admit decides whether a delivery is handled at all. Where a message has been delivered over and
// over without an answer, its consumers have died or lost their connections. Such a message is
// handled alone, and if that kills them too, it goes to the failed queue.
func (s *Subscription) admit(o offer, h *handling) bool {
	if s.shares && s.layout.Stray(s.letter(h)) {
		s.ack(h, OutcomeDiscarded, Result{})
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
		if h.past.Returns < s.config.CrashLimit {
			s.sendRound(h)
			return false
		}
	}
	if s.shares {
		if err := s.layout.Check(s.letter(h)); err != nil {
			s.park(h, err, envelope.KindPermanent, Result{Err: err})
			return false
		}
	}
	if early := time.Until(h.past.Due); !h.past.Due.IsZero() && early > layouts.DelayUnit {
		s.waitOn(h, early)
		return false
	}
	returns := s.returns(h)
	switch {
	case returns >= s.config.CrashLimit:
		err := fmt.Errorf("delivered %d times without an answer: the process died or lost its connection each time", returns)
		s.park(h, err, envelope.KindCrash, Result{Err: err})
		return false
	case returns < suspectAfter:
		if o.careful {
			s.setCareful(false)
			// Before this message is acked, or the broker gives this consumer another one, which it would
			// take back, and count, when the consumer ends.
			o.session.Cancel()
		}
		return true
	case !s.config.isolates():
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
	return s.layout.RedeliveryFails() && s.config.isolates() && !o.careful
}

// isolate sees to it that a suspect is the only message that the broker has given us: if it kills the
// process, no other message is counted as delivered without an answer. The consumer is ended, what is
// already here is handled or given back, and the next consumer takes one message at a time.
func (s *Subscription) isolate(o offer, h *handling) bool {
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
		s.tellHandled(h, Result{Outcome: OutcomeLost})
	}
	return false
}

// counts reports whether the queue counts how often it delivers a message without an answer, as quorum
// queues do. From RabbitMQ 4.3 on they do not count what was given back, but mark it as delivered before anyway.
// Of a queue that rehop did not declare, only its messages tell.
func (s *Subscription) counts(h *handling) bool {
	_, marked := h.raw.Headers["x-delivery-count"]
	return layouts.IsQuorum(s.queue) || marked && s.queue.Passive
}

// returns is how often the message was delivered before without an answer. The broker's count is believed only of a message that it
// delivers again from this queue: any publisher can write one, and a dead letter can bring one along.
func (s *Subscription) returns(h *handling) int {
	if h.mark == again && s.counts(h) {
		return h.past.Returns + believed(h)
	}
	return h.past.Returns
}

package consume

import (
	"context"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
)

// Incoming is a delivery whose rehop headers have been read.
type Incoming struct {
	Raw         *rabbit.Delivery
	Headers     map[string]any    // that the handler may see
	Past        *envelope.Failure // of earlier attempts
	Known       bool              // Past has how the message was first published
	Redelivered bool
	GivenID     string // that the message gets at its first failure if it has none
}

// receive reads a message's rehop headers.
func (s *Subscription) receive(base context.Context, from offer, d rabbit.Delivery) *Handling {
	raw := rabbit.FromTable(d.Headers)
	past := &unwritten
	if envelope.Written(raw) {
		read := envelope.Read(raw, d.Exchange, d.RoutingKey)
		switch {
		case read.Queue != "" && read.Queue != s.settings.Queue:
			read = read.Elsewhere()
		case read.InFailedQueue:
			read = read.Replayed()
		}
		past = &read
	}
	h := s.settings.Handler.New()
	h.base, h.hookCtx, h.from, h.raw, h.past = base, base, from, d, past
	if d.MessageId == "" {
		h.givenID = rabbit.NewID()
	}
	h.mark = s.redeliveryOf(h)
	if s.shares {
		s.adopt(h)
	}
	s.show(h)
	return h
}

// show fills in what the handler sees of a delivery.
func (s *Subscription) show(h *Handling) {
	s.settings.Handler.Open(h, Incoming{
		Raw: &h.raw, Headers: Visible(rabbit.FromTable(h.raw.Headers)), Past: h.past, Known: h.past != &unwritten,
		Redelivered: h.mark != first || h.past.Returns > 0, GivenID: h.givenID,
	})
}

// unwritten is the past of a message that has none, as most messages. It is shared and never written to.
var unwritten envelope.Failure

// history is a copy of the record of a message's earlier attempts. It does not use the Delivery, which
// the handler can change.
func (h *Handling) history() envelope.Failure {
	past := *h.past
	if h.past == &unwritten {
		past.Exchange, past.Key = h.raw.Exchange, h.raw.RoutingKey
	}
	return past
}

// adopt reads the records of programs without rehop.
func (s *Subscription) adopt(h *Handling) {
	l, past := s.message(h), h.history()
	if h.past == &unwritten {
		past.Exchange, past.Key = s.settings.Layout.Origin(l)
	}
	past.Attempt = max(past.Attempt, s.settings.Layout.Failures(l))
	if h.mark == again && s.settings.Layout.RedeliveryFails() {
		// A consumer may also have died with it: it is not failed for good without another attempt.
		past.Attempt = max(past.Attempt, min(past.Attempt+1, s.settings.Schedule.Attempts-1))
	}
	h.past = &past
}

// message is a delivery as the layout sees it.
func (s *Subscription) message(h *Handling) layouts.Message {
	d, l := &h.raw, layouts.Message{}
	l.Queue, l.ID, l.Exchange, l.Key = s.settings.Queue, d.MessageId, d.Exchange, d.RoutingKey
	if h.past != &unwritten {
		l.Exchange, l.Key = h.past.Exchange, h.past.Key
	}
	l.Headers, l.Body, l.ContentType, l.Redelivered = rabbit.FromTable(d.Headers), d.Body, d.ContentType, h.mark != first
	l.CorrelationID, l.ReplyTo, l.Type, l.AppID = d.CorrelationId, d.ReplyTo, d.Type, d.AppId
	l.Priority, l.Transient = d.Priority, h.past.Transient || d.DeliveryMode == rabbit.Transient
	return l
}

// setReturns notes how often the message was delivered before without an answer.
func (h *Handling) setReturns(n int) {
	past := h.history()
	past.Returns = n
	h.past = &past
}

// Visible are the headers that a handler sees. A message without headers of its own is the usual
// case, and costs no copy.
func Visible(headers map[string]any) map[string]any {
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

package consume

import (
	"fmt"
	"maps"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
)

// sealed is the message with its history in its headers. If both together are too large for a frame,
// the headers of hooks, the stack and the error's text are dropped, and then, where that is allowed,
// the largest headers.
func sealed(h *Handling, id string, failure envelope.Failure, to destination) (*rabbit.Publishing, error) {
	d := h.raw
	p := &rabbit.Publishing{
		MessageId: id, Body: d.Body, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		DeliveryMode: rabbit.Persistent, Priority: d.Priority, Timestamp: d.Timestamp,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Type: d.Type, AppId: d.AppId,
	}
	if to.body != nil {
		p.Body = to.body
	}
	if to.contentType != "" {
		p.ContentType = to.contentType
	}
	if failure.Expiration == "" {
		failure.Expiration = d.Expiration
	}
	failure.Transient = failure.Transient || d.DeliveryMode == rabbit.Transient
	headers := envelope.Clean(d.Headers)
	failure.CC = headers["CC"]
	delete(headers, "CC")
	maps.Copy(headers, h.added)
	maps.Copy(headers, to.Headers)
	for {
		failure.Write(headers)
		p.Headers = rabbit.ToTable(headers)
		size, err := rabbit.HeaderSize(p.Headers)
		if err != nil && len(h.added)+len(failure.Hooks) == 0 {
			return nil, err
		}
		over := size + to.reserve - rabbit.HeaderRoom(p)
		switch {
		case over <= 0 && err == nil:
			return p, nil
		case len(h.added)+len(failure.Hooks) > 0: // no header of a hook is worth a message
			h.added, failure.Hooks = nil, nil
			return sealed(h, id, failure, to)
		case failure.Stack != "":
			failure.Stack = ""
			delete(headers, envelope.Stack)
		case failure.Error != "":
			failure.Error = envelope.Bounded(failure.Error, len(failure.Error)-over)
			delete(headers, envelope.Error)
		default:
			name, ok := largest(headers)
			if !to.trim || !ok {
				return nil, fmt.Errorf("%w: its headers leave no room for its history", rabbit.ErrTooLarge)
			}
			failure.Dropped = envelope.Bounded(failure.Dropped+" "+name, countSize)
			delete(headers, name)
		}
	}
}

// largest is the name of the largest header that is not rehop's.
func largest(headers map[string]any) (string, bool) {
	name, size := "", -1
	for n, v := range headers {
		if envelope.Owned(n) {
			continue
		}
		if s, err := rabbit.HeaderSize(rabbit.ToTable(map[string]any{n: v})); err == nil && s > size {
			name, size = n, s
		}
	}
	return name, size >= 0
}

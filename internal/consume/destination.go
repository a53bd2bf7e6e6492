package consume

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rehop/rehop/internal/delays"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/topology"
)

// destination is where a message is moved to.
type destination struct {
	layouts.Address
	key string
	// reserve is the room to leave in the header frame for what the broker adds: a message whose
	// headers have become too large would end every connection that it is delivered on.
	reserve int
	// trim: user headers may be dropped if it does not fit otherwise.
	trim bool
	// body and contentType replace the message's own, if they are set.
	body        []byte
	contentType string
}

// route returns a destination, and declares what it needs unless that was done since a time.
type route func(ctx context.Context, since time.Time) (destination, error)

// directly is the route to a destination for which nothing has to be declared.
func directly(to destination) route {
	return func(context.Context, time.Time) (destination, error) { return to, nil }
}

// countSize is how much the broker adds when it delivers a message again.
const countSize = 256

// with is the destination with the headers and the body that a layout wants.
func (d destination) with(v layouts.Verdict) destination {
	headers := make(map[string]any, len(d.Headers)+len(v.Headers))
	maps.Copy(headers, d.Headers)
	maps.Copy(headers, v.Headers)
	d.Headers, d.body, d.contentType = headers, v.Body, v.ContentType
	return d
}

// toAddress is the destination that a layout has chosen.
func (s *Subscription) toAddress(v layouts.Verdict, reserve int) destination {
	to := destination{Address: v.Address, key: v.Key, reserve: reserve}
	if v.ToQueue {
		to.key = s.returnKey
	}
	return to.with(v)
}

// keyOf is the routing key of a message while it waits.
func (s *Subscription) keyOf(h *Handling) string {
	if s.keepsKey {
		return h.history().Key
	}
	return s.returnKey
}

// toStep is the destination of a message that waits in a step.
func (s *Subscription) toStep(h *Handling, step delays.Step) destination {
	key := s.keyOf(h)
	return destination{Address: step.Address, key: key, reserve: delays.Reserve(1, key)}
}

// toCascade is the route of a message that waits in the cascade.
func (s *Subscription) toCascade(h *Handling, delay time.Duration, v layouts.Verdict) route {
	key := s.keyOf(h)
	return func(ctx context.Context, since time.Time) (destination, error) {
		address, err := s.shared.Delays.Back(ctx, delay, s.keepsKey, since)
		return destination{Address: address, key: key, reserve: delays.Reserve(len(address.Headers), key)}.with(v), err
	}
}

// hasStep reports whether a step is one of those that the subscription has declared.
func (s *Subscription) hasStep(step delays.Step) bool {
	return slices.ContainsFunc(s.form.Load().RetryPlan.Queues, func(q topology.Queue) bool { return q.Name == step.Queue })
}

// toFailed is the destination of a message that goes to the failed queue.
func (s *Subscription) toFailed(h *Handling, record envelope.Failure) destination {
	to := s.toAddress(s.settings.Layout.Fail(s.failed(h, record)), countSize)
	to.trim = true
	return to
}

// toEnd is the destination of a message that goes to the end of its own queue.
func (s *Subscription) toEnd(h *Handling, record envelope.Failure) destination {
	verdict := layouts.Verdict{Key: s.settings.Queue, Headers: s.settings.Layout.Record(s.message(h), record.Attempt)}
	if s.keepsKey {
		verdict.Address.Exchange, verdict.Key = layouts.LandedExchange, record.Key
	}
	return s.toAddress(verdict, countSize)
}

package rehop

import (
	"context"

	"github.com/rehop/rehop/internal/consume"
	"github.com/rehop/rehop/internal/rabbit"
)

// delivered is a delivery as the handler sees it, and what package consume knows about it, in one
// allocation for every message.
type delivered struct {
	consume.Handling
	Delivery Delivery
}

// deliveries implements [consume.Handler].
type deliveries struct {
	handler  Handler
	batch    Batch
	queue    string
	attempts int // that the schedule has
}

func (d *deliveries) New() *consume.Handling {
	to := new(delivered)
	to.View = &to.Delivery
	return &to.Handling
}

func (d *deliveries) Open(h *consume.Handling, in consume.Incoming) {
	raw, past := in.Raw, in.Past
	to := h.View.(*Delivery)
	*to = Delivery{
		Message: Message{
			ID: raw.MessageId, Exchange: raw.Exchange, Key: raw.RoutingKey, Headers: in.Headers, Body: raw.Body,
			ContentType: raw.ContentType, ContentEncoding: raw.ContentEncoding,
			Transient: past.Transient || raw.DeliveryMode == rabbit.Transient,
			Priority:  raw.Priority, Expiration: expiration(raw.Expiration), Timestamp: raw.Timestamp,
			CorrelationID: raw.CorrelationId, ReplyTo: raw.ReplyTo, Type: raw.Type, AppID: raw.AppId,
		},
		Queue: d.queue, Attempt: past.Attempt + 1,
		// A program that shares the queue may have made more attempts than this schedule has: then this attempt is the last.
		MaxAttempts: max(d.attempts, past.Attempt+1),
		LastError:   past.Error, FirstFailed: past.FirstFailed, Redelivered: in.Redelivered, Replays: past.Replays,
		givenID: in.GivenID,
	}
	to.OrderKey = to.orderKey()
	if in.Known {
		to.Exchange, to.Key, to.hooks = past.Exchange, past.Key, past.Hooks
	}
	if past.Expiration != "" {
		to.Expiration = expiration(past.Expiration)
	}
}

func (d *deliveries) Handle(ctx context.Context, h *consume.Handling) error {
	return d.handler.Handle(ctx, h.View.(*Delivery))
}

func (d *deliveries) HandleAll(ctx context.Context, all []*consume.Handling) []error {
	views := make([]*Delivery, len(all))
	for i, h := range all {
		views[i] = h.View.(*Delivery)
	}
	return d.batch.handle(ctx, views)
}

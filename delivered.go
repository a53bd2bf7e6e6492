package rehop

import (
	"context"

	"github.com/rehop/rehop/internal/consume"
	"github.com/rehop/rehop/internal/rabbit"
)

// delivered is a delivery as the handler sees it, and what the package consume keeps of it. They are
// in one piece of memory because one is made for every message.
type delivered struct {
	consume.Handling
	Delivery Delivery
}

// deliveries makes of deliveries what the handler sees, and runs the handler.
type deliveries struct {
	handler  Handler
	batch    Batch
	queue    string
	attempts int // that the schedule has
}

// New makes room for a delivery.
func (d *deliveries) New() *consume.Handling {
	to := new(delivered)
	to.View = &to.Delivery
	return &to.Handling
}

// Copy is the same delivery for another run of the handler.
func (d *deliveries) Copy(from *consume.Handling) *consume.Handling {
	to := &delivered{Delivery: *from.View.(*Delivery)}
	to.View = &to.Delivery
	return &to.Handling
}

// Open fills in what the handler sees.
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
		// Others may try a message more often than the schedule does: then this attempt is the last.
		MaxAttempts: max(d.attempts, past.Attempt+1),
		LastError:   past.Error, FirstFailed: past.FirstFailed, Redelivered: in.Redelivered, Replays: past.Replays,
		givenID: in.GivenID,
	}
	if in.Known {
		to.Exchange, to.Key, to.hooks = past.Exchange, past.Key, past.Hooks
	}
	if past.Expiration != "" {
		to.Expiration = expiration(past.Expiration)
	}
}

// Handle runs the handler.
func (d *deliveries) Handle(ctx context.Context, h *consume.Handling) error {
	return d.handler.Handle(ctx, h.View.(*Delivery))
}

// HandleAll runs the handler for a batch.
func (d *deliveries) HandleAll(ctx context.Context, all []*consume.Handling) []error {
	views := make([]*Delivery, len(all))
	for i, h := range all {
		views[i] = h.View.(*Delivery)
	}
	return d.batch.handle(ctx, views)
}

package rehop

import (
	"cmp"
	"context"
	"time"

	"github.com/rehop/rehop/internal/consume"
)

// Handler handles the messages of a subscription. What it returns decides what happens to the
// message; see the package comment.
type Handler interface {
	Handle(ctx context.Context, d *Delivery) error
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, d *Delivery) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, d *Delivery) error { return f(ctx, d) }

// Middleware wraps a handler in another one.
type Middleware func(Handler) Handler

// Delivery is a message as a handler sees it.
type Delivery struct {
	// Message has the exchange, key, properties and headers with which it was first published, also
	// when it has been retried or replayed since. Do not change Body and Headers in place: a retry sends
	// the same bytes.
	Message
	// Queue is the queue that it was consumed from.
	Queue string
	// Attempt is the number of this attempt, from 1.
	Attempt int
	// MaxAttempts is how many attempts there are in all. It is never less than Attempt: other programs
	// that share the queue may try a message more often than the schedule does.
	MaxAttempts int
	// LastError is why the attempt before failed.
	LastError string
	// FirstFailed is when the first attempt failed.
	FirstFailed time.Time
	// Redelivered: a consumer may have received this same attempt before, and crashed or lost its
	// connection. For a message that was dead-lettered from another queue, that can have been a consumer
	// of that queue.
	Redelivered bool
	// Replays is how often it was replayed from the failed queue.
	Replays int

	givenID string         // see StableID
	hooks   map[string]any // headers that hooks have written for themselves
}

// StableID is the message's id. For a message that was published without one, it is the id that rehop
// gives it at its first failure: the same at this attempt and at all that follow. A crash before the
// first failure changes it, and so does a layout in which the broker itself moves failed messages.
// [Message].ID is empty until then.
func (d *Delivery) StableID() string { return cmp.Or(d.ID, d.givenID) }

// HookHeader is a header that [Hooks].OnMove wrote under a name that begins with [HookPrefix]; nil if
// there is none. Other programs can write such headers, too: do not trust their values.
func (d *Delivery) HookHeader(name string) any { return d.hooks[name] }

// DeliveryFrom returns the delivery that is being handled, or nil outside of a handler.
func DeliveryFrom(ctx context.Context) *Delivery {
	d, _ := ctx.Value(consume.ViewKey{}).(*Delivery)
	return d
}

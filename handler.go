package rehop

import (
	"cmp"
	"context"
	"time"

	"github.com/rehop/rehop/internal/consume"
)

// Handler handles the messages of a subscription. What it returns decides what becomes of the
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
	// when it has been retried or replayed since. What Body and Headers hold must not be changed in
	// place: a retry sends the same bytes.
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
	// Redelivered: somebody may have seen this very attempt before, and died or lost its connection. Of a message that another
	// queue has dead-lettered, it can also have been a consumer of that queue.
	Redelivered bool
	// Replays is how often a person has replayed it from the failed queue.
	Replays int

	givenID string         // see StableID
	hooks   map[string]any // headers that hooks have written for themselves
}

// StableID is the message's id, or, if it was published without one, the id that rehop gives it when it
// first fails: the same at this attempt and at all that follow. A crash before the first failure changes
// it. So does a layout in which the broker itself moves what fails. [Message].ID is empty until then.
func (d *Delivery) StableID() string { return cmp.Or(d.ID, d.givenID) }

// HookHeader is a header that a [Hooks].OnMove has written for itself when the message was sent on, under a name that begins with
// [HookPrefix]; nil if there is none. Other programs can write such headers, too: do not trust what they say.
func (d *Delivery) HookHeader(name string) any { return d.hooks[name] }

// DeliveryFrom returns the delivery that is being handled, or nil outside of a handler.
func DeliveryFrom(ctx context.Context) *Delivery {
	d, _ := ctx.Value(consume.ViewKey{}).(*Delivery)
	return d
}

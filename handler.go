package rehop

import (
	"cmp"
	"context"
	"errors"
	"time"
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
	// Attempt counts from 1.
	Attempt int
	// Attempts is how many there are in all.
	Attempts int
	// LastError is why the attempt before failed.
	LastError string
	// FirstFailed is when the first attempt failed.
	FirstFailed time.Time
	// Redelivered: somebody may have seen this very attempt before, and died or lost its connection. Of a message that another
	// queue has dead-lettered, it can also have been a consumer of that queue.
	Redelivered bool
	// Replays is how often a person has replayed it from the failed queue.
	Replays int

	givenID string         // see LastingID
	hooks   map[string]any // headers that hooks have written for themselves
}

// LastingID is the message's id, or, if it was published without one, that which it is given when it first fails: the same at this
// attempt and at all that follow. It does not outlast a crash before that, nor a layout in which the broker itself moves what fails, so
// that [Message].ID remains empty until then.
func (d *Delivery) LastingID() string { return cmp.Or(d.ID, d.givenID) }

// HookHeader is a header that a [MoveHook] has written for itself when the message was sent on, under a name that begins with
// [HookPrefix]; nil if there is none. Other programs can write such headers, too: do not trust what they say.
func (d *Delivery) HookHeader(name string) any { return d.hooks[name] }

type deliveryKey struct{}

// DeliveryFrom returns the delivery that is being handled, or nil outside of a handler.
func DeliveryFrom(ctx context.Context) *Delivery {
	d, _ := ctx.Value(deliveryKey{}).(*Delivery)
	return d
}

// decodeError is a permanent failure with a kind of its own.
type decodeError struct{ err error }

func (e *decodeError) Error() string { return e.err.Error() }
func (e *decodeError) Unwrap() error { return e.err }

// panicError is a handler's panic, or runtime.Goexit.
type panicError struct {
	text  string
	stack string
}

func (e *panicError) Error() string { return e.text }

// errTimeout is the cause of a handler's canceled context when its time is up.
var errTimeout = errors.New("handler did not end in time")

// errStopping is the cause when the subscription stops before the handler has ended.
var errStopping = errors.New("subscription is stopping")

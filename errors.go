package rehop

import (
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/consume"
	"github.com/rehop/rehop/internal/rabbit"
)

// What Publish returns when a message was not confirmed; compare with errors.Is.
var (
	// ErrUnroutable: the broker found no queue for the message, or no such exchange. It is stored nowhere.
	ErrUnroutable = rabbit.ErrUnroutable
	// ErrRefused: the broker said no: a queue is full (reject-publish) or has lost its leader, or the
	// user may not publish there. Where several queues are bound, some may have taken the message.
	ErrRefused = rabbit.ErrRefused
	// ErrUnknown: the message was sent, and no answer came before the connection was lost or the
	// context ended. It may be stored; sent again under the same id it may be there twice.
	ErrUnknown = rabbit.ErrUnknown
	// ErrBlocked: the broker is short of memory or disk and takes no messages, or it does not confirm
	// those under way. It was not sent.
	ErrBlocked = rabbit.ErrBlocked
	// ErrDisconnected: there was no connection to a broker in time. It was not sent.
	ErrDisconnected = rabbit.ErrDisconnected
	// ErrTooLarge: the body or the headers are larger than the limits allow. It was not sent.
	ErrTooLarge = rabbit.ErrTooLarge
	// ErrInvalid: the message cannot be expressed in AMQP. It was not sent.
	ErrInvalid = rabbit.ErrInvalid
	// ErrClosed: the client is closed.
	ErrClosed = rabbit.ErrClosed
)

// TopologyError says which exchange, queue, binding or consumer the broker did not accept, which
// argument differs, and what to do.
type TopologyError struct {
	Object   string // "exchange", "queue", …
	Name     string
	Code     int    // AMQP's reply code: 403 access refused, 404 not found, 405 locked, 406 differs
	Argument string // for 406, the argument that differs
	Want     string // what was asked for
	Have     string // what the broker has
	err      error
}

func (e *TopologyError) Error() string { return e.err.Error() }

// Unwrap lets errors.Is and errors.As reach what the broker or the connection returned.
func (e *TopologyError) Unwrap() error { return e.err }

// publicError turns an internal error into what the package promises.
func publicError(err error) error {
	if t := (*TopologyError)(nil); errors.As(err, &t) {
		return err
	}
	var d *rabbit.DeclareError
	if errors.As(err, &d) {
		return &TopologyError{Object: d.Object, Name: d.Name, Code: d.Code, Argument: d.Argument, Want: d.Want, Have: d.Have, err: err}
	}
	return err
}

// Permanent says that retrying is pointless: the message goes to the failed queue at once.
func Permanent(err error) error { return &consume.Instruction{Err: err, Does: consume.Fail} }

// RetryAfter says that the message is to be tried again after exactly d, whatever the schedule
// says. It counts as an attempt, and after the last one the message goes to the failed queue.
func RetryAfter(d time.Duration, err error) error {
	return &consume.Instruction{Err: err, Does: consume.RetryAfter, Wait: d}
}

// Postpone has the message wait on the broker for d and come again, without using an attempt: whatever hinders it is not its fault and
// will pass, and other messages need not wait for it. A message can be postponed any number of times.
func Postpone(d time.Duration, err error) error {
	return &consume.Instruction{Err: err, Does: consume.Postpone, Wait: d}
}

// Discard says that the message is of no use: it is acked and counted, and gone.
func Discard(err error) error { return &consume.Instruction{Err: err, Does: consume.Discard} }

// Unavailable says that something the handler needs is down, which is not the message's fault. The
// subscription stops handling, tries this message again from time to time, and goes on when it gets
// another answer. No attempt is burnt.
func Unavailable(err error) error { return &consume.Instruction{Err: err, Does: consume.Pause} }

// BatchError says which messages of a batch have failed: of [Client.PublishBatch], those that were not
// confirmed; returned by [Batch].Handle, those that could not be handled.
type BatchError struct {
	// Errors has an entry for each message of the batch, nil for those that were confirmed or handled.
	Errors []error
}

func (e *BatchError) Error() string {
	failed, first := 0, error(nil)
	for _, err := range e.Errors {
		if err != nil {
			if failed++; first == nil {
				first = err
			}
		}
	}
	return fmt.Sprintf("%d of %d messages failed, first: %v", failed, len(e.Errors), first)
}

// Unwrap lets errors.Is and errors.As look at each.
func (e *BatchError) Unwrap() []error {
	var all []error
	for _, err := range e.Errors {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

package rehop

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rehop/rehop/internal/consume"
	"github.com/rehop/rehop/internal/rabbit"
)

// What Publish returns when a message was not confirmed; compare with errors.Is.
var (
	// ErrUnroutable: the broker found no queue for the message, or no such exchange. It is stored nowhere.
	ErrUnroutable = rabbit.ErrUnroutable
	// ErrRefused: the broker rejected it: a queue is full (reject-publish) or has lost its leader, or
	// the user may not publish there. If several queues are bound, some may have stored the message.
	ErrRefused = rabbit.ErrRefused
	// ErrUnknown: the message was sent, and the connection was lost or the context ended before the
	// confirm. It may be stored; if you send it again under the same id, it may be stored twice.
	ErrUnknown = rabbit.ErrUnknown
	// ErrBlocked: the broker is short of memory or disk and accepts no messages, or it does not confirm
	// those that were sent before. It was not sent.
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

// TopologyError is an exchange, queue, binding or consumer that the broker did not accept. Its text
// has the reason and what to do.
type TopologyError struct {
	Object   string // "exchange", "queue", …
	Name     string
	Code     int    // AMQP's reply code: 403 access refused, 404 not found, 405 locked, 406 differs
	Argument string // for 406, the argument that differs
	Want     string // for 406, the value that was declared
	Have     string // for 406, the value that the broker has
	err      error
}

func (e *TopologyError) Error() string { return e.err.Error() }

// Unwrap returns the error of the broker or the connection.
func (e *TopologyError) Unwrap() error { return e.err }

// publicError turns an internal error into what the package promises.
func publicError(err error) error {
	if _, is := errors.AsType[*TopologyError](err); is {
		return err
	}
	if d, is := errors.AsType[*rabbit.DeclareError](err); is {
		return &TopologyError{Object: d.Object, Name: d.Name, Code: d.Code, Argument: d.Argument, Want: d.Want, Have: d.Have, err: err}
	}
	return err
}

// Permanent makes the message go to the failed queue at once, without retries. Return it from a handler
// for errors that a retry cannot fix.
func Permanent(err error) error { return &consume.Instruction{Err: err, Does: consume.Fail} }

// RetryAfter retries the message after exactly d, whatever the schedule is. It counts as an attempt,
// and after the last one the message goes to the failed queue.
func RetryAfter(d time.Duration, err error) error {
	return &consume.Instruction{Err: err, Does: consume.RetryAfter, Wait: d}
}

// Postpone delays the message on the broker for d without using an attempt. Return it when the message
// cannot be handled yet and others can. A message can be postponed any number of times.
func Postpone(d time.Duration, err error) error {
	return &consume.Instruction{Err: err, Does: consume.Postpone, Wait: d}
}

// Discard acks the message although it was not handled: it is gone. Hooks receive OutcomeDiscarded.
func Discard(err error) error { return &consume.Instruction{Err: err, Does: consume.Discard} }

// Unavailable pauses the subscription because something that the handler needs is down. The
// subscription tries this message again from time to time (see Subscriber.ProbeMin), and resumes when
// the handler returns anything else. No attempt is used.
func Unavailable(err error) error { return &consume.Instruction{Err: err, Does: consume.Pause} }

// KindOf is the kind of failure that an error of a handler would be, for [Subscriber.Classify]: a panic is
// KindPanic, a body that cannot be decoded KindDecode. It is "" for nil.
func KindOf(err error) Kind { return Kind(consume.AnswerOf(err).Kind) }

// BatchError has the errors of the messages of a batch. [Client.PublishBatch] returns it for messages
// that were not confirmed, and [Batch].Handle returns it for messages that could not be handled.
type BatchError struct {
	// Errors has an entry for each message of the batch, nil for those that were confirmed or handled.
	Errors []error
}

func (e *BatchError) Error() string {
	failed := e.Unwrap()
	if len(failed) == 0 {
		return fmt.Sprintf("0 of %d messages failed", len(e.Errors))
	}
	return fmt.Sprintf("%d of %d messages failed, first: %v", len(failed), len(e.Errors), failed[0])
}

// Unwrap returns the errors that are not nil.
func (e *BatchError) Unwrap() []error {
	return slices.DeleteFunc(slices.Clone(e.Errors), func(err error) bool { return err == nil })
}

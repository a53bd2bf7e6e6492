package consume

import (
	"context"
	"errors"
	"time"

	"github.com/rehop/rehop/internal/envelope"
)

// Verb is what a handler asks for.
type Verb int

// What a handler can ask for. Any error that says nothing asks for Retry.
const (
	Retry Verb = iota
	RetryAfter
	Fail
	Discard
	Pause
	Postpone
)

// Instruction is an error by which a handler says what is to become of a message.
type Instruction struct {
	Err  error
	Does Verb
	Wait time.Duration // RetryAfter and Postpone
}

func (i *Instruction) Error() string {
	if i.Err == nil {
		return [...]string{"retry", "retry later", "permanent failure", "discarded", "unavailable", "postponed"}[i.Does]
	}
	return i.Err.Error()
}

func (i *Instruction) Unwrap() error { return i.Err }

// Instruction tells middleware that the handler has decided.
func (i *Instruction) Instruction() {}

// DecodeError is a permanent failure with a kind of its own.
type DecodeError struct{ Err error }

func (e *DecodeError) Error() string { return e.Err.Error() }
func (e *DecodeError) Unwrap() error { return e.Err }

// PanicError is a handler's panic, or its runtime.Goexit.
type PanicError struct {
	Text  string
	Stack string
}

func (e *PanicError) Error() string { return e.Text }

// ErrTimeout is why the context of a handler was canceled whose time was up.
var ErrTimeout = errors.New("handler did not end in time")

// ErrStopping is why the context of a handler was canceled when the subscription stopped.
var ErrStopping = errors.New("subscription is stopping")

// Answer is what a handler's return means.
type Answer struct {
	OK   bool // it returned no error; the rest is zero
	Does Verb
	Wait time.Duration
	Kind string // of the failure, by its error alone
}

// AnswerOf finds out what a handler's return means.
func AnswerOf(err error) Answer {
	if err == nil {
		return Answer{OK: true}
	}
	a := Answer{Kind: kindOf(err)}
	if i, ok := errors.AsType[*Instruction](err); ok {
		a.Does, a.Wait = i.Does, i.Wait
	} else if a.Kind == envelope.KindDecode {
		a.Does = Fail
	}
	return a
}

// kindOf says of what kind a failure is.
func kindOf(err error) string {
	if _, ok := errors.AsType[*DecodeError](err); ok {
		return envelope.KindDecode
	}
	if _, ok := errors.AsType[*PanicError](err); ok {
		return envelope.KindPanic
	}
	if i, ok := errors.AsType[*Instruction](err); ok && i.Does == Fail {
		return envelope.KindPermanent
	}
	if errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return envelope.KindTimeout
	}
	return envelope.KindError
}

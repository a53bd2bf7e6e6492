package consume

import (
	"context"
	"errors"
	"time"

	"github.com/rehop/rehop/internal/envelope"
)

// Verb is what a handler asks for.
type Verb int

// What a handler can ask for. A plain error asks for Retry.
const (
	Retry Verb = iota
	RetryAfter
	Fail
	Discard
	Pause
	Postpone
)

// Instruction is an error by which a handler decides what happens to a message.
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

// Instruction marks the error for middleware: the handler has decided.
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

// Why the context of a handler was canceled.
var (
	ErrTimeout  = errors.New("handler did not end in time")
	ErrStopping = errors.New("subscription is stopping")
)

// Answer is what a handler's return value means.
type Answer struct {
	OK   bool // it returned no error; the other fields are zero
	Does Verb
	Wait time.Duration
	Kind string // of the failure, by its error alone
}

// AnswerOf reads a handler's return value.
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

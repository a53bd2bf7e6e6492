package consume

import (
	"errors"
	"fmt"
	"slices"
)

// Entries returns the errors that an error has for each message of a batch. False: it is none of that kind.
type Entries func(err error) (each []error, is bool)

// Answers is what the handler of a batch has returned, for each of n messages. Only an
// error that itself has entries has an answer for each. An error around it may concern all, such as that
// of a commit. If the handler has changed the order of the messages, it is unknown to which messages the
// entries belong.
func (e Entries) Answers(err error, n int, reordered bool) []error {
	each, is := e(err)
	switch {
	case is && reordered:
		err = &failedBatch{text: fmt.Sprintf("the handler of a batch returned a BatchError and has changed the order of the messages, so its errors cannot be attributed: %v", err)}
	case is && len(each) == n:
		return slices.Clone(each)
	case is:
		err = &failedBatch{text: fmt.Sprintf("the handler of a batch of %d messages returned a BatchError with %d errors, which cannot be attributed: %v", n, len(each), err)}
	case e.within(err):
		err = &failedBatch{text: err.Error(), besides: e.besides(err)}
	}
	return slices.Repeat([]error{err}, n)
}

// failedBatch is an error of all messages of a batch that came with errors of single ones. It does not
// unwrap to those: that one message is to be discarded does not mean that all are.
type failedBatch struct {
	text    string
	besides []error
}

func (e *failedBatch) Error() string   { return e.text }
func (e *failedBatch) Unwrap() []error { return e.besides }

// within reports whether an error has entries, or wraps one that has.
func (e Entries) within(err error) bool {
	if _, is := e(err); is {
		return true
	}
	return slices.ContainsFunc(wrapped(err), e.within)
}

// besides is what an error wraps, without the errors that have entries and those that only wrap one.
func (e Entries) besides(err error) (all []error) {
	if !e.within(err) {
		return []error{err}
	}
	if i, is := err.(*Instruction); is { // the handler wants that for all
		return []error{&Instruction{Err: errors.New(i.Error()), Does: i.Does, Wait: i.Wait}}
	}
	if _, is := e(err); is {
		return nil
	}
	for _, inner := range wrapped(err) {
		all = append(all, e.besides(inner)...)
	}
	return all
}

// wrapped are the errors that an error wraps.
func wrapped(err error) []error {
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		if inner := err.Unwrap(); inner != nil {
			return []error{inner}
		}
	case interface{ Unwrap() []error }:
		return slices.DeleteFunc(slices.Clone(err.Unwrap()), func(inner error) bool { return inner == nil })
	}
	return nil
}

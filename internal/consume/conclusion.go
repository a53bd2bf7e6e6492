package consume

import (
	"context"
	"errors"
	"time"

	"github.com/rehop/rehop/internal/delays"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
)

// conclude carries out a decision that ends the handling of a delivery.
func (s *Subscription) conclude(h *Handling, err error, d Decision) {
	result := Result{Err: err, Took: time.Since(h.began)}
	s.endOutage(h)
	switch d.Do {
	case Ack:
		s.ack(h, Done, result)
	case AckDiscard:
		s.ack(h, Discarded, result)
	case GiveBack:
		s.giveBack(h, result)
	case MoveAside:
		s.postpone(h, d.Delay, result)
	case MoveToWait:
		s.retry(h, err, d.Kind, d.Delay, result)
	case MoveToFail:
		s.fail(h, err, d.Kind, result)
	}
}

// retry moves a message to a delay queue, from which it returns as its next attempt.
func (s *Subscription) retry(h *Handling, err error, kind string, delay time.Duration, result Result) {
	result.Outcome, result.Kind, result.Delay = Retried, kind, delay
	record := s.failure(h, err, kind)
	failed := s.failed(h, record)
	failed.Delay = delay
	step := delays.StepOf(delay, s.keepsKey)
	has := s.hasStep(step)
	if has && s.returnKey == s.settings.Queue { // otherwise it passes another queue after the step
		failed.Via = step.Queue
	}
	verdict := s.settings.Layout.Retry(failed)
	switch verdict.Do {
	case layouts.Requeue:
		s.settle(h, result, (*rabbit.Delivery).Requeue)
		return
	case layouts.Reject:
		s.settle(h, result, (*rabbit.Delivery).Reject)
		return
	case layouts.Move:
		// The layout decides how long it waits, so it has no due time: it must not be delayed again.
		s.move(h, record, result, directly(s.toAddress(verdict, delays.Reserve(1, s.returnKey))))
		return
	}
	record.Due = time.Now().Add(delay)
	if has {
		s.move(h, record, result, directly(s.toStep(h, step).with(verdict)))
		return
	}
	s.move(h, record, result, s.toCascade(h, delay, verdict))
}

// fail moves a message to the failed queue.
func (s *Subscription) fail(h *Handling, err error, kind string, result Result) {
	result.Outcome, result.Kind = Failed, kind
	record := s.failure(h, err, kind)
	record.InFailedQueue = true
	s.move(h, record, result, directly(s.toFailed(h, record)))
}

// postpone moves a message to a delay queue, from which it returns as the same attempt.
func (s *Subscription) postpone(h *Handling, delay time.Duration, result Result) {
	result.Outcome, result.Delay = Postponed, delay
	past := h.history()
	past.Queue = s.settings.Queue
	past.Due = time.Now().Add(delay)
	s.moveAside(h, past, delay, time.Time{}, result)
}

// waitOn delays a message that came back early until it is due. If a part of the cascade was deleted,
// it is declared again; but if clocks disagree, every message comes early. The message is not delayed
// a second time, so that clocks which disagree cost it no more than the difference.
func (s *Subscription) waitOn(h *Handling, rest time.Duration) {
	past := h.history()
	past.Due = time.Time{}
	s.moveAside(h, past, rest, s.shared.Delays.Declarer.Doubt(), Result{Outcome: Retried, Kind: past.Kind, Delay: rest})
}

// moveAside delays a message with its counters unchanged, in a cascade that was declared since a time.
func (s *Subscription) moveAside(h *Handling, past envelope.Failure, delay time.Duration, declared time.Time, result Result) {
	cascade := s.toCascade(h, delay, layouts.Verdict{Headers: s.settings.Layout.Record(s.message(h), past.Attempt)})
	s.move(h, past, result, func(ctx context.Context, since time.Time) (destination, error) {
		if since.Before(declared) {
			since = declared
		}
		return cascade(ctx, since)
	})
}

// republish publishes a message to the end of its own queue, with its counters unchanged.
func (s *Subscription) republish(h *Handling) {
	past := h.history()
	past.Queue = s.settings.Queue
	s.move(h, past, Result{Outcome: Returned}, directly(s.toEnd(h, past)))
}

// failure is the record of a message that has failed once more.
func (s *Subscription) failure(h *Handling, err error, kind string) envelope.Failure {
	f := h.history()
	f.Attempt++
	f.Queue = s.settings.Queue
	f.Error = envelope.Bounded(err.Error(), envelope.MaxErrorText)
	f.Kind = kind
	f.Stack = ""
	if p, ok := errors.AsType[*PanicError](err); ok {
		f.Stack = envelope.Bounded(p.Stack, envelope.MaxErrorText)
	}
	f.FailedAt = time.Now()
	if f.FirstFailed.IsZero() {
		f.FirstFailed = f.FailedAt
	}
	f.Due = time.Time{}
	f.Returns = 0
	f.Host, f.Version = s.shared.Host, s.shared.Version
	return f
}

// failed is a failure as the layout sees it.
func (s *Subscription) failed(h *Handling, record envelope.Failure) layouts.Failure {
	return layouts.Failure{Message: s.message(h), Attempt: record.Attempt, Kind: record.Kind, Error: record.Error,
		Stack: record.Stack, At: record.FailedAt}
}

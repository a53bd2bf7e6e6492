package consume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// moveBackoff is the pause between attempts to move a message that the broker does not accept.
var moveBackoff = rabbit.Backoff{Min: 20 * time.Millisecond, Max: time.Second}

// move publishes a message to its next queue, and acks the original only when the broker has
// confirmed that. It does not give up while the original is unacked: it waits for a broker that is
// blocked, full or cannot be reached. When the session ends first, the broker delivers the original
// again. When the subscription stops, the broker has a limited time (see untilGivenUp); then the
// original goes back to its queue.
func (s *Subscription) move(h *Handling, failure envelope.Failure, result Result, where route) {
	s.reportMove(h, result)
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.hookCtx))
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		s.untilGivenUp(ctx, h.raw.Session)
		cancel()
	}()
	defer func() {
		cancel()
		<-watching
	}()
	moved, err := s.moveUntil(ctx, h, failure, where)
	if impossible(err) && (result.Outcome == Retried || result.Outcome == Postponed) {
		// With its history it is too large to wait: the way to the failed queue adds less.
		if failure.Kind == "" || result.Outcome == Postponed { // it has not failed this time
			result.Err, result.Kind = fmt.Errorf("it cannot wait for %v: %w", result.Delay, err), envelope.KindPermanent
			failure = s.failure(h, result.Err, result.Kind)
		}
		result.Outcome, result.Delay = Failed, 0
		failure.Due, failure.InFailedQueue = time.Time{}, true
		moved, err = s.moveUntil(ctx, h, failure, directly(s.toFailed(h, failure)))
	}
	switch {
	case err == nil:
		if result.Outcome == Failed {
			s.shared.Reports.failed(moved)
			s.shared.Reports.outcome(h, s.settings.Queue, Failed)
		}
		s.settle(h, result, (*rabbit.Delivery).Ack) // if that fails, the message is duplicated
		return
	case impossible(err) && result.Outcome == Failed && s.settings.DeadLetters:
		// The broker can still dead-letter it unchanged.
		s.shared.Logger.Warn("rehop: message is too large for its history and is dead-lettered without it", "queue", s.settings.Queue, "message", h.raw.MessageId, "err", err)
		s.settle(h, result, (*rabbit.Delivery).Reject)
		return
	case impossible(err):
		s.shared.Logger.Error("rehop: message cannot be moved to its delay or failed queue, and goes back to its queue", "queue", s.settings.Queue, "message", h.raw.MessageId, "err", err)
		_ = rabbit.Pause(ctx, moveBackoff.Max) // otherwise it would be redelivered in a tight loop
		s.requeue(h, false)
		result.Outcome = Returned
	default:
		failed := result.Outcome != Returned
		if s.requeue(h, failed) && s.stopping() {
			s.noteUnmoved(failed)
		}
		result.Outcome = Lost
		if s.stopping() {
			result.Outcome = Returned
		}
	}
	s.report(h, result)
}

// untilGivenUp returns when a message need not be moved any more: it has been, its session has ended,
// or the subscription stops and the broker has not confirmed it in time.
func (s *Subscription) untilGivenUp(ctx context.Context, session *rabbit.Session) {
	stop := s.stop
	var limit <-chan time.Time
	for {
		select {
		case <-stop:
			timer := time.NewTimer(s.moveGrace())
			defer timer.Stop()
			stop, limit = nil, timer.C
			continue
		case <-limit:
		case <-session.Ended():
		case <-s.kill:
		case <-ctx.Done():
		}
		return
	}
}

// moveGrace is how long the broker has to confirm a message that is moved at a stop. It halves with
// each message that was not confirmed: all prefetched messages may fail, one after the other, and
// together they must not delay the stop for more than twice the time of one.
func (s *Subscription) moveGrace() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ConfirmGrace >> s.givenUp
}

// noteUnmoved notes that a message went back to its queue at a stop because it could not be moved,
// and why if it had failed. Others were to go back anyway, to the end of the queue.
func (s *Subscription) noteUnmoved(failed bool) {
	state, why := s.shared.Publish.State()
	if state == rabbit.Open {
		why = errors.New("the broker has not confirmed them in time")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.givenUp++
	if failed {
		s.unmoved++
		s.whyUnmoved = why
	}
}

// unmovedError reports failed messages that went back to the queue because the broker did not accept
// them elsewhere.
func (s *Subscription) unmovedError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unmoved == 0 {
		return nil
	}
	fate := "they went back to the queue, and this attempt does not count"
	if s.settings.temporary() {
		fate = "they are lost, because " + s.settings.ends()
	}
	return fmt.Errorf("rehop: drain subscription %q: failed messages that could not be moved to a delay queue or the failed queue: %d; %s: %w",
		s.settings.Queue, s.unmoved, fate, s.whyUnmoved)
}

// impossible reports whether a message can never be published in this form.
func impossible(err error) bool {
	return errors.Is(err, rabbit.ErrTooLarge) || errors.Is(err, rabbit.ErrInvalid)
}

// moveUntil publishes a message to its next queue until that is confirmed or ctx ends, and returns what it has published.
func (s *Subscription) moveUntil(ctx context.Context, h *Handling, failure envelope.Failure, where route) (*rabbit.Publishing, error) {
	var missed time.Time                     // when a queue or an exchange was missing
	id := cmp.Or(h.raw.MessageId, h.givenID) // from now on its copies have an id
	ownBody := false                         // the layout's body is too large for the broker
	for tries := 1; ; tries++ {
		began := time.Now()
		to, err := where(ctx, missed)
		var p *rabbit.Publishing
		if err == nil {
			if ownBody {
				to.body, to.contentType = nil, ""
			}
			if p, err = sealed(h, id, failure, to); err == nil {
				err = s.shared.Mover.Publish(ctx, to.Exchange, to.key, p, true)
			}
		}
		switch {
		case err == nil:
			return p, nil
		case errors.Is(err, rabbit.ErrTooLarge) && to.body != nil && !ownBody:
			ownBody = true
			continue
		case ctx.Err() != nil, errors.Is(err, rabbit.ErrClosed), impossible(err):
			return nil, err
		case errors.Is(err, rabbit.ErrUnroutable):
			// A queue or an exchange of rehop was deleted. It is declared again, unless that was
			// done since.
			missed = began
			if err := s.shared.Delays.Declarer.Ensure(ctx, "retries of "+s.settings.Queue, missed, func() topology.Plan { return s.form.Load().RetryPlan }); err != nil {
				s.shared.Logger.Error("rehop: cannot declare a deleted queue or exchange again, which retries need", "queue", s.settings.Queue, "err", err)
			}
		}
		if tries%10 == 0 {
			s.shared.Logger.Warn("rehop: cannot move a failed message yet, still trying", "queue", s.settings.Queue, "message", id, "err", err)
		}
		if rabbit.Pause(ctx, moveBackoff.Delay(tries)) != nil {
			return nil, ctx.Err()
		}
	}
}

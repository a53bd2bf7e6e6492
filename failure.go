package rehop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// atOnce reports whether the handler is to run again without a wait.
func (s *Subscription) atOnce(h *handling, err error, rerun int) bool {
	if err == nil || h.past.Attempt > 0 || rerun >= s.config.Retry.immediate || h.why() != nil {
		return false
	}
	does, _ := instructionOf(err)
	return does == doRetry
}

// instructionOf finds what an error says is to be done.
func instructionOf(err error) (verb, time.Duration) {
	if i, ok := errors.AsType[*instruction](err); ok {
		return i.does, i.wait
	}
	if _, ok := errors.AsType[*decodeError](err); ok {
		return doFail, 0
	}
	return doRetry, 0
}

// kindOf says of what kind a failure is.
func kindOf(h *handling, err error) string {
	if _, ok := errors.AsType[*decodeError](err); ok {
		return envelope.KindDecode
	}
	if _, ok := errors.AsType[*panicError](err); ok {
		return envelope.KindPanic
	}
	if i, ok := errors.AsType[*instruction](err); ok && i.does == doFail {
		return envelope.KindPermanent
	}
	if h.why() == errTimeout || errors.Is(err, errTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return envelope.KindTimeout
	}
	return envelope.KindError
}

// conclude does with a delivery what its handler's answer says.
func (s *Subscription) conclude(h *handling, err error) {
	result := Result{Err: err, Took: time.Since(h.began)}
	s.endOutage(h)
	if err == nil {
		s.ack(h, OutcomeDone, result)
		return
	}
	if h.why() == errStopping {
		s.giveBack(h, result)
		return
	}
	does, wait := instructionOf(err)
	kind := kindOf(h, err)
	switch does {
	case doDiscard:
		s.ack(h, OutcomeDiscarded, result)
	case doFail:
		s.park(h, err, kind, result)
	case doPostpone:
		s.postpone(h, min(max(wait, 0), layouts.MaxDelay), result)
	default:
		delay, again := s.config.Retry.after(h.past.Attempt + 1)
		if does == doRetryAfter {
			delay = min(max(wait, 0), layouts.MaxDelay)
		}
		if !again {
			s.park(h, err, kind, result)
			return
		}
		s.wait(h, err, kind, delay, result)
	}
}

func (s *Subscription) ack(h *handling, outcome Outcome, result Result) {
	result.Outcome = outcome
	s.settle(h, result, (*rabbit.Delivery).Ack)
}

// settle has the broker do what is to be done with a message. Hooks are told when the broker has been sent that.
func (s *Subscription) settle(h *handling, result Result, by func(*rabbit.Delivery) bool) {
	if len(s.client.hooks.handle) > 0 {
		h.raw.Note = &settled{h, result}
	}
	if !by(&h.raw) {
		result.Outcome = OutcomeLost
		s.tellHandled(h, result)
	}
}

// settled is a delivery of which hooks are told as soon as the broker has been sent what is to become of it.
type settled struct {
	handling *handling
	result   Result
}

// told is called when the broker has been sent what is to become of deliveries, or cannot be any more.
func (s *Subscription) told(notes []any, sent bool) {
	for _, note := range notes {
		of := note.(*settled)
		if !sent {
			of.result.Outcome = OutcomeLost
		}
		s.tellHandled(of.handling, of.result)
	}
}

// giveBack returns a message to its queue because the subscription stops. The broker counts that as
// it counts a crash. So a message that has come back before goes to the end of the queue instead,
// with its count as it is: no number of clean stops makes it suspect. So does, where to be delivered again counts as a failure, every
// message that has not failed, and one that has brought along a count which may be above the limit of the queue.
func (s *Subscription) giveBack(h *handling, result Result) {
	if n := s.returns(h); n > 0 || s.layout.RedeliveryFails() && h.mark != again || s.uncarried(h) {
		h.raw.Session.Cancel() // or it would come back to us
		h.setReturns(n)
		s.requeueAtEnd(h)
		return
	}
	h.raw.Requeue()
	result.Outcome = OutcomeReturned
	s.tellHandled(h, result)
}

func (s *Subscription) tellHandled(h *handling, result Result) {
	tell(s.client.hooks.handle, func(hook HandleHook) { hook.OnHandled(h.told, &h.Delivery, result) })
}

// tellMove asks hooks for what is to go with a message.
func (s *Subscription) tellMove(h *handling, result Result) {
	if len(s.client.hooks.move) == 0 {
		return
	}
	h.added = make(map[string]any)
	tell(s.client.hooks.move, func(hook MoveHook) { hook.OnMove(h.told, &h.Delivery, result, h.added) })
	maps.DeleteFunc(h.added, func(name string, _ any) bool { return envelope.Owned(name) && !strings.HasPrefix(name, HookPrefix) })
}

// way finds where a message is moved to, and declares what it needs unless that was done since a time.
type way func(ctx context.Context, since time.Time) (destination, error)

// destination is where a message is moved to.
type destination struct {
	layouts.Address
	key string
	// reserve is room that must be left in the header frame for what the broker adds on the way; a
	// message that has grown too large to be delivered would end every connection that it meets.
	reserve int
	// trim: user headers may be dropped if it does not fit otherwise.
	trim bool
	// body and contentType take the place of the message's own, if they are set.
	body        []byte
	contentType string
}

// deathSize is how much a dead-lettering adds to the headers at the most, names aside.
const deathSize = 200

// reserveFor is the room for so many dead-letterings of a message, with some to spare for the queue
// that it returns to.
func reserveFor(deaths int, key string) int { return 1024 + (deaths+2)*(deathSize+len(key)) }

// wait has a message come back after delay.
func (s *Subscription) wait(h *handling, err error, kind string, delay time.Duration, result Result) {
	result.Outcome, result.Kind, result.Delay = OutcomeRetry, kind, delay
	record := s.failure(h, err, kind)
	failed := s.failed(h, record)
	failed.Delay = delay
	step := s.hasStep(delay)
	if step && s.returnKey == s.config.Queue { // else it passes another queue after the step
		failed.Via = layouts.StepQueue(delay)
		if s.keepsKey {
			failed.Via = layouts.HomeStepQueue(delay)
		}
	}
	verdict := s.layout.Retry(failed)
	switch verdict.Do {
	case layouts.Requeue:
		s.settle(h, result, (*rabbit.Delivery).Requeue)
		return
	case layouts.Reject:
		s.settle(h, result, (*rabbit.Delivery).Reject)
		return
	case layouts.Move:
		// How long it waits is the layout's affair; it must not be held back again for less.
		s.move(h, record, result, func(context.Context, time.Time) (destination, error) {
			return s.toAddress(verdict, reserveFor(1, s.returnKey)), nil
		})
		return
	}
	record.Due = time.Now().Add(delay)
	where := s.toCascade(h, delay)
	if step {
		to := destination{Address: layouts.StepAddress(delay), key: s.keyOf(h)}
		if s.keepsKey {
			to.Address = layouts.HomeStepAddress(delay)
		}
		to.reserve = reserveFor(1, to.key)
		where = func(context.Context, time.Time) (destination, error) { return to, nil }
	}
	s.move(h, record, result, func(ctx context.Context, since time.Time) (destination, error) {
		to, err := where(ctx, since)
		return to.with(verdict), err
	})
}

// failed is a failure as the layout sees it.
func (s *Subscription) failed(h *handling, record envelope.Failure) layouts.Failure {
	return layouts.Failure{Letter: s.letter(h), Attempt: record.Attempt, Kind: record.Kind, Error: record.Error, Stack: record.Stack, At: record.FailedAt}
}

// with is the destination with what a layout wants to be written.
func (d destination) with(v layouts.Verdict) destination {
	headers := make(map[string]any, len(d.Headers)+len(v.Headers))
	maps.Copy(headers, d.Headers)
	maps.Copy(headers, v.Headers)
	d.Headers, d.body, d.contentType = headers, v.Body, v.ContentType
	return d
}

// toAddress is where a layout wants a message to be moved.
func (s *Subscription) toAddress(v layouts.Verdict, reserve int) destination {
	to := destination{Address: v.Address, key: v.Key, reserve: reserve}
	if v.ToQueue {
		to.key = s.returnKey
	}
	return to.with(v)
}

// keyOf is the routing key of a message while it waits.
func (s *Subscription) keyOf(h *handling) string {
	if s.keepsKey {
		return h.history().Key
	}
	return s.returnKey
}

func (s *Subscription) toCascade(h *handling, delay time.Duration) way {
	key, to := s.keyOf(h), layouts.ToQueue
	if s.keepsKey {
		to = layouts.ToHome
	}
	return func(ctx context.Context, since time.Time) (destination, error) {
		address, err := s.client.cascade(ctx, delay, to, since)
		return destination{Address: address, key: key, reserve: reserveFor(len(address.Headers), key)}, err
	}
}

// waitOn has a message that came back early wait for the rest of its time. If a part of the cascade was
// deleted, it is declared again; but it may also be that clocks disagree, and then every message comes early.
// The message is not held back a second time, so that clocks which disagree cost it no more than the
// difference.
func (s *Subscription) waitOn(h *handling, rest time.Duration) {
	past := h.history()
	past.Due = time.Time{}
	s.moveAside(h, past, rest, s.client.fabric.doubt(), Result{Outcome: OutcomeRetry, Kind: past.Kind, Delay: rest})
}

// postpone has a message come back after delay as if it had not been delivered.
func (s *Subscription) postpone(h *handling, delay time.Duration, result Result) {
	result.Outcome, result.Delay = OutcomePostponed, delay
	past := h.history()
	past.Queue = s.config.Queue
	past.Due = time.Now().Add(delay)
	s.moveAside(h, past, delay, time.Time{}, result)
}

// moveAside has a message wait with its counters unchanged, in a cascade that was declared since a time.
func (s *Subscription) moveAside(h *handling, past envelope.Failure, delay time.Duration, declared time.Time, result Result) {
	record := s.layout.Record(s.letter(h), past.Attempt)
	s.move(h, past, result, func(ctx context.Context, since time.Time) (destination, error) {
		if since.Before(declared) {
			since = declared
		}
		to, err := s.toCascade(h, delay)(ctx, since)
		return to.with(layouts.Verdict{Headers: record}), err
	})
}

// hasStep reports whether there is a queue in which messages of this subscription wait for exactly delay.
func (s *Subscription) hasStep(delay time.Duration) bool {
	name := layouts.StepQueue(delay)
	if s.keepsKey {
		name = layouts.HomeStepQueue(delay)
	}
	return slices.ContainsFunc(s.form.Load().ways.Queues, func(q topology.Queue) bool { return q.Name == name })
}

// park puts a message where failed ones rest.
func (s *Subscription) park(h *handling, err error, kind string, result Result) {
	result.Outcome, result.Kind = OutcomeFailed, kind
	record := s.failure(h, err, kind)
	record.Rests = true
	s.move(h, record, result, s.toRest(h, record))
}

// countSize is how much the broker adds when it delivers a message again.
const countSize = 256

func (s *Subscription) toRest(h *handling, record envelope.Failure) way {
	to := s.toAddress(s.layout.Fail(s.failed(h, record)), countSize)
	to.trim = true
	return func(context.Context, time.Time) (destination, error) { return to, nil }
}

// requeueAtEnd sends a message to the end of its own queue, with its counters as they are.
func (s *Subscription) requeueAtEnd(h *handling) {
	past := h.history()
	past.Queue = s.config.Queue
	s.move(h, past, Result{Outcome: OutcomeReturned}, s.toEnd(h, past))
}

func (s *Subscription) toEnd(h *handling, record envelope.Failure) way {
	verdict := layouts.Verdict{Key: s.config.Queue, Headers: s.layout.Record(s.letter(h), record.Attempt)}
	if s.keepsKey {
		verdict.Address.Exchange, verdict.Key = layouts.LandedExchange, record.Key
	}
	to := s.toAddress(verdict, countSize)
	return func(context.Context, time.Time) (destination, error) { return to, nil }
}

// failure is the record of a message that has failed once more.
func (s *Subscription) failure(h *handling, err error, kind string) envelope.Failure {
	f := h.history()
	f.Attempt++
	f.Queue = s.config.Queue
	f.Error = envelope.Bounded(err.Error(), envelope.MaxErrorText)
	f.Kind = kind
	f.Stack = ""
	if p, ok := errors.AsType[*panicError](err); ok {
		f.Stack = envelope.Bounded(p.stack, envelope.MaxErrorText)
	}
	f.FailedAt = time.Now()
	if f.FirstFailed.IsZero() {
		f.FirstFailed = f.FailedAt
	}
	f.Due = time.Time{}
	f.Returns = 0
	f.Host = s.client.host
	return f
}

// move publishes a message to where it belongs next, and only when the broker has confirmed that,
// acks the original. It does not give up while the original is ours: a broker that is blocked, full
// or away is waited for. When the session ends first, the broker delivers the original again. When the
// subscription stops, the broker has a limited time (see untilGivenUp); then the original goes back to its queue.
func (s *Subscription) move(h *handling, failure envelope.Failure, result Result, where way) {
	s.tellMove(h, result)
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.told))
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
	err := s.moveUntil(ctx, h, failure, where)
	if impossible(err) && result.Outcome == OutcomeRetry {
		// With its history it is too large to wait: the way to the failed queue adds less.
		result.Outcome, result.Delay = OutcomeFailed, 0
		failure.Due, failure.Rests = time.Time{}, true
		err = s.moveUntil(ctx, h, failure, s.toRest(h, failure))
	}
	switch {
	case err == nil:
		s.settle(h, result, (*rabbit.Delivery).Ack) // if that fails, there are two of it now
		return
	case impossible(err) && result.Outcome == OutcomeFailed && s.config.rests():
		// The broker can still move it as it is.
		s.client.config.Logger.Warn("rehop: message is dead-lettered without its history", "queue", s.config.Queue, "message", h.Delivery.ID, "err", err)
		s.settle(h, result, (*rabbit.Delivery).Reject)
		return
	case impossible(err):
		s.client.config.Logger.Error("rehop: message cannot be moved, and goes back to its queue", "queue", s.config.Queue, "message", h.Delivery.ID, "err", err)
		_ = rabbit.Pause(ctx, settleBackoff.Max) // or it would go round at full speed
		h.raw.Requeue()
		result.Outcome = OutcomeReturned
	default:
		ours := h.raw.Requeue() // does nothing if the session has ended
		if ours && s.stopping() {
			s.noteUnmoved(result.Outcome != OutcomeReturned)
		}
		result.Outcome = OutcomeLost
		if s.stopping() {
			result.Outcome = OutcomeReturned
		}
	}
	s.tellHandled(h, result)
}

// untilGivenUp returns when a message need not be moved any more: it has been, or its session has ended, or the subscription stops and the
// broker has not taken it in time.
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

// moveGrace is how long the broker has to take a message that is moved at a stop. Where it has not taken others, it has ever less: all that is
// prefetched may fail, one after the other, and together they must not hold up the stop for more than twice the time of one.
func (s *Subscription) moveGrace() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return confirmGrace >> s.givenUp
}

// noteUnmoved notes that a message went back to its queue at a stop because it could not be moved, and why if it had failed. Others were to go
// back anyway, to the end of the queue.
func (s *Subscription) noteUnmoved(failed bool) {
	state, why := s.client.publish.State()
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

// unmovedError says how many failed messages went back to the queue because the broker did not take them.
func (s *Subscription) unmovedError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unmoved == 0 {
		return nil
	}
	return fmt.Errorf("rehop: drain subscription %q: failed messages that could not be moved to where they wait for a retry or to the failed queue: %d; they went back to the queue, and this attempt does not count: %w",
		s.config.Queue, s.unmoved, publicError(s.whyUnmoved))
}

// impossible reports whether a message can never be published as it is.
func impossible(err error) bool { return errors.Is(err, ErrTooLarge) || errors.Is(err, ErrInvalid) }

func (s *Subscription) moveUntil(ctx context.Context, h *handling, failure envelope.Failure, where way) error {
	var missed time.Time                     // when something was missing on the way
	id := cmp.Or(h.raw.MessageId, h.givenID) // from now on it can be told from its copies
	asItIs := false                          // the broker takes the message only with its own body
	for tries := 1; ; tries++ {
		began := time.Now()
		to, err := where(ctx, missed)
		if err == nil {
			if asItIs {
				to.body, to.contentType = nil, ""
			}
			var p *rabbit.Publishing
			if p, err = sealed(h, id, failure, to); err == nil {
				err = s.client.mover.Publish(ctx, to.Exchange, to.key, p, true)
			}
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrTooLarge) && to.body != nil && !asItIs:
			asItIs = true
			continue
		case ctx.Err() != nil, errors.Is(err, ErrClosed), impossible(err):
			return err
		case errors.Is(err, ErrUnroutable):
			// Somebody deleted a queue or an exchange of ours. It is declared again, unless that was done since.
			missed = began
			if err := s.client.fabric.ensure(ctx, "ways of "+s.config.Queue, missed, func() topology.Plan { return s.form.Load().ways }); err != nil {
				s.client.config.Logger.Error("rehop: declare again what a retry needs", "queue", s.config.Queue, "err", err)
			}
		}
		if tries%10 == 0 {
			s.client.config.Logger.Warn("rehop: cannot move a failed message yet", "queue", s.config.Queue, "message", id, "err", err)
		}
		if rabbit.Pause(ctx, settleBackoff.Delay(tries)) != nil {
			return ctx.Err()
		}
	}
}

// sealed is the message with its history in its headers. If both together are too large for a frame,
// what hooks have added, the stack and the error's text give way, and then, where that is allowed, the largest headers.
func sealed(h *handling, id string, failure envelope.Failure, to destination) (*rabbit.Publishing, error) {
	d := h.raw
	p := &rabbit.Publishing{
		MessageId: id, Body: d.Body, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		DeliveryMode: rabbit.Persistent, Priority: d.Priority, Timestamp: d.Timestamp,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Type: d.Type, AppId: d.AppId,
	}
	if to.body != nil {
		p.Body = to.body
	}
	if to.contentType != "" {
		p.ContentType = to.contentType
	}
	if failure.Expiration == "" {
		failure.Expiration = d.Expiration
	}
	failure.Transient = failure.Transient || d.DeliveryMode == rabbit.Transient
	headers := envelope.Clean(d.Headers)
	failure.CC = headers["CC"]
	delete(headers, "CC")
	maps.Copy(headers, h.added)
	for name, value := range to.Headers {
		headers[name] = value
	}
	for {
		failure.Write(headers)
		p.Headers = rabbit.ToTable(headers)
		size, err := rabbit.HeaderSize(p.Headers)
		if err != nil && len(h.added)+len(failure.Hooks) == 0 {
			return nil, err
		}
		over := size + to.reserve - rabbit.HeaderRoom(p)
		switch {
		case over <= 0 && err == nil:
			return p, nil
		case len(h.added)+len(failure.Hooks) > 0: // no hook's wish is worth a message
			h.added, failure.Hooks = nil, nil
			return sealed(h, id, failure, to)
		case failure.Stack != "":
			failure.Stack = ""
			delete(headers, envelope.Stack)
		case failure.Error != "":
			failure.Error = envelope.Bounded(failure.Error, len(failure.Error)-over)
			delete(headers, envelope.Error)
		default:
			name, ok := largest(headers)
			if !to.trim || !ok {
				return nil, fmt.Errorf("%w: its headers leave no room for its history", ErrTooLarge)
			}
			failure.Dropped = envelope.Bounded(failure.Dropped+" "+name, countSize)
			delete(headers, name)
		}
	}
}

// largest is the name of the largest header that is not rehop's.
func largest(headers map[string]any) (string, bool) {
	name, size := "", -1
	for n, v := range headers {
		if envelope.Owned(n) {
			continue
		}
		if s, err := rabbit.HeaderSize(rabbit.ToTable(map[string]any{n: v})); err == nil && s > size {
			name, size = n, s
		}
	}
	return name, size >= 0
}

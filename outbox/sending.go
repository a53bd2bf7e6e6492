package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/internal/sqltext"
)

// sending is a set of rows that were passed to the client together.
type sending struct {
	batch    *batch
	rows     []int           // of the batch
	messages []rehop.Message // of the rows
	outcomes chan outcome    // has room for all, and is closed when PublishEach has returned
	cancel   func()
	pending  map[int]bool // places in rows without an outcome
	limit    *time.Timer  // for how long they may use memory that others need, after leave
}

// outcome is the result for the message in a place.
type outcome struct {
	place int
	err   error
}

// maxConfirmWait is how long a batch waits for a message that is not confirmed.
const maxConfirmWait = time.Second

// confirmWait is maxConfirmWait, or less if Timeout is short.
func (r *run) confirmWait() time.Duration { return min(maxConfirmWait, r.Timeout/4) }

var (
	errNoConfirm = fmt.Errorf("%w: no confirm yet", rehop.ErrUnknown)
	errNoOutcome = fmt.Errorf("%w: the client returned no result for this message", rehop.ErrUnknown)
)

// send publishes some rows and decides about them. Messages that are not confirmed for long are retried later, so that the batch can end;
// finish processes their outcomes.
func (b *batch) send(ctx context.Context, some []int) {
	s := &sending{batch: b, rows: some, messages: make([]rehop.Message, len(some)), outcomes: make(chan outcome, len(some)), pending: make(map[int]bool, len(some))}
	sent := make([]sqltext.Row, len(some))
	for j, i := range some {
		s.messages[j], s.pending[j], sent[j] = b.messages[i], true, b.rows[i].identity()
		b.messages[i] = rehop.Message{}
	}
	within, done := b.term.within(ctx, b.relay.Timeout)
	s.cancel = done
	go func() { // send or finish waits for it
		defer close(s.outcomes)
		defer done()
		b.relay.Client.PublishEach(within, s.messages, func(j int, err error) {
			s.messages[j] = rehop.Message{} // it may be large, and others may take long
			if err == nil {                 // now: the batch may be waiting for the database, and process the outcome much later
				b.relay.owed.begin(sent[j])
			}
			s.outcomes <- outcome{j, err}
		})
	}()
	waited := time.NewTicker(b.relay.confirmWait())
	defer waited.Stop()
	for {
		select {
		case o, more := <-s.outcomes:
			if !more {
				s.missing(ctx)
				return
			}
			s.take(ctx, o)
		case <-waited.C:
			// While the broker is unreachable all messages wait, and their rows need no change.
			if b.relay.Client.State() == rehop.StateOpen && !s.cutShort(ctx) {
				s.leave()
				return
			}
		}
	}
}

// cutShort reports whether this relay may not decide about outcomes any more.
func (s *sending) cutShort(ctx context.Context) bool { return s.batch.term.over() || ctx.Err() != nil }

func (s *sending) take(ctx context.Context, o outcome) {
	delete(s.pending, o.place)
	i, b := s.rows[o.place], s.batch
	switch {
	case o.err == nil:
		b.fates[i] = fate{verdict: published}
	case !s.cutShort(ctx):
		b.fates[i] = b.judge(&b.rows[i], o.err, b.relay.Client.State() == rehop.StateOpen)
		b.trouble = b.trouble || b.fates[i].verdict == left
	}
	if o.err == nil || errors.Is(o.err, rehop.ErrRefused) || errors.Is(o.err, rehop.ErrUnroutable) {
		b.relay.suspects.remove(destinationOf(&b.rows[i]))
	}
}

// missing decides about messages for which the client returned no result.
func (s *sending) missing(ctx context.Context) {
	for j := range s.rows {
		if s.pending[j] {
			s.take(ctx, outcome{j, errNoOutcome})
		}
	}
}

// leave lets messages without an outcome wait until it makes sense to send them again. It keeps only what is needed to process their
// outcomes.
func (s *sending) leave() {
	b := s.batch
	rest := &batch{relay: b.relay, term: b.term}
	places := make(map[int]int, len(s.pending))
	for j, i := range s.rows {
		if !s.pending[j] {
			continue
		}
		again := b.judge(&b.rows[i], errNoConfirm, true)
		again.wait += b.relay.Timeout
		b.fates[i] = again
		b.relay.suspects.addUnconfirmed(destinationOf(&b.rows[i]))
		places[j] = len(rest.rows)
		kept := b.rows[i]
		kept.body, kept.headers, kept.properties = nil, "", ""
		rest.rows, rest.bytes = append(rest.rows, kept), rest.bytes+kept.size
	}
	rest.fates = make([]fate, len(rest.rows))
	late := &sending{batch: rest, rows: make([]int, len(s.rows)), outcomes: s.outcomes, cancel: s.cancel, pending: s.pending}
	for j, i := range places {
		late.rows[j] = i
	}
	b.late = append(b.late, late)
	b.relay.lateBytes.Add(int64(rest.bytes))
	late.limit = time.AfterFunc(b.relay.lateWait(), func() {
		if b.relay.crowded() {
			s.cancel()
		}
	})
}

// lateShare: messages that are not confirmed for long may use this part of MaxBytes.
const lateShare = 4

// crowded reports whether they use more, which others need.
func (r *run) crowded() bool { return int(r.lateBytes.Load()) > r.MaxBytes/lateShare }

// maxCrowded is how long they may do so. A message that is given up is published again, and a busy broker takes a few seconds to confirm.
const maxCrowded = 5 * time.Second

// lateWait is what is left of maxCrowded when a batch has stopped waiting.
func (r *run) lateWait() time.Duration { return max(0, min(maxCrowded, r.Timeout/6)-r.confirmWait()) }

// finish processes the outcomes that were not known in time.
func (s *sending) finish(ctx context.Context) {
	b := s.batch
	for more := true; more; {
		var some []int
		take := func(o outcome) {
			s.take(ctx, o)
			some = append(some, s.rows[o.place])
		}
		o, open := <-s.outcomes
		if !open {
			more = false
			for j := range s.pending {
				take(outcome{j, errNoOutcome})
			}
		} else {
			take(o)
			for range len(s.outcomes) {
				if o, open := <-s.outcomes; open {
					take(o)
				}
			}
		}
		s.settle(ctx, some)
	}
	s.limit.Stop()
	b.relay.lateBytes.Add(-int64(b.bytes))
}

func (s *sending) settle(ctx context.Context, some []int) {
	b := s.batch
	b.report = Batch{}
	for _, i := range some {
		b.relay.suspects.doneWaiting(destinationOf(&b.rows[i]))
		if b.fates[i].verdict == left && !b.term.over() {
			// It waits for long, and the broker was unreachable: send it as soon as the broker is there again.
			b.fates[i] = fate{verdict: retry, err: errNoConfirm}
		}
		b.account(&b.rows[i], b.fates[i])
	}
	b.record(ctx, some)
	for len(b.undone) > 0 && !b.term.over() && rabbit.Pause(ctx, tidyEvery) == nil {
		b.undone = b.relay.finishOff(ctx, b.undone)
	}
	b.relay.owed.keep(b.undone)
	b.undone = nil
	b.report.Retry = 0 // that was reported before
	if b.report != (Batch{}) {
		emit(b.relay.hooks.batch, b.report)
	}
}

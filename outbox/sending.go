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

// sending is rows that were handed to the client together.
type sending struct {
	batch    *batch
	rows     []int           // of the batch
	messages []rehop.Message // of the rows
	outcomes chan outcome    // has room for all, and is closed when the client has done its work
	cancel   func()
	pending  map[int]bool // places in rows without an outcome
}

// outcome is what the client says of the message in a place.
type outcome struct {
	place int
	err   error
}

// maxPatience is how long the messages of some lanes wait for one that is not confirmed.
const maxPatience = time.Second

// confirmPatience is that, or less where not much time is given for confirms anyway.
func (r *run) confirmPatience() time.Duration { return min(maxPatience, r.Timeout/4) }

var (
	errNoConfirm = fmt.Errorf("%w: no confirm yet", rehop.ErrUnknown)
	errNoOutcome = fmt.Errorf("%w: the client returned no result for this message", rehop.ErrUnknown)
)

// send publishes some rows and judges the outcomes. Messages that are not confirmed for long are postponed, so that nobody waits for
// them, and their outcomes are taken in by finish.
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
			if err == nil {                 // now: the batch may be waiting for the database, and take in the outcome much later
				b.relay.owed.begin(sent[j])
			}
			s.outcomes <- outcome{j, err}
		})
	}()
	patience := time.NewTicker(b.relay.confirmPatience())
	defer patience.Stop()
	for {
		select {
		case o, more := <-s.outcomes:
			if !more {
				s.missing(ctx)
				return
			}
			s.take(ctx, o)
		case <-patience.C:
			// While the broker is away all wait, and need not be written to.
			if b.relay.Client.State() == rehop.StateOpen && !s.cutShort(ctx) {
				s.leave()
				return
			}
		}
	}
}

// cutShort reports whether the outcome is another relay's to judge, or nobody's now.
func (s *sending) cutShort(ctx context.Context) bool { return s.batch.term.over() || ctx.Err() != nil }

// take takes in an outcome.
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
		b.relay.suspects.acquit(destinationOf(&b.rows[i]))
	}
}

// missing judges what the client has not told of.
func (s *sending) missing(ctx context.Context) {
	for j := range s.rows {
		if s.pending[j] {
			s.take(ctx, outcome{j, errNoOutcome})
		}
	}
}

// leave postpones what has no outcome until it makes sense to send it again, and keeps of the rest only what is needed to take in
// the outcomes.
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
		b.relay.suspects.accuse(destinationOf(&b.rows[i]))
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
	// They keep their memory for a while, which others need.
	if int(b.relay.lateBytes.Add(int64(rest.bytes))) > b.relay.MaxBytes/lateShare {
		s.cancel()
	}
}

// lateShare is which part of all memory messages may have that are not confirmed for long.
const lateShare = 4

// finish takes in the outcomes that were not known in time.
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
	b.relay.lateBytes.Add(-int64(b.bytes))
}

// settle writes late outcomes down.
func (s *sending) settle(ctx context.Context, some []int) {
	b := s.batch
	b.report = Batch{}
	for _, i := range some {
		b.relay.suspects.dismiss(destinationOf(&b.rows[i]))
		if b.fates[i].verdict == left && !b.term.over() {
			// It was postponed for a long time, and the broker was away: it is to be sent when the broker is there again.
			b.fates[i] = fate{verdict: postponed, err: errNoConfirm}
		}
		b.account(&b.rows[i], b.fates[i])
	}
	b.record(ctx, some)
	for len(b.undone) > 0 && !b.term.over() && rabbit.Pause(ctx, tidyEvery) == nil {
		b.undone = b.relay.finishOff(ctx, b.undone)
	}
	b.relay.owed.keep(b.undone)
	b.undone = nil
	b.report.Postponed = 0 // that was told before
	if b.report != (Batch{}) {
		tell(b.relay.hooks.batch, b.report)
	}
}

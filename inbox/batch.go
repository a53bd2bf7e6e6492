package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/consume"
	"github.com/rehop/rehop/internal/rabbit"
)

// BatchHandler returns a function for [rehop.Batch].Handle that handles the messages of a batch in one transaction, once for each message
// id. It records the ids of all of them and calls handle with the messages that are new, in their order. If there are none, it does not call handle. [Tx] and
// [From] return the transaction:
//
//	Batch: rehop.Batch{Handle: in.BatchHandler("clicks", func(ctx context.Context, fresh []*rehop.Delivery) error {
//		return insert(ctx, inbox.Tx(ctx), fresh)
//	})}
//
// If handle returns nil, the transaction is committed. If it returns an error, the transaction is rolled back with what handle did for any
// of the messages:
//
//   - After a *rehop.BatchError, handle runs again in a new transaction with the messages that have no error there. Those are
//     committed when handle returns nil.
//   - After any other error, all messages that handle was called with have failed. Duplicates are acked.
//
// All else is as with [Inbox.Middleware]: conflicts with other transactions, a database that cannot be reached, messages without an id,
// and the consumer; a Middleware may use the same name. If another process is handling the same message, the batch is committed without
// it. The message is tried again for up to MaxWait, and then postponed. BatchHandler cannot be used with rehop.Subscriber.OrderBy.
//
// The batch of an Event is handled with in.BatchHandler(consumer, event.BatchHandler(…)). BatchHandler panics if a field of the Inbox is
// invalid, or if the consumer has more than 255 bytes.
func (in Inbox) BatchHandler(consumer string, handle func(ctx context.Context, fresh []*rehop.Delivery) error) func(ctx context.Context, all []*rehop.Delivery) error {
	in = in.mustBeValid("BatchHandler", consumer)
	h := &handler{inbox: in, consumer: consumer, insert: in.sql().WriteDown(), cleaner: &cleaner{inbox: in}}
	return func(ctx context.Context, all []*rehop.Delivery) error {
		b := &batch{handler: h, handle: handle, all: all, answers: make([]error, len(all))}
		return b.run(ctx)
	}
}

// batch is one batch that is handled.
type batch struct {
	*handler
	handle  func(ctx context.Context, fresh []*rehop.Delivery) error
	all     []*rehop.Delivery
	answers []error // for each message
}

// run handles the messages in rounds, each in a transaction, until all have an answer. Usually there is one round.
func (b *batch) run(ctx context.Context) error {
	var open, busy []int // indexes of messages that have no answer yet, and of those of which copies are being handled
	for i, d := range b.all {
		if b.answers[i] = checkID(d.ID); b.answers[i] == nil {
			open = append(open, i)
		}
	}
	until, committed := b.waitUntil(ctx), false
	for try, pauses := 1, 1; len(open)+len(busy) > 0; {
		if len(open) == 0 {
			if !time.Now().Before(until) || rabbit.Pause(ctx, beginBackoff.Delay(pauses)) != nil {
				b.postpone(busy)
				break
			}
			pauses++
			open, busy = busy, nil
		}
		r := b.round(ctx, open)
		if try < conflictTries && slices.ContainsFunc(r.errs(), b.repeats) && rabbit.Pause(ctx, conflictBackoff.Delay(try)) == nil {
			try++
			continue
		}
		try, committed = 1, committed || r.committed
		for i, err := range r.failed {
			b.answers[i] = err
		}
		busy = append(busy, r.busy...)
		open = slices.DeleteFunc(open, func(i int) bool { return r.committed || b.answers[i] != nil || slices.Contains(r.busy, i) })
	}
	if committed {
		b.cleaner.tidy(ctx)
	}
	if !slices.ContainsFunc(b.answers, func(err error) bool { return err != nil }) {
		return nil
	}
	return &rehop.BatchError{Errors: b.answers}
}

// postpone has messages wait on the broker because copies of them are being handled.
func (b *batch) postpone(busy []int) {
	for _, i := range busy {
		b.answers[i] = rehop.Postpone(2*b.inbox.MaxWait, fmt.Errorf("inbox: record message %q: %w", b.all[i].ID, errBusy))
	}
}

// round is what became of messages in one transaction. Those that are neither failed nor busy were handled if it was committed.
type round struct {
	failed    map[int]error
	busy      []int
	committed bool
}

func (r round) errs() (all []error) {
	for _, err := range r.failed {
		all = append(all, err)
	}
	return all
}

// fail gives messages an error.
func (r *round) fail(err error, which []int) {
	for _, i := range which {
		r.failed[i] = err
	}
}

func (b *batch) round(ctx context.Context, open []int) (r round) {
	r.failed = make(map[int]error)
	consumer := cmp.Or(b.consumer, b.all[0].Queue)
	began, err := b.begin(ctx, consumer, open)
	r.busy = began.busy
	if err != nil {
		r.fail(err, open)
		return r
	}
	if began.tx == nil {
		return r
	}
	ended := false
	defer func() {
		if !ended { // a panic, or runtime.Goexit
			_ = began.tx.Rollback()
		}
	}()
	if len(began.fresh) > 0 {
		if !b.call(ctx, began, &r) {
			ended = true
			b.rollBack(ctx, began, &r)
			return r
		}
	}
	ended = true
	// If there are only copies: the changes of their originals may be visible and not on disk yet. When this commit returns, they are.
	if err := began.tx.Commit(); err != nil {
		r.fail(b.blame(ctx, fmt.Errorf("inbox: commit the transaction of a batch of %d messages: %w", len(began.fresh), err)), slices.Concat(began.fresh, began.known))
		return r
	}
	r.committed = true
	if b.inbox.OnDuplicate != nil {
		for _, i := range began.known {
			b.inbox.OnDuplicate(ctx, consumer, b.all[i])
		}
	}
	return r
}

// call calls the function for the messages that are new. False: some of them have failed.
func (b *batch) call(ctx context.Context, began begun, r *round) bool {
	fresh := make([]*rehop.Delivery, len(began.fresh))
	for n, i := range began.fresh {
		fresh[n] = b.all[i]
	}
	given := slices.Clone(fresh)
	err := b.handle(context.WithValue(ctx, transactionKey{}, began.tx), given)
	for n, err := range entries.Answers(err, len(fresh), !slices.Equal(given, fresh)) {
		if err != nil {
			r.failed[began.fresh[n]] = err
		}
	}
	if len(r.failed) > 0 {
		return false
	}
	if err := b.confirm(ctx, began.tx, began.row); err != nil {
		r.fail(err, began.fresh)
		return false
	}
	return true
}

var entries consume.Entries = func(err error) ([]error, bool) {
	each, is := err.(*rehop.BatchError)
	if !is {
		return nil, false
	}
	return each.Errors, true
}

// rollBack rolls the transaction of a round back in which messages have failed.
func (b *batch) rollBack(ctx context.Context, began begun, r *round) {
	if err := began.tx.Rollback(); err != nil {
		if b.isDown(ctx) {
			for i, err := range r.failed {
				r.failed[i] = rehop.Unavailable(err)
			}
		}
		return
	}
	if b.committed(ctx, began.row) { // with the ids of all
		r.fail(errCommitted(r.errs()[0]), began.fresh)
	}
}

// begun is a transaction in which messages are recorded.
type begun struct {
	tx           Transaction // nil: it was rolled back, because of a message that is busy
	fresh, known []int       // messages that were recorded now, and before
	busy         []int       // of which copies are being handled
	row          int64       // of one of the fresh ones
}

// begin begins a transaction and records messages. It does not wait for copies that are being handled.
func (b *batch) begin(ctx context.Context, consumer string, open []int) (begun, error) {
	for try := 1; ; try++ {
		began, err := b.tryBegin(ctx, consumer, open)
		if err == nil {
			return began, nil
		}
		err = fmt.Errorf("inbox: record %d messages for consumer %q: %w", len(open), consumer, b.inbox.sql().Explain(err))
		switch {
		case ctx.Err() != nil:
			return begun{}, err
		case try == beginTries:
			return begun{}, rehop.Unavailable(err)
		}
		if rabbit.Pause(ctx, beginBackoff.Delay(try)) != nil {
			return begun{}, err
		}
	}
}

func (b *batch) tryBegin(ctx context.Context, consumer string, open []int) (began begun, err error) {
	if began.tx, err = b.inbox.Begin(ctx); err != nil {
		return begun{}, err
	}
	// In the order of their ids: otherwise two batches could wait for each other.
	for _, i := range slices.SortedFunc(slices.Values(open), func(i, j int) int { return cmp.Compare(b.all[i].ID, b.all[j].ID) }) {
		row, err := b.record(ctx, began.tx, consumer, b.all[i].ID)
		switch {
		case errors.Is(err, errBusy):
			began.busy = append(began.busy, i)
		case err != nil:
			_ = began.tx.Rollback()
			if b.inbox.sql().IsLocked(err) {
				return begun{busy: []int{i}}, nil
			}
			return begun{}, err
		case row == known:
			began.known = append(began.known, i)
		default:
			began.fresh, began.row = append(began.fresh, i), row
		}
	}
	if err := restoreLockWait(ctx, began.tx); err != nil {
		_ = began.tx.Rollback()
		return begun{}, err
	}
	slices.Sort(began.fresh)
	return began, nil
}

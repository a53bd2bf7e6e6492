package outbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rehop/rehop"
)

// batch is a set of messages that are published together.
type batch struct {
	relay    *run
	term     *term
	began    time.Time
	rows     []row
	messages []rehop.Message // of the rows
	fates    []fate          // of the rows
	parts    []*part
	bytes    int
	late     []*sending // with outcomes that are not known yet
	undone   []undone   // outcomes whose rows are locked

	trouble bool // the broker was unreachable
	report  Batch
}

// part is the part of a batch that belongs to one lane.
type part struct {
	lane       *lane
	lease      *holding      // under which the lane was read
	begin, end int           // in rows
	last       int64         // the place of its last row
	next       int64         // see mark
	epoch      int           // of the lane
	cleared    bool          // nothing is left of it
	holds      time.Duration // how long some of its keys are held back
	undone     []undone      // outcomes whose rows are locked
}

// fate is the outcome of a row.
type fate struct {
	verdict verdict
	err     error
	wait    time.Duration // until the next attempt
	untried bool          // it was not sent
}

type verdict int

const (
	left      verdict = iota // unchanged
	published                // the broker has it
	retry                    // waits for its next attempt
	aside                    // set aside
	vanished                 // was deleted in the meantime
)

func newBatch(r *run, t *term) *batch { return &batch{relay: r, term: t, began: time.Now()} }

func (b *batch) add(l *lane, rows []row, bytes int, next int64) {
	begin := len(b.rows)
	b.rows = append(b.rows, rows...)
	b.parts = append(b.parts, &part{lane: l, lease: l.lease, begin: begin, end: len(b.rows), last: l.place(&rows[len(rows)-1]), next: next, epoch: l.epoch})
	b.bytes += bytes
}

// addUndone lets the batch write outcomes of a lane that could not be written before. One of them may hold a key back: what the lane
// learned while messages of the key waited is not valid afterwards.
func (b *batch) addUndone(l *lane) {
	b.parts = append(b.parts, &part{lane: l, lease: l.lease, undone: l.undone, epoch: l.epoch})
}

func (b *batch) shards() []int {
	var all []int
	for _, p := range b.parts {
		if !slices.Contains(all, p.lane.shard) {
			all = append(all, p.lane.shard)
		}
	}
	return all
}

// run publishes the batch, and writes the outcomes to the table.
func (b *batch) run(ctx context.Context) {
	b.fates = make([]fate, len(b.rows))
	recorded := len(b.rows) > 0 && b.load(ctx) && b.publish(ctx)
	for _, p := range b.parts {
		p.cleared = recorded
		for i := p.begin; i < p.end; i++ {
			b.account(&b.rows[i], b.fates[i])
			p.cleared = p.cleared && b.fates[i].verdict != left
			if b.rows[i].orderKey != "" {
				p.holds = max(p.holds, b.fates[i].wait)
			}
		}
		if len(p.undone) > 0 {
			p.undone = b.relay.finishOff(ctx, p.undone)
		}
		for _, u := range b.undone {
			if slices.ContainsFunc(b.rows[p.begin:p.end], func(r row) bool { return r.identity() == u.row }) {
				p.undone, p.cleared = append(p.undone, u), false
			}
		}
	}
	for _, s := range b.late {
		b.relay.late.Go(func() { s.finish(ctx) })
	}
	b.report.Took = time.Since(b.began)
	b.rows, b.messages, b.fates, b.late = nil, nil, nil, nil // the dispatcher is about to count their memory as free
}

func (b *batch) account(r *row, f fate) {
	switch f.verdict {
	case left:
		b.report.Left++
	case published:
		b.report.Published++
	case retry:
		b.report.Retry++
	case aside:
		b.report.SetAside++
		b.relay.Logger.Error("outbox: message set aside because it cannot be published; fix the cause, then run rehop outbox retry", "row", RowID(r.identity()).String(), "message_id", r.messageID,
			"exchange", r.exchange, "key", r.routingKey, "err", f.err)
		emit(b.relay.hooks.setAside, SetAside{Row: RowID(r.identity()), MessageID: r.messageID, Exchange: r.exchange, Key: r.routingKey, OrderKey: r.orderKey, Err: f.err})
	}
}

// load reads the messages of the rows. It returns false if the database could not be read.
func (b *batch) load(ctx context.Context) bool {
	if slices.ContainsFunc(b.rows, func(r row) bool { return r.body == nil }) {
		within, done := b.term.within(ctx, b.relay.Timeout)
		err := b.relay.steadily(within, func(db session) error { return loadBodies(within, db, b.relay.sql, b.rows) })
		done()
		if err != nil {
			if ctx.Err() == nil && !b.term.over() {
				b.relay.faults.report("read bodies", err)
			}
			return false
		}
		b.relay.faults.resolve("read bodies")
	}
	b.messages = make([]rehop.Message, len(b.rows))
	for i := range b.rows {
		if b.rows[i].body == nil {
			b.fates[i].verdict = vanished
			continue
		}
		var err error
		if b.messages[i], err = b.rows[i].message(); err != nil {
			b.fates[i] = fate{verdict: aside, err: err}
		}
	}
	return true
}

// recordEvery is how long confirmed messages of a batch with many waves wait before they are deleted.
const recordEvery = 250 * time.Millisecond

// publish publishes in waves, each with at most one message per key. It reports whether all outcomes are in the database.
func (b *batch) publish(ctx context.Context) (recorded bool) {
	var todo, outcomes []int
	for i, f := range b.fates {
		if f.verdict == left {
			todo = append(todo, i)
		} else {
			outcomes = append(outcomes, i)
		}
	}
	recorded = true
	last := time.Now()
	for len(todo) > 0 && !b.trouble && !b.term.over() && ctx.Err() == nil {
		var wave []int
		wave, todo = b.wave(todo)
		if some := b.unsuspected(wave); len(some) > 0 {
			b.send(ctx, some)
		}
		outcomes, todo = append(outcomes, wave...), b.without(todo, wave)
		if len(todo) > 0 && time.Since(last) > recordEvery {
			recorded = b.record(ctx, outcomes) && recorded
			outcomes, last = outcomes[:0], time.Now()
		}
	}
	return b.record(ctx, outcomes) && recorded
}

// wave divides rows into those that can be sent now, and those that wait for another one of their key.
func (b *batch) wave(todo []int) (now, later []int) {
	seen := make(map[string]bool)
	for _, i := range todo {
		key := b.rows[i].orderKey
		if key != "" && seen[key] {
			later = append(later, i)
			continue
		}
		seen[key] = true
		now = append(now, i)
	}
	return now, later
}

// without removes rows whose key has a message that must be sent again.
func (b *batch) without(todo, sent []int) []int {
	stuck := make(map[string]bool)
	for _, i := range sent {
		if v := b.fates[i].verdict; v == left || v == retry {
			stuck[b.rows[i].orderKey] = true
		}
	}
	return slices.DeleteFunc(todo, func(i int) bool { return stuck[b.rows[i].orderKey] })
}

// unsuspected returns the rows whose destination is likely to confirm. The others are retried later.
func (b *batch) unsuspected(wave []int) []int {
	some := make([]int, 0, len(wave))
	probes := make(map[destination]bool)
	for _, i := range wave {
		d := destinationOf(&b.rows[i])
		none, one, age := b.relay.suspects.check(d)
		if none || one && probes[d] {
			wait := min(max(age, b.relay.confirmWait()), b.relay.Timeout)
			b.fates[i] = fate{verdict: retry, err: errSuspect, wait: wait, untried: true}
			continue
		}
		probes[d] = one
		some = append(some, i)
	}
	return some
}

// judge decides about a message that was not confirmed.
func (b *batch) judge(r *row, err error, open bool) fate {
	wait := b.relay.RetryMax
	if n := min(r.attempts, 30); b.relay.RetryMin <= b.relay.RetryMax>>n {
		wait = b.relay.RetryMin << n
	}
	again := fate{verdict: retry, err: err, wait: wait}
	switch {
	case errors.Is(err, rehop.ErrUnknown) && open:
		// The broker is there but has not answered for this message. If it were sent again soon, it would be there twice.
		again.wait = max(wait, 2*b.relay.Timeout)
		return again
	case !open && (errors.Is(err, rehop.ErrUnknown) || errors.Is(err, rehop.ErrBlocked) || errors.Is(err, rehop.ErrDisconnected)), errors.Is(err, rehop.ErrClosed):
		return fate{verdict: left, err: err}
	case errors.Is(err, rehop.ErrTooLarge), errors.Is(err, rehop.ErrInvalid),
		errors.Is(err, rehop.ErrUnroutable) && r.attempts+1 >= b.relay.Tries:
		return fate{verdict: aside, err: err}
	}
	return again
}

package triage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// ErrSuperseded means that another sweep of the same failed queue has begun, so that this one cannot decide what is gone.
var ErrSuperseded = errors.New("another sweep of the queue has begun")

// Reconciled is what a sweep changed.
type Reconciled struct {
	Seen  int // messages in the failed queue
	Added int // that the index did not know, or knew as not in the failed queue
	Gone  int // that the index had in the state Failed, and that are not in the failed queue any more
}

// Reconcile makes the index equal to a failed queue. The batches together must have each message of the queue exactly once, as one sweep has
// read it. Afterwards the messages of the queue in the state Failed are exactly those: what was not known is added, what was not seen
// is Gone, and two messages that are the same in every respect are two. Messages that Put records while this runs are not declared gone.
//
// If a batch is an error, Reconcile returns it and declares nothing gone. It can be repeated at any time, with a new sweep.
func (s *Store) Reconcile(ctx context.Context, failedQueue string, batches iter.Seq2[[]Message, error]) (Reconciled, error) {
	w := sweep{store: s, name: failedQueue}
	if err := w.run(ctx, batches); err != nil {
		return w.done, fmt.Errorf("triage: reconcile queue %q: %w", failedQueue, err)
	}
	return w.done, nil
}

// sweep is one run of Reconcile.
type sweep struct {
	store *Store
	name  string
	queue queueRow
	done  Reconciled
}

func (w *sweep) run(ctx context.Context, batches iter.Seq2[[]Message, error]) error {
	if w.name == "" || len(w.name) > maxName {
		return fmt.Errorf("the name of a queue has from 1 to %d bytes", maxName)
	}
	if err := w.start(ctx); err != nil {
		return err
	}
	for messages, err := range batches {
		if err == nil {
			err = w.see(ctx, messages)
		}
		if err != nil {
			return err
		}
	}
	return w.finish(ctx)
}

// start begins a generation. Messages that are put from now on belong to it.
func (w *sweep) start(ctx context.Context) error {
	return w.store.write(ctx, func(tx *writer) error {
		queues, err := tx.queueRows(ctx, map[string]bool{w.name: true})
		if err != nil {
			return err
		}
		w.queue = *queues[w.name]
		w.queue.generation++
		_, err = tx.ExecContext(ctx, w.store.sql.Bind("UPDATE "+w.store.table("queue")+" SET generation = ? WHERE number = ?"), w.queue.generation, w.queue.number)
		return err
	})
}

// see records a part of the messages that are in the queue.
func (w *sweep) see(ctx context.Context, messages []Message) error {
	if len(messages) == 0 {
		return nil
	}
	for i := range messages {
		if messages[i].FailedQueue != w.name {
			return fmt.Errorf("message %q is of queue %q", messages[i].ID, messages[i].FailedQueue)
		}
	}
	all, err := w.store.prepare(messages)
	if err != nil {
		return err
	}
	added := 0
	err = w.store.write(ctx, func(tx *writer) error {
		b, err := tx.begin(ctx, all)
		if err != nil {
			return err
		}
		if b.queues[w.name].generation != w.queue.generation {
			return ErrSuperseded
		}
		for i := range all {
			b.see(&all[i], w.queue.generation)
		}
		added = len(b.added) + len(b.revived)
		return b.flush(ctx)
	})
	if err == nil {
		w.done.Seen, w.done.Added = w.done.Seen+len(messages), w.done.Added+added
	}
	return err
}

// see decides what becomes of a message that is in its failed queue. Each row stands for one message, so a second one that is the same needs
// a second row. The row of a message in the store stands for that one.
func (b *batch) see(in *incoming, generation int64) {
	isFree := func(r *row) bool { return r.seen != generation && !r.stored }
	same := func(want func(*row) bool) int {
		return slices.IndexFunc(b.rows[in.lineage], func(r *row) bool { return isFree(r) && r.failure == in.failure && want(r) })
	}
	at := same(func(r *row) bool { return states[r.state] == Failed })
	if at < 0 {
		if at = same(func(*row) bool { return true }); at >= 0 {
			b.revived = append(b.revived, b.rows[in.lineage][at])
		}
	}
	if at >= 0 {
		r := b.rows[in.lineage][at]
		r.seen = generation
		b.found = append(b.found, r)
		return
	}
	r := earlier(b.rows[in.lineage], in, isFree)
	if r != nil {
		b.replace(r, in)
	} else {
		r = b.add(in)
	}
	r.seen = generation
}

// setSeen records which rows a sweep has found.
func (b *batch) setSeen(ctx context.Context) error {
	return inChunks(b.found, func(some []*row) error {
		args := []any{some[0].seen}
		for _, r := range some {
			args = append(args, r.id)
		}
		_, err := b.ExecContext(ctx, b.store.sql.Bind("UPDATE "+b.store.table("message")+" SET seen = ? WHERE id IN ("+marks(len(some))+")"), args...)
		return err
	})
}

// leaveQueue records that messages are not in their failed queue any more: those whose contents are in the store were taken out by a run that could not
// record it, and the others are gone.
func (w *writer) leaveQueue(ctx context.Context, c *counters, rows []*row) error {
	lines, err := w.linesOf(ctx, rows)
	if err != nil {
		return err
	}
	byState := make(map[State][]*row)
	for _, r := range rows {
		to, ok := lines[r]
		if !ok {
			to = Gone
		}
		byState[to] = append(byState[to], r)
	}
	for _, to := range []State{Kept, Discarded, Gone} {
		if err := w.setStates(ctx, c, byState[to], to, ""); err != nil {
			return err
		}
	}
	return nil
}

// finishSome is how many rows are declared gone in one transaction.
const finishSome = 1000

// finish declares the rows gone that were not seen, except those that are younger than the sweep.
func (w *sweep) finish(ctx context.Context) error {
	for last, more := int64(0), true; more; {
		var rows []*row
		err := w.store.write(ctx, func(tx *writer) error {
			queues, err := tx.queueRows(ctx, map[string]bool{w.name: true})
			if err != nil {
				return err
			}
			if queues[w.name].generation != w.queue.generation {
				return ErrSuperseded
			}
			query := "SELECT " + rowColumns + " FROM " + w.store.table("message") + " WHERE queue_number = ? AND state = ? AND id > ? AND seen <> ? AND born < ? ORDER BY id LIMIT ?"
			rows, err = readAll(ctx, tx, w.store.sql.Bind(query), []any{w.queue.number, Failed.number(), last, w.queue.generation, w.queue.generation, finishSome}, scanRow)
			if err != nil {
				return err
			}
			counters := newCounters()
			if err := tx.leaveQueue(ctx, counters, rows); err != nil {
				return err
			}
			if len(rows) < finishSome {
				if _, err := tx.ExecContext(ctx, w.store.sql.Bind("UPDATE "+w.store.table("queue")+" SET swept = ? WHERE number = ?"), tx.now, w.queue.number); err != nil {
					return err
				}
			}
			return counters.flush(ctx, tx)
		})
		if err != nil {
			return err
		}
		for _, r := range rows {
			if states[r.state] == Gone {
				w.done.Gone++
			}
		}
		if more = len(rows) == finishSome; more {
			last = rows[len(rows)-1].id
		}
	}
	return nil
}

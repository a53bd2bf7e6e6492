package triage

import (
	"context"
	"errors"
	"sync"

	"github.com/rehop/rehop/admin"
)

// taker takes the messages of a run out of one failed queue, in one sweep.
type taker struct {
	store   *Store
	run     runRow
	queue   failedQueue
	line    func(admin.Message) ([]byte, error) // of an export; nil: messages are not stored
	from    []itemState                         // items in one of these states are taken
	allowed guard
	// left are the items that were being sent when the sweep began, and certain those of them that it takes.
	left    leftovers
	certain map[string]*item

	mu      sync.Mutex
	pending map[sighting][]*item // messages that are being sent
	sending map[sighting][]*item // those of them that were not published yet
	broken  error                // what was not recorded
}

// sighting identifies messages that are equal for a run.
type sighting struct {
	lineage lineage
	failure failure
}

// sweep replays, discards or keeps messages of a run in the queue with a number. complete: the queue has no other messages of the run.
func (w *worker) sweep(ctx context.Context, a *admin.Admin, r runRow, number int64, q failedQueue, from []itemState, allowed int) (done int, complete bool, err error) {
	t := &taker{store: w.store, run: r, queue: q, from: from, allowed: w.service.holds, certain: w.certain[number], pending: make(map[sighting][]*item), sending: make(map[sighting][]*item)}
	delete(w.certain, number)
	if t.left, err = w.store.leftovers(ctx, r, number); err != nil {
		return 0, false, err
	}
	o := admin.Options{Run: r.ID, To: r.To, Rate: r.Rate, Choose: t.choose, Settled: func(some []admin.Settled) { t.settled(w.recording, some) }}
	if allowed > 0 {
		o.Limit = allowed
	}
	if r.Action != ActionReplay || r.edit != nil {
		t.line = func(m admin.Message) ([]byte, error) {
			if q.other {
				return a.ErrorQueue(q.Name).ExportLine(m)
			}
			return a.ExportLine(q.Queue, m)
		}
	}
	if r.Action == ActionReplay {
		o.Change = t.change
	}
	var progress admin.Progress
	switch others := a.ErrorQueue(q.Name); {
	case r.Action == ActionReplay && q.other:
		progress, err = others.Replay(ctx, "", o)
	case r.Action == ActionReplay:
		progress, err = a.Replay(ctx, q.Queue, o)
	case q.other:
		progress, err = others.Discard(ctx, o)
	default:
		progress, err = a.Discard(ctx, q.Queue, o)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil || errors.Is(err, errHalted) || errors.Is(err, errDisplaced) {
		return progress.Done, false, nil // it is paused or stopped, or the process ends; the next step finds out
	}
	complete = err == nil && t.broken == nil && progress.Delayed == 0 && (o.Limit == 0 || progress.Done < o.Limit)
	if err = errors.Join(err, t.broken); complete {
		var certain map[string]*item
		if certain, err = w.store.certain(ctx, t.left); len(certain) > 0 {
			w.certain[number], complete = certain, false
		}
	}
	return progress.Done, complete && err == nil, err
}

func (t *taker) see(m admin.Message) (in incoming, s sighting, err error) {
	message := t.queue.message(m)
	in.message = &message
	if in.lineage, err = lineageOf(&message); err != nil {
		return in, s, err
	}
	in.failure = failureOf(&message)
	return in, sighting{in.lineage, in.failure}, nil
}

// choose decides which messages are in the set of the run.
func (t *taker) choose(ctx context.Context, some []admin.Message) ([]bool, error) {
	all, seen := make([]incoming, len(some)), make([]sighting, len(some))
	for i, m := range some {
		var err error
		if all[i], seen[i], err = t.see(m); err != nil {
			return nil, err
		}
	}
	c := claim{run: t.run, certain: t.certain, from: t.from, allowed: t.allowed}
	if t.line != nil {
		c.line = func(n int) ([]byte, error) { return t.line(some[n]) }
	}
	items, err := t.store.claim(ctx, c, all)
	if err != nil {
		return nil, err
	}
	wanted := make([]bool, len(some))
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, one := range items {
		if one == nil {
			t.left.see(seen[i])
			continue
		}
		wanted[i] = true
		t.pending[seen[i]] = append(t.pending[seen[i]], one)
		t.sending[seen[i]] = append(t.sending[seen[i]], one)
	}
	return wanted, nil
}

// pop takes an item out of a list.
func pop(lists map[sighting][]*item, s sighting) *item {
	list := lists[s]
	if len(list) == 0 {
		return nil
	}
	if len(list) == 1 {
		delete(lists, s)
	} else {
		lists[s] = list[1:]
	}
	return list[0]
}

// change gives a message the id that is recorded, and applies the edit.
func (t *taker) change(m *admin.Message) error {
	_, s, err := t.see(*m)
	if err != nil {
		return err
	}
	t.mu.Lock()
	one := pop(t.sending, s)
	t.mu.Unlock()
	if one != nil && (m.ID == "" || t.run.edit != nil) {
		m.ID = one.sentID
	}
	if e := t.run.edit; e != nil {
		m.Body, m.ContentType, m.Headers = e.Body, e.ContentType, e.Headers
	}
	return nil
}

// settled records what became of messages, also if the run was paused meanwhile: see worker.recording.
func (t *taker) settled(recording context.Context, some []admin.Settled) {
	var known []settled
	t.mu.Lock()
	for _, one := range some {
		_, s, err := t.see(one.Message)
		if err != nil {
			continue
		}
		if i := pop(t.pending, s); i != nil {
			known = append(known, settled{item: i})
			if one.Err != nil {
				known[len(known)-1].reason = one.Err.Error()
			}
		}
	}
	t.mu.Unlock()
	if err := t.store.settle(recording, t.run, known); err != nil {
		t.mu.Lock()
		t.broken = errors.Join(t.broken, err)
		t.mu.Unlock()
	}
}

package outbox

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/internal/sqltext"
)

// owed are the messages that the broker has confirmed and whose rows are still to be deleted, or kept as published. While the database is away, the relay can lose
// its leases and gain them again; it still knows then what not to publish again. Rows are named by number and nonce, so deleting them is
// right whoever has their lease by then.
type owed struct {
	mu      sync.Mutex
	rows    map[sqltext.Row]bool
	late    []undone  // which nobody writes any more, because the leases have ended
	next    time.Time // when to try again to write those whose rows somebody has locked
	looks   int       // how many looks into the table have begun
	written map[sqltext.Row]writing
}

// writing is an outcome that was written. It is remembered for a while: a look that began before still finds the row. And what a transaction
// has deleted can be there again after a crash, as long as no barrier was committed afterwards: the deletion that the relay has seen may be
// one that it had given up waiting for.
type writing struct {
	outcome undone
	look    int // the last look that had begun
	at      time.Time
}

// maxOwed bounds the memory for those that are left. Others are published once more.
const maxOwed = 10_000

// begin notes that the broker has confirmed a message, at once: its lease may end, and begin anew, while others of its batch are still under way.
func (o *owed) begin(row sqltext.Row) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rows == nil {
		o.rows = make(map[sqltext.Row]bool)
	}
	o.rows[row] = true
}

// end notes that outcomes were written, but for the rest.
func (o *owed) end(outcomes, rest []undone) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.written == nil {
		o.written = make(map[sqltext.Row]writing)
	}
	now := time.Now()
	for _, u := range outcomes {
		if o.rows[u.row] && !slices.Contains(rest, u) {
			delete(o.rows, u.row)
			o.written[u.row] = writing{u, o.looks, now}
		}
	}
}

// beginLook is called before the table is read, which is done by one at a time.
func (o *owed) beginLook() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looks++
}

// endLook is called after that. safe: what the look could see is on disk.
func (o *owed) endLook(safe bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for row, w := range o.written {
		if safe && w.look < o.looks {
			delete(o.written, row)
		}
	}
}

// waitsForBarrier reports whether outcomes that were written have waited for a barrier for a while.
func (o *owed) waitsForBarrier() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.written {
		if time.Since(w.at) > barrierWait {
			return true
		}
	}
	return false
}

// barrierWait is how long they wait while there is nothing to publish, and so no barrier anyway.
const barrierWait = time.Second

// leave keeps outcomes that could not be written until somebody takes them.
func (o *owed) leave(changes []change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range ofConfirmed(changes) {
		room := min(len(c), maxOwed-len(o.late))
		o.late = append(o.late, c[:room]...)
		for _, u := range c[room:] {
			delete(o.rows, u.row)
		}
	}
}

// keep takes over outcomes that a lane was to write into rows which somebody has locked: its lease has ended.
func (o *owed) keep(outcomes []undone) {
	o.leave(byKind(outcomes))
}

// count is how many were left.
func (o *owed) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.late)
}

// pause has take return nothing for a while.
func (o *owed) pause(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next = time.Now().Add(d)
}

// take returns what was left.
func (o *owed) take() []undone {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Now().Before(o.next) {
		return nil
	}
	late := o.late
	o.late = nil
	return late
}

// without takes these rows out of some that a look has found.
func (o *owed) without(rows []row) []row {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.DeleteFunc(rows, func(r row) bool { return o.rows[r.identity()] || o.wasWritten(r.identity()) })
}

// wasWritten reports whether a row that a look has found is not to be published, as its outcome was written. One that is there again is to be
// deleted again. The caller holds the lock.
func (o *owed) wasWritten(row sqltext.Row) bool {
	w, was := o.written[row]
	if !was || w.look == o.looks {
		return was
	}
	delete(o.written, row)
	if w.outcome.kept || len(o.late) >= maxOwed {
		return false // Inspector.Retry has had it published again
	}
	o.rows[row] = true
	o.late = append(o.late, w.outcome)
	return true
}

// ofConfirmed are the changes of rows whose messages the broker has.
func ofConfirmed(changes []change) (all []change) {
	for _, c := range changes {
		if c[0].kind.verdict == published {
			all = append(all, c)
		}
	}
	return all
}

// settleOwed writes outcomes that were left, again and again until ctx ends. The leases do not wait for that.
func (r *run) settleOwed(ctx context.Context) {
	for rabbit.Pause(ctx, r.Lease/4) == nil {
		r.payOwed(ctx)
	}
}

// payOwed writes outcomes that were left when leases ended.
func (r *run) payOwed(ctx context.Context) {
	rest := r.owed.take()
	if len(rest) == 0 {
		return
	}
	var locked []undone
	for len(rest) > 0 {
		some := change(rest[:min(len(rest), r.BatchSize)])
		kept, err := r.write(ctx, some)
		if err != nil {
			r.owed.leave([]change{rest})
			r.told.fault("record outcomes", err)
			break
		}
		r.told.well("record outcomes")
		r.owed.end(some, kept)
		locked, rest = append(locked, kept...), rest[len(some):]
	}
	if len(locked) > 0 {
		r.owed.leave([]change{locked})
		r.owed.pause(r.Lease)
	}
}

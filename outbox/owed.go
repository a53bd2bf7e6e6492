package outbox

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/internal/sqltext"
)

// owed are messages that the broker has confirmed and whose rows are still to be deleted, or marked as kept. While the database is
// unreachable, the relay can lose its leases and gain them again; it still knows which messages not to publish again. Rows are identified
// by number and nonce, so deleting them is right whichever relay has their lease by then.
type owed struct {
	mu      sync.Mutex
	rows    map[sqltext.Row]bool
	late    []undone  // that no batch writes any more, because the leases have ended
	next    time.Time // when to try again to write those whose rows are locked
	reads   int       // how many reads of the table have begun
	written map[sqltext.Row]writing
}

// writing is an outcome that was written. It is remembered for a while: a read that began before still finds the row. And a deleted row can
// be there again after a crash, until a barrier is committed afterwards: the deletion that the relay saw may be one that it had given up
// waiting for.
type writing struct {
	outcome undone
	read    int // the last read that had begun
	at      time.Time
}

// maxOwed bounds the memory for late outcomes. Messages beyond it are published again.
const maxOwed = 10_000

// begin notes that the broker has confirmed a message, before the batch ends: the lease may be lost and gained again in the meantime.
func (o *owed) begin(row sqltext.Row) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rows == nil {
		o.rows = make(map[sqltext.Row]bool)
	}
	o.rows[row] = true
}

// end notes that outcomes were written, except for the rest.
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
			o.written[u.row] = writing{u, o.reads, now}
		}
	}
}

// beginRead is called before the table is read. Only one read runs at a time.
func (o *owed) beginRead() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads++
}

// endRead is called after that. safe: what the read could see is on disk.
func (o *owed) endRead(safe bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for row, w := range o.written {
		if safe && w.read < o.reads {
			delete(o.written, row)
		}
	}
}

// waitsForBarrier reports whether written outcomes have waited for a barrier for a while.
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

// barrierWait is how long they wait while there is nothing to publish, and so no barrier.
const barrierWait = time.Second

// leave keeps outcomes of confirmed messages that could not be written, until take returns them.
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

// keep takes over outcomes of a lane whose lease has ended and whose rows are locked.
func (o *owed) keep(outcomes []undone) {
	o.leave(byKind(outcomes))
}

func (o *owed) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.late)
}

// pause makes take return nothing for a while.
func (o *owed) pause(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next = time.Now().Add(d)
}

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

// without removes rows whose messages are confirmed from those that a read has found.
func (o *owed) without(rows []row) []row {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.DeleteFunc(rows, func(r row) bool { return o.rows[r.identity()] || o.wasWritten(r.identity()) })
}

// wasWritten reports whether a row must not be published because its outcome was written. A row that is there again is deleted again. The
// caller holds the lock.
func (o *owed) wasWritten(row sqltext.Row) bool {
	w, was := o.written[row]
	if !was || w.read == o.reads {
		return was
	}
	delete(o.written, row)
	if w.outcome.kept || len(o.late) >= maxOwed {
		return false // it is there again because of Inspector.Republish
	}
	o.rows[row] = true
	o.late = append(o.late, w.outcome)
	return true
}

// ofConfirmed returns the changes of rows whose messages are confirmed.
func ofConfirmed(changes []change) (all []change) {
	for _, c := range changes {
		if c[0].kind.verdict == published {
			all = append(all, c)
		}
	}
	return all
}

// settleOwed keeps writing outcomes that were left, until ctx ends. The leases do not wait for it.
func (r *run) settleOwed(ctx context.Context) {
	for rabbit.Pause(ctx, r.Lease/4) == nil {
		r.payOwed(ctx)
	}
}

// payAll writes outcomes that were left when the relay stops. It tries until it succeeds, or for half a lease: a row may be locked for long.
func (r *run) payAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.Lease/2)
	defer cancel()
	for tries := 1; r.owed.count() > 0; tries++ {
		r.owed.pause(0)
		r.payOwed(ctx)
		if r.owed.count() == 0 || rabbit.Pause(ctx, databaseBackoff.Delay(tries)) != nil {
			return
		}
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
			r.faults.report("record outcomes", err)
			break
		}
		r.faults.resolve("record outcomes")
		r.owed.end(some, kept)
		locked, rest = append(locked, kept...), rest[len(some):]
	}
	if len(locked) > 0 {
		r.owed.leave([]change{locked})
		r.owed.pause(r.Lease)
	}
}

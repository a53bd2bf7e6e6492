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
	mu   sync.Mutex
	rows map[sqltext.Row]bool
	late []undone  // which nobody writes any more, because the leases have ended
	next time.Time // when to try again to write those whose rows somebody has locked
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
	for _, u := range outcomes {
		if !slices.Contains(rest, u) {
			delete(o.rows, u.row)
		}
	}
}

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

// without takes these rows out of some.
func (o *owed) without(rows []row) []row {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.rows) == 0 {
		return rows
	}
	return slices.DeleteFunc(rows, func(r row) bool { return o.rows[r.identity()] })
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

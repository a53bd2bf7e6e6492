package outbox

import (
	"context"
	"time"
)

// patience is how long a relay waits for its database. A connection that has died without a word must not hold up a relay that keeps its
// leases, and a slow database must get its time: so what ran into a limit gets twice as long the next time, and what succeeded tells how
// long the next may take.
type patience time.Duration

const (
	leastPatience = patience(10 * time.Second)
	mostPatience  = patience(5 * time.Minute)
)

// look is the limit of one look into the table, from its beginning to its commit.
func (p patience) look() time.Duration { return time.Duration(p) }

// begin is the limit of beginning a transaction.
func (p patience) begin() time.Duration { return time.Duration(p) / 5 }

// commit is the limit of committing it, which waits for the disk and perhaps for a standby.
func (p patience) commit() time.Duration { return time.Duration(p) / 2 }

// after is the patience after something took so long and ended with err.
func (p patience) after(took time.Duration, err error) patience {
	switch {
	case err == nil:
		return min(max(leastPatience, patience(4*took)), mostPatience)
	case took >= p.begin(): // a limit may have been the cause
		return min(2*p, mostPatience)
	}
	return p
}

func (r *run) setPatience(p patience) { r.allowed.Store(int64(p)) }

func (r *run) getPatience() patience { return patience(r.allowed.Load()) }

// patiently is a context for writing outcomes, which goes on for a while when ctx has ended: what is confirmed and not deleted would be published
// once more.
func (r *run) patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	once, done := context.WithTimeout(context.WithoutCancel(ctx), max(r.Lease, r.getPatience().commit()))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(r.Lease, done) })
	return once, func() {
		stop()
		done()
	}
}

package outbox

import (
	"context"
	"time"
)

// dbTimeout is how long a relay waits for its database. A connection that died silently must not hold up a relay that keeps its leases,
// and a slow database needs its time. So the timeout doubles when it may have expired, and follows the duration of what succeeded.
type dbTimeout time.Duration

const (
	minDBTimeout = dbTimeout(10 * time.Second)
	maxDBTimeout = dbTimeout(5 * time.Minute)
)

// read is the limit of one read of the table, from BEGIN to COMMIT.
func (t dbTimeout) read() time.Duration { return time.Duration(t) }

// begin is the limit of BEGIN.
func (t dbTimeout) begin() time.Duration { return time.Duration(t) / 5 }

// commit is the limit of COMMIT, which waits for the disk and perhaps for a standby.
func (t dbTimeout) commit() time.Duration { return time.Duration(t) / 2 }

// after is the timeout after a read that took this long and ended with err.
func (t dbTimeout) after(took time.Duration, err error) dbTimeout {
	switch {
	case err == nil:
		return min(max(minDBTimeout, dbTimeout(4*took)), maxDBTimeout)
	case took >= t.begin(): // a limit may have been the cause
		return min(2*t, maxDBTimeout)
	}
	return t
}

func (r *run) setDBTimeout(t dbTimeout) { r.allowed.Store(int64(t)) }

func (r *run) dbTimeout() dbTimeout { return dbTimeout(r.allowed.Load()) }

// finishing returns a context for statements that a stop must not interrupt: it ends after limit, or a lease after ctx. The server does not
// notice at once that a statement was canceled, and until then keeps the locks that the relay needs to return its leases. And pgx may
// report the timeout by which it interrupts a statement to the next one on the same connection.
func (r *run) finishing(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	once, done := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(r.Lease, done) })
	return once, func() {
		stop()
		done()
	}
}

// recordContext returns a context for writing outcomes: a message that is confirmed and not deleted would be published again.
func (r *run) recordContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return r.finishing(ctx, max(r.Lease, r.dbTimeout().commit()))
}

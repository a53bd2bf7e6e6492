package sqltext

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop/dialect"
)

// synced raises synchronous_commit for a transaction, so that its commit returns only when it and all
// earlier ones are on disk.
const synced = "set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)"

// Steady is a statement for the beginning of a transaction that works on the outbox. On PostgreSQL it
// disables sequential scans: a cached plan for an empty table would read all of it. It keeps the first
// plan: five trial plans would each take longer than the statement. It disables compiling to machine
// code, which would take half a second each time. It ends idle transactions after some seconds: a
// process that is stopped in the middle of one would keep its locks, and others could not delete what
// they have published. Last, what the relay commits is on disk, whatever the server's default is.
//
// It returns the number below which all transactions have ended, the start time of the server, which
// identifies it, and a text. An empty statement: not necessary.
func (s SQL) Steady() string {
	if s.Dialect != dialect.Postgres {
		return ""
	}
	return "SELECT txid_snapshot_xmin(txid_current_snapshot()), (EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000)::bigint, " +
		"set_config('enable_seqscan', 'off', true) || set_config('enable_bitmapscan', 'off', true) || set_config('plan_cache_mode', 'force_generic_plan', true) || set_config('jit', 'off', true) || " +
		"set_config('idle_in_transaction_session_timeout', '5s', true) || " + synced
}

// SteadyFor is Steady for a transaction whose statements fail if they have to wait longer than this for
// a lock of another transaction: see IsLocked. An empty statement: the database cannot limit that for
// one transaction.
func (s SQL) SteadyFor(lockWait time.Duration) string {
	if s.Dialect != dialect.Postgres {
		return ""
	}
	return s.Steady() + fmt.Sprintf(" || set_config('lock_timeout', '%d', true)", max(1, lockWait.Milliseconds()))
}

// Barrier writes something that is durable only if everything committed and visible before is. It locks
// nothing that another relay needs: one that is stopped before it commits would keep the lock. An empty
// statement: Owned does it.
func (s SQL) Barrier() string {
	if s.Dialect == dialect.Postgres {
		return ""
	}
	return "UPDATE " + s.Table("outbox_relay") + " SET barrier = barrier + 1 WHERE owner = ?"
}

// Owned counts the shards of which an owner has the lease, and, if fresh, has it now: a transaction that
// sees an old state of the leases cannot know that. On PostgreSQL it writes the barrier, and also returns
// the number of this transaction, which is higher than that of any before it, and another value;
// elsewhere 0 and 0.
func (s SQL) Owned(shards []int, owner string, fresh bool) (query string, args []any) {
	barrier := "0, 0"
	if s.Dialect == dialect.Postgres {
		barrier = "txid_current(), setval('" + s.Table("outbox_barrier") + "', 1)"
	}
	list := make([]string, len(shards))
	for i, shard := range shards {
		list[i] = strconv.Itoa(shard)
	}
	now := ""
	if fresh {
		now = " AND expires > " + s.Now()
	}
	return s.Bind(fmt.Sprintf("SELECT COUNT(*), %s FROM %s WHERE shard IN (%s)%s AND owner = ?", barrier, s.Table("outbox_lease"), strings.Join(list, ", "), now)), []any{owner}
}

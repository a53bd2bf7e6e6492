package sqltext

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rehop/rehop/dialect"
)

// synced raises synchronous_commit for a transaction, so that its commit returns only when it and all that came before it are on disk.
const synced = "set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)"

// Steady is a statement for the beginning of a transaction that works on the outbox. PostgreSQL keeps the plan that it once made for a
// statement, and one for an empty table reads all of it; so there it may not. And it makes five plans for trial before it keeps one,
// each of which takes longer than the statement; so it is to keep the first. By the costs that it expects it would also compile the
// statement to machine code, for half a second each time. A process that was stopped in the middle of a transaction would keep its
// locks, and others could not delete what they have published, until somebody lets it continue: the database ends a transaction with
// which nothing has happened for some seconds. Last, what the relay commits is on disk, whatever the server's default is.
//
// It answers with the number below which all transactions have ended, with when the server was started, which tells one server from
// another, and with a text. An empty statement: nothing is to be done.
func (s SQL) Steady() string {
	if s.Dialect != dialect.Postgres {
		return ""
	}
	return "SELECT txid_snapshot_xmin(txid_current_snapshot()), (EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000)::bigint, " +
		"set_config('enable_seqscan', 'off', true) || set_config('enable_bitmapscan', 'off', true) || set_config('plan_cache_mode', 'force_generic_plan', true) || set_config('jit', 'off', true) || " +
		"set_config('idle_in_transaction_session_timeout', '5s', true) || " + synced
}

// Barrier writes something that is durable only if all is that was committed and visible before it. It locks nothing that another relay
// needs: one that is stopped before it commits would keep the lock. An empty statement: Owned does it.
func (s SQL) Barrier() string {
	if s.Dialect == dialect.Postgres {
		return ""
	}
	return "UPDATE " + s.Table("outbox_relay") + " SET barrier = barrier + 1 WHERE owner = ?"
}

// Owned counts the shards of which an owner has the lease, and, if fresh, has it now: a transaction that sees an old state of the leases
// cannot tell. On PostgreSQL it writes the barrier, and answers with the number of this
// transaction too, which is higher than that of any before it, and with something else; elsewhere with 0 and 0.
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

// UpdateLeases changes leases if a condition holds, which has the last of the arguments.
func (s SQL) UpdateLeases(shards []int64, set string, values []any, condition string, more ...any) (query string, args []any) {
	return s.updateNumbered("outbox_lease", "shard", shards, set, values, condition, more...)
}

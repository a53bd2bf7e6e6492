package sqltext

import (
	"fmt"

	"github.com/rehop/rehop/dialect"
)

// orderBuckets is how many rows MySQL has to lock for messages with an order. The migrations know it, too.
const orderBuckets = 1024

// Buckets reads the rows that there are to lock for messages with an order, of which there should be as many as are wanted. An empty
// query: the database needs none.
func Buckets(d dialect.Dialect) (query string, want int) {
	if d != dialect.MySQL {
		return "", 0
	}
	return "SELECT bucket FROM rehop_outbox_order", orderBuckets
}

// InsertBuckets makes rows that are missing.
func InsertBuckets(d dialect.Dialect, missing []int64) (query string, args []any) {
	return "INSERT IGNORE INTO rehop_outbox_order (bucket) SELECT number FROM " + mysqlNumbers + " AS missing", []any{List(d, missing)}
}

// OrderNumber is by which number to serialize transactions with an order key, of which there is a hash: MySQL has few.
func OrderNumber(d dialect.Dialect, hash uint32) uint32 {
	if d == dialect.MySQL {
		return hash % orderBuckets
	}
	return hash
}

// Channel is where PostgreSQL tells relays that listen of new messages.
const Channel = "rehop_outbox"

// orderSpace sets rehop's advisory locks apart from those of others.
const orderSpace = 0x7265686f // "reho"

// Serialize makes all transactions that name the same number wait for each other, from this statement to their end, so that ids
// which they then draw are in the order of their commits. An empty query: they do so anyway. MySQL answers with the number if it has the
// row to lock.
func Serialize(d dialect.Dialect, number uint32) (query string, args []any) {
	switch d {
	case dialect.Postgres:
		return d.Bind("SELECT pg_advisory_xact_lock(?, ?)"), []any{int32(orderSpace), int32(number)}
	case dialect.MySQL: // its named locks do not end with the transaction
		return "SELECT bucket FROM rehop_outbox_order WHERE bucket = ? FOR UPDATE", []any{int64(number)}
	}
	return "", nil // SQLite has one writer at a time
}

// Announce makes an INSERT into the outbox wake the relays that listen, at commit. PostgreSQL lets only one transaction that tells
// something commit at a time, so nothing is told while all relays are busy anyway.
func Announce(d dialect.Dialect, insert string) string {
	if d != dialect.Postgres {
		return insert
	}
	return "WITH added AS (" + insert + ") SELECT pg_notify('" + Channel + "', '') WHERE EXISTS (SELECT 1 FROM rehop_outbox_relay WHERE listening = 1 AND expires > " + d.Now() + ")"
}

// Lane reads rows of the outbox that have a state, of a shard, by due and id, beginning behind a due and an id: its arguments are one
// of the two, and how many rows to read. It uses the index that is made for it, whatever the database believes about the table, which
// is full at one time and empty at another.
func Lane(d dialect.Dialect, columns string, state, shard int, delayed bool, condition string) string {
	if d == dialect.Postgres { // a comparison of rows fits only that index
		index := "state, shard, due, id"
		from, to := fmt.Sprintf("(%d, %d, 0, ?)", state, shard), fmt.Sprintf("(%[1]s) < (%[2]d, %[3]d, 1, 0)", index, state, shard)
		if delayed {
			from, to = fmt.Sprintf("(%d, %d, ?, 0)", state, shard), fmt.Sprintf("(state, shard, due) <= (%d, %d, %s)", state, shard, d.Now())
		}
		return fmt.Sprintf("SELECT %[1]s FROM rehop_outbox WHERE (%[2]s) > %[3]s AND %[4]s%[5]s ORDER BY %[2]s LIMIT ?", columns, index, from, to, condition)
	}
	hint := "FORCE INDEX (rehop_outbox_work)"
	if d == dialect.SQLite {
		hint = "INDEXED BY rehop_outbox_work"
	}
	place := "due = 0 AND id > ?"
	if delayed {
		place = "due >= ? AND due <= " + d.Now()
	}
	return fmt.Sprintf("SELECT %s FROM rehop_outbox %s WHERE state = %d AND shard = %d AND %s%s ORDER BY due, id LIMIT ?", columns, hint, state, shard, place, condition)
}

// Steady is a statement for the beginning of a transaction that works on the outbox. PostgreSQL keeps the plan that it once made for a
// statement, and one for an empty table reads all of it; so there it may not. And it makes five plans for trial before it keeps one,
// each of which takes longer than the statement; so it is to keep the first. By the costs that it expects it would also compile the
// statement to machine code, for half a second each time. Last, a process that was stopped in the middle of a transaction would keep its
// locks, and others could not delete what they have published, until somebody lets it go on: the database ends a transaction with which
// nothing has happened for some seconds. An empty statement: nothing is to be done.
func Steady(d dialect.Dialect) string {
	if d != dialect.Postgres {
		return ""
	}
	return "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true), " +
		"set_config('idle_in_transaction_session_timeout', '5s', true)"
}

// waiting is the condition that a message is delayed, not due, and was never given to the broker.
func waiting(d dialect.Dialect) string { return "state = 2 AND attempts = 0 AND due > " + d.Now() }

// Cancel deletes a delayed message that is not due, by its id.
func Cancel(d dialect.Dialect) string {
	return d.Bind("DELETE FROM rehop_outbox WHERE message_id = ? AND " + waiting(d))
}

// Canceled reads the rows that Cancel would delete on MySQL, where a DELETE by an index locks the places beside the row too, and holds
// up all who publish until the transaction ends. Reading locks nothing, and neither does DeleteCanceled lock more than the rows.
func Canceled(d dialect.Dialect) string {
	return "SELECT id FROM rehop_outbox FORCE INDEX (rehop_outbox_delayed) WHERE message_id = CAST(? AS BINARY) AND " + waiting(d)
}

// DeleteCanceled deletes those of the rows that may be.
func DeleteCanceled(d dialect.Dialect, rows []int64) (query string, args []any) {
	return DeleteRows(d, "rehop_outbox", "id", rows, waiting(d))
}

// Replan and its reverse are statements around one that PostgreSQL must not run by the plan that it has kept, in the transaction of
// somebody else, who gets his setting back. Empty statements: nothing is to be done.
func Replan(d dialect.Dialect) (before, after string) {
	if d != dialect.Postgres {
		return "", ""
	}
	return "SELECT set_config('rehop.plan_cache_mode', current_setting('plan_cache_mode'), true), set_config('plan_cache_mode', 'force_custom_plan', true)",
		"SELECT set_config('plan_cache_mode', current_setting('rehop.plan_cache_mode'), true)"
}

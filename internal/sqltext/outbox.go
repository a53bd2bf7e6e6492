package sqltext

import (
	"fmt"

	"github.com/rehop/rehop/dialect"
)

// orderBuckets is how many rows MySQL has to lock for messages with an order.
const orderBuckets = 1024

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
// which they then draw are in the order of their commits. An empty query: they do so anyway.
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
	return "WITH added AS (" + insert + ") SELECT pg_notify('" + Channel + "', '') WHERE EXISTS (SELECT 1 FROM rehop_outbox_relay WHERE listening = 1)"
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
// each of which takes longer than the statement; so it is to keep the first. An empty statement: nothing is to be done.
func Steady(d dialect.Dialect) string {
	if d != dialect.Postgres {
		return ""
	}
	return "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)"
}

// Cancel deletes a delayed message that is not due, by its id, and touches no others.
func Cancel(d dialect.Dialect) string {
	if d == dialect.MySQL {
		return "DELETE rehop_outbox FROM (SELECT CAST(? AS BINARY) AS wanted) AS chosen STRAIGHT_JOIN rehop_outbox FORCE INDEX (rehop_outbox_delayed) " +
			"ON message_id = wanted WHERE state = 2 AND due > " + d.Now()
	}
	return d.Bind("DELETE FROM rehop_outbox WHERE message_id = ? AND state = 2 AND due > " + d.Now())
}

package sqltext

import (
	"fmt"

	"github.com/rehop/rehop/dialect"
)

// Unheld is the condition that no message with the same order key of a shard is held back. Those that are have a due of their own. It has no
// arguments. A database finds the keys once, and does not look for each row.
func Unheld(d dialect.Dialect, state, shard int) string {
	switch d {
	case dialect.Postgres:
		return fmt.Sprintf(" AND order_key NOT IN (SELECT order_key FROM rehop_outbox WHERE (state, shard, due, id) >= (%[1]d, %[2]d, 1, 0) AND (state, shard) <= (%[1]d, %[2]d))", state, shard)
	case dialect.SQLite:
		return fmt.Sprintf(" AND order_key NOT IN (SELECT order_key FROM rehop_outbox INDEXED BY rehop_outbox_work WHERE state = %d AND shard = %d AND due > 0)", state, shard)
	}
	return fmt.Sprintf(" AND order_key NOT IN (SELECT order_key FROM rehop_outbox FORCE INDEX (rehop_outbox_work) WHERE state = %d AND shard = %d AND due > 0)", state, shard)
}

// LockFree locks those rows by a numeric key that nobody else has locked, and reads their keys. An empty query: the database has no locks
// on rows.
func LockFree(d dialect.Dialect, table, key string, numbers []int64) (query string, args []any) {
	switch d {
	case dialect.Postgres:
		query = fmt.Sprintf("SELECT %s FROM %s WHERE %s FOR UPDATE SKIP LOCKED", key, table, Among(d, key))
	case dialect.MySQL:
		query = fmt.Sprintf("SELECT %[3]s FROM %[1]s AS chosen STRAIGHT_JOIN %[2]s FORCE INDEX (PRIMARY) ON %[3]s = chosen.number FOR UPDATE SKIP LOCKED", mysqlNumbers, table, key)
	default:
		return "", nil
	}
	return d.Bind(query), []any{List(d, numbers)}
}

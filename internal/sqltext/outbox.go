package sqltext

import (
	"fmt"
	"hash/fnv"

	"github.com/rehop/rehop/dialect"
)

// OrderBuckets is the number of locks for the order keys of all transactions. The migrations of MySQL
// use it, too.
const OrderBuckets = 1024

// Buckets reads the rows that lock messages with an order key, of which there should be OrderBuckets. An
// empty query: the database needs none.
func (s SQL) Buckets() (query string) {
	if s.Dialect != dialect.MySQL {
		return ""
	}
	return "SELECT bucket FROM " + s.Table("outbox_order")
}

// InsertBuckets makes rows that are missing.
func (s SQL) InsertBuckets(missing []int64) (query string, args []any) {
	return "INSERT IGNORE INTO " + s.Table("outbox_order") + " (bucket) SELECT number FROM " + mysqlNumbers + " AS missing", []any{s.list(missing)}
}

// orderSpace distinguishes rehop's advisory locks from those of other programs and other rehop tables.
func (s SQL) orderSpace() int32 {
	const reho = 0x7265686f
	if s.Table("outbox") == (SQL{Dialect: s.Dialect}).Table("outbox") {
		return reho
	}
	h := fnv.New32a()
	h.Write([]byte(s.Table("outbox")))
	return int32(h.Sum32() ^ reho)
}

// Serialize makes all transactions with the same bucket wait for each other, from this statement to their
// end, so that the ids that they draw are in the order of their commits. Buckets must be in ascending
// order, to avoid deadlocks. An empty query: transactions wait for each other anyway. MySQL returns the
// buckets that it has locked.
//
// On PostgreSQL the transaction has a number from then on, before it draws an id: when all transactions
// up to a number have ended, a relay knows that no lower id will come.
func (s SQL) Serialize(buckets []int64) (query string, args []any) {
	switch s.Dialect {
	case dialect.Postgres:
		return s.Bind("SELECT pg_advisory_xact_lock(?, bucket), txid_current() FROM unnest(string_to_array(?, ',')::int[]) AS bucket"), []any{s.orderSpace(), s.list(buckets)}
	case dialect.MySQL: // its named locks do not end with the transaction
		return fmt.Sprintf("SELECT line.bucket FROM %s AS chosen STRAIGHT_JOIN %s AS line FORCE INDEX (PRIMARY) WHERE line.bucket = chosen.number FOR UPDATE /*!80001 OF line */", mysqlNumbers, s.Table("outbox_order")),
			[]any{s.list(buckets)}
	}
	return "", nil // SQLite has one writer at a time
}

// Channel is where PostgreSQL notifies relays of new messages.
func (s SQL) Channel() string {
	const limit = 63
	bare := s.Tables.Bare("outbox")
	if s.Tables.Schema != "" && len(s.Tables.Schema)+1+len(bare) <= limit {
		return s.Tables.Schema + "." + bare
	}
	return bare
}

// Announce makes an INSERT into the outbox wake the relays that listen, at commit. PostgreSQL lets only
// one transaction that notifies commit at a time, so nothing is sent while all relays are busy.
func (s SQL) Announce(insert string) string {
	if s.Dialect != dialect.Postgres {
		return insert
	}
	return "WITH added AS (" + insert + ") SELECT pg_notify('" + s.Channel() + "', '') WHERE EXISTS (SELECT 1 FROM " + s.Table("outbox_relay") + " WHERE listening = 1 AND expires > " + s.Now() + ")"
}

// Lane reads rows of the outbox with a state, of a shard, by due and id, after a due and an id. Its
// arguments are one of the two, and how many rows to read. It forces its index, because the statistics
// of a table that is full at one time and empty at another mislead the database.
func (s SQL) Lane(columns string, state, shard int, delayed bool, condition string) string {
	place := "due = 0 AND id > ?"
	switch {
	case s.Dialect == dialect.Postgres && delayed:
		place = "(due, id) > (?, 0) AND due <= " + s.Now()
	case s.Dialect == dialect.Postgres:
		// A comparison of rows fits only that index, and not the one of the primary key. It must not have the first columns in it: then
		// PostgreSQL would not stop at the end of the shard, but read on to the end of the index.
		place = "(due, id) > (0, ?) AND due <= 0"
	case delayed:
		place = "due >= ? AND due <= " + s.Now()
	}
	return fmt.Sprintf("SELECT %s FROM %s WHERE state = %d AND shard = %d AND %s%s ORDER BY due, id LIMIT ?", columns, s.Work(), state, shard, place, condition)
}

// Work is the outbox, read by the index that is made for relays.
func (s SQL) Work() string {
	switch s.Dialect {
	case dialect.MySQL:
		return s.Table("outbox") + " FORCE INDEX (" + s.Tables.Bare("outbox_work") + ")"
	case dialect.SQLite:
		return s.Table("outbox") + " INDEXED BY " + s.Tables.Bare("outbox_work")
	}
	return s.Table("outbox")
}

// Unheld is the condition that no message with the same order key of a shard is held back. Those that are
// have a due of their own. It has no arguments. A database finds the keys once, not for each row.
func (s SQL) Unheld(state, shard int) string {
	return fmt.Sprintf(" AND order_key NOT IN (SELECT order_key FROM %s WHERE state = %d AND shard = %d AND due > 0)", s.Work(), state, shard)
}

// HasHeld is 1 if a message of a shard is held back, and 0 otherwise or where relays do not need it.
func (s SQL) HasHeld(state, shard int) string {
	if s.Dialect != dialect.Postgres {
		return "0"
	}
	return fmt.Sprintf("CASE WHEN EXISTS (SELECT 1 FROM %s WHERE state = %d AND shard = %d AND due > 0) THEN 1 ELSE 0 END", s.Work(), state, shard)
}

// waiting is the condition that a message is delayed, not due, and was never given to the broker.
func (s SQL) waiting() string { return "state = 2 AND attempts = 0 AND due > " + s.Now() }

// Cancel deletes a delayed message that is not due, by its id.
func (s SQL) Cancel() string {
	return s.Bind("DELETE FROM " + s.Table("outbox") + " WHERE message_id = ? AND " + s.waiting())
}

// Canceled reads the rows that Cancel would delete on MySQL, where a DELETE by an index also locks the
// gaps around the row, and blocks all publishers until the transaction ends. Reading locks nothing, and
// DeleteCanceled locks only the rows.
func (s SQL) Canceled() string {
	return "SELECT id, nonce FROM " + s.Table("outbox") + " FORCE INDEX (" + s.Tables.Bare("outbox_delayed") + ") WHERE message_id = CAST(? AS BINARY) AND " + s.waiting()
}

// DeleteCanceled deletes those of the rows that may be.
func (s SQL) DeleteCanceled(rows []Row) (query string, args []any) {
	return s.DeleteRows(rows, s.waiting())
}

// Replan returns statements to run before and after one for which PostgreSQL must not use a cached plan,
// in the transaction of the caller, whose setting is restored. Empty statements: not necessary.
func (s SQL) Replan() (before, after string) {
	if s.Dialect != dialect.Postgres {
		return "", ""
	}
	return "SELECT set_config('rehop.plan_cache_mode', current_setting('plan_cache_mode'), true), set_config('plan_cache_mode', 'force_custom_plan', true)",
		"SELECT set_config('plan_cache_mode', current_setting('rehop.plan_cache_mode'), true)"
}

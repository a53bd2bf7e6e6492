package sqltext

import (
	"fmt"
	"strings"
	"time"

	"github.com/rehop/rehop/dialect"
)

// WriteDown inserts a message into the inbox, or nothing if it is there. Its arguments are the consumer
// and the message's id, and on PostgreSQL a number by which to lock it.
//
// It does not wait for long while another transaction has inserted the same. On PostgreSQL nothing is
// inserted then; others fail: see IsLocked. While they wait, MySQL and MariaDB block inserts of
// neighbouring ids.
//
// On PostgreSQL the transaction's commit returns only when it is on disk, because the message is acked then.
func (s SQL) WriteDown() string {
	if s.Dialect == dialect.Postgres {
		// It reads first, because an INSERT would wait for a transaction that changes the row.
		return fmt.Sprintf("INSERT INTO %[1]s (consumer, message_id, handled) SELECT $1::text, $2::bytea, %[2]s FROM (SELECT pg_try_advisory_xact_lock($3::bigint) AS free, %[3]s OFFSET 0) AS lock "+
			"WHERE lock.free AND NOT EXISTS (SELECT 1 FROM %[1]s WHERE consumer = $1::text AND message_id = $2::bytea) ON CONFLICT DO NOTHING", s.Table("inbox"), s.Now(), synced)
	}
	insert := s.InsertNew("inbox", "consumer, message_id, handled", "?, ?, "+s.Now())
	if s.Dialect == dialect.MySQL {
		return "/*M!100600 SET STATEMENT innodb_lock_wait_timeout=0 FOR */ " + insert // MySQL takes it for a comment
	}
	return insert
}

// IsLocked reports whether a statement failed because it had to wait for another transaction for longer
// than a setting of the connection allows: innodb_lock_wait_timeout, lock_timeout or statement_timeout.
func (s SQL) IsLocked(err error) bool {
	switch text := err.Error(); s.Dialect {
	case dialect.MySQL:
		return strings.Contains(text, "Error 1205")
	case dialect.Postgres:
		return strings.Contains(text, "SQLSTATE 55P03") || strings.Contains(text, "SQLSTATE 57014")
	}
	return false
}

// Known changes the row of a message that was handled before, so that it is on disk when the transaction
// has committed. Its arguments are the consumer and the message's id. It changes none if another
// transaction is handling the message.
func (s SQL) Known() string {
	if s.Dialect == dialect.Postgres { // it does not wait for a process that is stopped with the row locked
		return fmt.Sprintf("UPDATE %[1]s SET handled = handled + 1 WHERE id = (SELECT line.id FROM %[1]s AS line CROSS JOIN (SELECT %[2]s OFFSET 0) AS setting "+
			"WHERE line.consumer = $1 AND line.message_id = $2 FOR NO KEY UPDATE OF line SKIP LOCKED)", s.Table("inbox"), synced)
	}
	return s.Bind("UPDATE " + s.Table("inbox") + " SET handled = handled + 1 WHERE consumer = ? AND message_id = ?")
}

// StillThere changes the row that WriteDown has inserted, whose number is its argument. It changes none if
// the transaction was rolled back meanwhile, by a deadlock on MySQL or an interrupted statement on
// SQLite. An empty statement: the database would not commit then anyway.
func (s SQL) StillThere() string {
	if s.Dialect == dialect.Postgres {
		return ""
	}
	return "UPDATE " + s.Table("inbox") + " SET handled = handled + 1 WHERE id = ?"
}

// Old reads the numbers of some of those rows that are older than a time.
func (s SQL) Old(than time.Duration, some int) string {
	return fmt.Sprintf("SELECT id FROM %s WHERE %s ORDER BY handled LIMIT %d", s.Table("inbox"), s.older(than), some)
}

// DeleteOld deletes rows by their numbers if they are older than a time, and touches no others.
func (s SQL) DeleteOld(numbers []int64, than time.Duration) (query string, args []any) {
	switch s.Dialect {
	case dialect.MySQL:
		query = fmt.Sprintf("DELETE line FROM %s AS chosen STRAIGHT_JOIN %s AS line FORCE INDEX (PRIMARY) ON line.id = chosen.number WHERE %s", mysqlNumbers, s.Table("inbox"), s.older(than))
	case dialect.Postgres:
		query = s.Bind(fmt.Sprintf("DELETE FROM %s WHERE id = ANY(string_to_array(?, ',')::bigint[]) AND %s", s.Table("inbox"), s.older(than)))
	default:
		query = fmt.Sprintf("DELETE FROM %s WHERE id IN (SELECT value FROM json_each(?)) AND %s", s.Table("inbox"), s.older(than))
	}
	return query, []any{s.list(numbers)}
}

func (s SQL) older(than time.Duration) string {
	return fmt.Sprintf("handled < %s - %d", s.Now(), than.Microseconds())
}

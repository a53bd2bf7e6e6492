// Package sqltext writes the SQL of outbox and inbox, as far as it differs between databases.
//
// Queries have ? for each argument; those that methods return whole are ready for the database, pieces have to be bound by
// [dialect.Dialect.Bind] with the query that they are put into.
package sqltext

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rehop/rehop/dialect"
)

// SQL writes statements for the databases of a dialect in which rehop's tables have certain names.
type SQL struct {
	dialect.Dialect
	Tables dialect.Tables
}

// Check reports a dialect or names that there cannot be.
func (s SQL) Check() error {
	if err := s.Dialect.Check(); err != nil {
		return err
	}
	return s.Tables.Check(s.Dialect)
}

// Table is the name of a table of rehop's, such as "outbox", for a statement.
func (s SQL) Table(name string) string { return s.Tables.Name(s.Dialect, name) }

// Later is the greater of two numbers.
func (s SQL) Later(a, b string) string {
	if s.Dialect == dialect.SQLite {
		return "MAX(" + a + ", " + b + ")"
	}
	return "GREATEST(" + a + ", " + b + ")"
}

// First makes a query that ends with a LIMIT a part of a UNION ALL.
func (s SQL) First(query string) string {
	if s.Dialect == dialect.SQLite {
		return "SELECT * FROM (" + query + ")"
	}
	return "(" + query + ")"
}

// InsertNew inserts a row, or nothing if there is one with the same key. MySQL shortens values that are
// too long here, so check them before.
func (s SQL) InsertNew(table, columns, values string) string {
	if s.Dialect == dialect.MySQL {
		return "INSERT IGNORE INTO " + s.Table(table) + " (" + columns + ") VALUES (" + values + ")"
	}
	return "INSERT INTO " + s.Table(table) + " (" + columns + ") VALUES (" + values + ") ON CONFLICT DO NOTHING"
}

// mysqlNumbers is a table of the numbers that are its argument.
const mysqlNumbers = "JSON_TABLE(?, '$[*]' COLUMNS (number BIGINT PATH '$'))"

// list is numbers as one argument, so that a statement has the same text for any number of them and
// drivers can prepare it once.
func (s SQL) list(numbers []int64) string {
	list := make([]byte, 0, 12*len(numbers)+2)
	for i, n := range numbers {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, n, 10)
	}
	if s.Dialect == dialect.Postgres {
		return string(list)
	}
	return "[" + string(list) + "]"
}

// UpdateLeases changes leases if a condition holds, which has the last of the arguments. It touches no
// others: if MySQL can choose, it reads all of a small table, and then waits for every transaction that
// has written there.
func (s SQL) UpdateLeases(shards []int64, set string, values []any, condition string, more ...any) (query string, args []any) {
	table, list := s.Table("outbox_lease"), s.list(shards)
	switch s.Dialect {
	case dialect.MySQL:
		query = fmt.Sprintf("UPDATE %s AS chosen STRAIGHT_JOIN %s FORCE INDEX (PRIMARY) ON shard = chosen.number SET %s WHERE %s", mysqlNumbers, table, set, condition)
		return query, append(append([]any{list}, values...), more...)
	case dialect.Postgres:
		query = fmt.Sprintf("UPDATE %s SET %s WHERE shard = ANY(string_to_array(?, ',')::bigint[]) AND %s", table, set, condition)
	default:
		query = fmt.Sprintf("UPDATE %s SET %s WHERE shard IN (SELECT value FROM json_each(?)) AND %s", table, set, condition)
	}
	return s.Bind(query), append(append(append(args, values...), list), more...)
}

// Retryable reports whether a transaction has failed only because of others at the same time, and can simply be repeated: a deadlock, a
// serialization failure, or a lock that SQLite did not get.
func (s SQL) Retryable(err error) bool {
	if err == nil {
		return false
	}
	var marks []string
	switch s.Dialect {
	case dialect.Postgres:
		var state interface{ SQLState() string } // of pgx and lib/pq
		return errors.As(err, &state) && (state.SQLState() == "40001" || state.SQLState() == "40P01")
	case dialect.MySQL: // its driver's error has no methods to ask
		marks = []string{"Error 1213 (40001)", "Error 1020 (HY000)"}
	case dialect.SQLite:
		marks = []string{"SQLITE_BUSY", "database is locked"}
	}
	return slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(err.Error(), mark) })
}

// Explain adds to an error what the user can do about it, where that is known.
func (s SQL) Explain(err error) error {
	if err == nil || s.Dialect != dialect.Postgres {
		return err
	}
	if strings.Contains(err.Error(), "SQLSTATE 42501") {
		return fmt.Errorf("%w (grant the role what docs/outbox.md lists under Rights)", err)
	}
	for _, mark := range []string{"SQLSTATE 26000", "SQLSTATE 42P05", "SQLSTATE 08P01"} {
		if text := err.Error(); strings.Contains(text, mark) && strings.Contains(text, "prepared statement") {
			return fmt.Errorf("%w (a proxy that shares connections among clients has mixed up prepared statements: "+
				"use pgbouncer 1.21 or later with max_prepared_statements, or add default_query_exec_mode=exec to pgx's connection string)", err)
		}
	}
	return err
}

// Package dialect knows the SQL that differs between PostgreSQL, MySQL and SQLite, and the tables that rehop has in each.
package dialect

import (
	"fmt"
	"strconv"
	"strings"
)

// Dialect is the SQL of a database. Queries of rehop are written once, with ? for each argument; what differs comes from
// the methods, as pieces of SQL. All times in rehop's tables are whole microseconds since 1970 by the database's clock.
type Dialect string

// The dialects.
const (
	Postgres Dialect = "postgres" // PostgreSQL 12 and later
	MySQL    Dialect = "mysql"    // MySQL 8 and MariaDB 10.6, and later
	SQLite   Dialect = "sqlite"   // SQLite 3.35 and later
)

// Check says whether it is one of the dialects.
func (d Dialect) Check() error {
	switch d {
	case Postgres, MySQL, SQLite:
		return nil
	}
	return fmt.Errorf("dialect %q must be dialect.Postgres, dialect.MySQL or dialect.SQLite", string(d))
}

// Bind turns each ? of a query into what the database takes for an argument.
func (d Dialect) Bind(query string) string {
	if d != Postgres {
		return query
	}
	var out strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteByte('$')
		out.WriteString(strconv.Itoa(n))
		query = after
	}
}

// Now is when the statement began. An index can be searched by it.
func (d Dialect) Now() string {
	switch d {
	case Postgres:
		return "(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000)::bigint"
	case MySQL: // UTC, because a local time can be two moments when clocks are set back
		return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
	}
	return "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000"
}

// Later is the greater of two numbers.
func (d Dialect) Later(a, b string) string {
	if d == SQLite {
		return "MAX(" + a + ", " + b + ")"
	}
	return "GREATEST(" + a + ", " + b + ")"
}

// Among is the condition that a column has one of some numbers, which are its argument: see List.
func (d Dialect) Among(column string) string {
	switch d {
	case Postgres:
		return column + " = ANY(string_to_array(?, ',')::bigint[])"
	case SQLite:
		return column + " IN (SELECT value FROM json_each(?))"
	}
	return column + " IN (SELECT number FROM " + mysqlNumbers + " AS among)"
}

// mysqlNumbers is a table of the numbers that are its argument.
const mysqlNumbers = "JSON_TABLE(?, '$[*]' COLUMNS (number BIGINT PATH '$'))"

// List is numbers as an argument for Among, UpdateRows and DeleteRows.
func (d Dialect) List(numbers []int64) string {
	list := make([]byte, 0, 12*len(numbers)+2)
	for i, n := range numbers {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, n, 10)
	}
	if d == Postgres {
		return string(list)
	}
	return "[" + string(list) + "]"
}

// UpdateRows changes rows by a numeric key, if a condition holds. It touches no others: where MySQL has the choice it reads all of a
// small table, and then waits for every transaction that has written there.
func (d Dialect) UpdateRows(table, key string, numbers []int64, set string, values []any, condition string, more ...any) (query string, args []any) {
	list := d.List(numbers)
	if d == MySQL {
		query = fmt.Sprintf("UPDATE %s AS chosen STRAIGHT_JOIN %s FORCE INDEX (PRIMARY) ON %s = chosen.number SET %s WHERE %s", mysqlNumbers, table, key, set, condition)
		args = append([]any{list}, values...)
	} else {
		query = fmt.Sprintf("UPDATE %s SET %s WHERE %s AND %s", table, set, d.Among(key), condition)
		args = append(append(args, values...), list)
	}
	return d.Bind(query), append(args, more...)
}

// DeleteRows deletes rows by a numeric key, if a condition holds, and touches no others.
func (d Dialect) DeleteRows(table, key string, numbers []int64, condition string) (query string, args []any) {
	query = fmt.Sprintf("DELETE FROM %s WHERE %s AND %s", table, d.Among(key), condition)
	if d == MySQL {
		query = fmt.Sprintf("DELETE %[2]s FROM %[1]s AS chosen STRAIGHT_JOIN %[2]s FORCE INDEX (PRIMARY) ON %[3]s = chosen.number WHERE %[4]s", mysqlNumbers, table, key, condition)
	}
	return d.Bind(query), []any{d.List(numbers)}
}

// First makes a query that ends with a LIMIT a part of a UNION ALL.
func (d Dialect) First(query string) string {
	if d == SQLite {
		return "SELECT * FROM (" + query + ")"
	}
	return "(" + query + ")"
}

// InsertNew inserts a row, or nothing if there is one with the same key. MySQL then shortens values that are too long, so check
// them before.
func (d Dialect) InsertNew(table, columns, values string) string {
	if d == MySQL {
		return "INSERT IGNORE INTO " + table + " (" + columns + ") VALUES (" + values + ")"
	}
	return "INSERT INTO " + table + " (" + columns + ") VALUES (" + values + ") ON CONFLICT DO NOTHING"
}

// Package sqltext writes the SQL of outbox and inbox, as far as it differs between databases.
//
// Queries have ? for each argument; those that functions return whole are ready for the database, pieces have to be bound by
// [dialect.Dialect.Bind] with the query that they are put into.
package sqltext

import (
	"fmt"
	"strconv"

	"github.com/rehop/rehop/dialect"
)

// Later is the greater of two numbers.
func Later(d dialect.Dialect, a, b string) string {
	if d == dialect.SQLite {
		return "MAX(" + a + ", " + b + ")"
	}
	return "GREATEST(" + a + ", " + b + ")"
}

// Among is the condition that a column has one of some numbers, which are its argument: see List.
func Among(d dialect.Dialect, column string) string {
	switch d {
	case dialect.Postgres:
		return column + " = ANY(string_to_array(?, ',')::bigint[])"
	case dialect.SQLite:
		return column + " IN (SELECT value FROM json_each(?))"
	}
	return column + " IN (SELECT number FROM " + mysqlNumbers + " AS among)"
}

// mysqlNumbers is a table of the numbers that are its argument.
const mysqlNumbers = "JSON_TABLE(?, '$[*]' COLUMNS (number BIGINT PATH '$'))"

// List is numbers as an argument for Among, UpdateRows and DeleteRows.
func List(d dialect.Dialect, numbers []int64) string {
	list := make([]byte, 0, 12*len(numbers)+2)
	for i, n := range numbers {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, n, 10)
	}
	if d == dialect.Postgres {
		return string(list)
	}
	return "[" + string(list) + "]"
}

// UpdateRows changes rows by a numeric key, if a condition holds. It touches no others: where MySQL has the choice it reads all of a
// small table, and then waits for every transaction that has written there.
func UpdateRows(d dialect.Dialect, table, key string, numbers []int64, set string, values []any, condition string, more ...any) (query string, args []any) {
	list := List(d, numbers)
	if d == dialect.MySQL {
		query = fmt.Sprintf("UPDATE %s AS chosen STRAIGHT_JOIN %s FORCE INDEX (PRIMARY) ON %s = chosen.number SET %s WHERE %s", mysqlNumbers, table, key, set, condition)
		args = append([]any{list}, values...)
	} else {
		query = fmt.Sprintf("UPDATE %s SET %s WHERE %s AND %s", table, set, Among(d, key), condition)
		args = append(append(args, values...), list)
	}
	return d.Bind(query), append(args, more...)
}

// DeleteRows deletes rows by a numeric key, if a condition holds, and touches no others.
func DeleteRows(d dialect.Dialect, table, key string, numbers []int64, condition string) (query string, args []any) {
	query = fmt.Sprintf("DELETE FROM %s WHERE %s AND %s", table, Among(d, key), condition)
	if d == dialect.MySQL {
		query = fmt.Sprintf("DELETE %[2]s FROM %[1]s AS chosen STRAIGHT_JOIN %[2]s FORCE INDEX (PRIMARY) ON %[3]s = chosen.number WHERE %[4]s", mysqlNumbers, table, key, condition)
	}
	return d.Bind(query), []any{List(d, numbers)}
}

// First makes a query that ends with a LIMIT a part of a UNION ALL.
func First(d dialect.Dialect, query string) string {
	if d == dialect.SQLite {
		return "SELECT * FROM (" + query + ")"
	}
	return "(" + query + ")"
}

// InsertNew inserts a row, or nothing if there is one with the same key. MySQL then shortens values that are too long, so check
// them before.
func InsertNew(d dialect.Dialect, table, columns, values string) string {
	if d == dialect.MySQL {
		return "INSERT IGNORE INTO " + table + " (" + columns + ") VALUES (" + values + ")"
	}
	return "INSERT INTO " + table + " (" + columns + ") VALUES (" + values + ") ON CONFLICT DO NOTHING"
}

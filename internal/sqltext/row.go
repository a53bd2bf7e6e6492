package sqltext

import (
	"fmt"
	"strconv"

	"github.com/rehop/rehop/dialect"
)

// Row identifies a row of the outbox. The number alone is not enough: after a failover to a replica that
// was behind, or a restore, another message may have it. The nonce is random.
type Row struct{ Number, Nonce int64 }

// mysqlRows is a table of the rows that are its argument.
const mysqlRows = "JSON_TABLE(?, '$[*]' COLUMNS (number BIGINT PATH '$[0]', nonce BIGINT PATH '$[1]')) AS chosen"

// chosen is a table of rows with the columns number and nonce, and its arguments.
func (s SQL) chosen(rows []Row) (table string, args []any) {
	switch s.Dialect {
	case dialect.Postgres:
		numbers, nonces := make([]int64, len(rows)), make([]int64, len(rows))
		for i, r := range rows {
			numbers[i], nonces[i] = r.Number, r.Nonce
		}
		return "unnest(string_to_array(?, ',')::bigint[], string_to_array(?, ',')::bigint[]) AS chosen (number, nonce)", []any{s.list(numbers), s.list(nonces)}
	case dialect.MySQL:
		return mysqlRows, []any{pairs(rows)}
	}
	return "(SELECT json_extract(value, '$[0]') AS number, json_extract(value, '$[1]') AS nonce FROM json_each(?)) AS chosen", []any{pairs(rows)}
}

// pairs is rows as JSON.
func pairs(rows []Row) string {
	list := append(make([]byte, 0, 40*len(rows)+2), '[')
	for i, r := range rows {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, '[')
		list = strconv.AppendInt(list, r.Number, 10)
		list = append(list, ',')
		list = strconv.AppendInt(list, r.Nonce, 10)
		list = append(list, ']')
	}
	return string(append(list, ']'))
}

// is is the condition by which the outbox is joined with the chosen rows.
const is = "line.id = chosen.number AND line.nonce = chosen.nonce"

// line is the outbox among the tables of a statement.
func (s SQL) line() string {
	if s.Dialect == dialect.MySQL {
		return s.Table("outbox") + " AS line FORCE INDEX (PRIMARY)"
	}
	return s.Table("outbox") + " AS line"
}

// SelectRows reads some columns of rows, which are to be named with line. before them.
func (s SQL) SelectRows(columns string, rows []Row) (query string, args []any) {
	chosen, args := s.chosen(rows)
	join := "CROSS JOIN" // which SQLite takes for the order in which to read
	if s.Dialect == dialect.MySQL {
		join = "STRAIGHT_JOIN"
	}
	return s.Bind(fmt.Sprintf("SELECT %s FROM %s %s %s WHERE %s", columns, chosen, join, s.line(), is)), args
}

// LockFree locks those rows that no other transaction has locked, and reads their number and nonce. An
// empty query: the database has no row locks.
func (s SQL) LockFree(rows []Row) (query string, args []any) {
	switch s.Dialect {
	case dialect.Postgres:
		query, args = s.SelectRows("line.id, line.nonce", rows)
		return query + " FOR UPDATE OF line SKIP LOCKED", args
	case dialect.MySQL: // MariaDB does not know OF, and takes it for a comment; MySQL does not accept the statement without
		query, args = s.SelectRows("line.id, line.nonce", rows)
		return query + " FOR UPDATE /*!80001 OF line */ SKIP LOCKED", args
	}
	return "", nil
}

// HasRowLocks reports whether transactions can lock single rows.
func (s SQL) HasRowLocks() bool { return s.Dialect != dialect.SQLite }

// UpdateRows changes rows of the outbox if a condition holds, and touches no others.
func (s SQL) UpdateRows(rows []Row, set string, values []any, condition string) (query string, args []any) {
	chosen, list := s.chosen(rows)
	switch s.Dialect {
	case dialect.MySQL:
		query = fmt.Sprintf("UPDATE %s STRAIGHT_JOIN %s ON %s SET %s WHERE %s", chosen, s.line(), is, set, condition)
		return query, append(list, values...)
	case dialect.Postgres:
		query = fmt.Sprintf("UPDATE %s SET %s FROM %s WHERE %s AND %s", s.line(), set, chosen, is, condition)
	default:
		query = fmt.Sprintf("UPDATE %s SET %s WHERE (id, nonce) IN (SELECT number, nonce FROM %s) AND %s", s.Table("outbox"), set, chosen, condition)
	}
	return s.Bind(query), append(append(args, values...), list...)
}

// DeleteRows deletes rows of the outbox if a condition holds, and touches no others.
func (s SQL) DeleteRows(rows []Row, condition string) (query string, args []any) {
	chosen, args := s.chosen(rows)
	switch s.Dialect {
	case dialect.MySQL:
		query = fmt.Sprintf("DELETE line FROM %s STRAIGHT_JOIN %s ON %s WHERE %s", chosen, s.line(), is, condition)
	case dialect.Postgres:
		query = fmt.Sprintf("DELETE FROM %s USING %s WHERE %s AND %s", s.line(), chosen, is, condition)
	default:
		query = fmt.Sprintf("DELETE FROM %s WHERE (id, nonce) IN (SELECT number, nonce FROM %s) AND %s", s.Table("outbox"), chosen, condition)
	}
	return s.Bind(query), args
}

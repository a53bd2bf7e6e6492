// Package dialect describes the databases that outbox, inbox and triage work with: their SQL, rehop's tables in each, and their migrations.
package dialect

import (
	"fmt"
	"strconv"
	"strings"
)

// Dialect is a kind of database. There is no default: choose the one that your *sql.DB is connected to. All times in rehop's tables are
// microseconds since 1970, by the database's clock.
type Dialect string

// The dialects.
const (
	Postgres Dialect = "postgres" // PostgreSQL 12 and later
	MySQL    Dialect = "mysql"    // MySQL 8 and MariaDB 10.6, and later
	SQLite   Dialect = "sqlite"   // SQLite 3.35 and later
)

// Check returns an error if d is not one of the dialects.
func (d Dialect) Check() error {
	switch d {
	case Postgres, MySQL, SQLite:
		return nil
	}
	return fmt.Errorf("dialect %q must be dialect.Postgres, dialect.MySQL or dialect.SQLite", string(d))
}

// Bind replaces each ? of a query with the database's own placeholder for an argument.
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

// Now is an SQL expression for the time at which the statement began. A comparison with it can use an index.
func (d Dialect) Now() string {
	switch d {
	case Postgres:
		return "(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000)::bigint"
	case MySQL: // UTC, because a local time can be two moments when clocks are set back
		return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
	}
	return "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000"
}

package sqltext

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop/dialect"
)

// Each argument is where the statement has its question mark, and each statement names rows by number and nonce.
func TestRows(t *testing.T) {
	rows := []Row{{3, 30}, {14, 140}}
	for d, want := range map[dialect.Dialect][]any{
		dialect.Postgres: {"a", "b", "3,14", "30,140"}, dialect.MySQL: {"[[3,30],[14,140]]", "a", "b"}, dialect.SQLite: {"a", "b", "[[3,30],[14,140]]"},
	} {
		s := SQL{Dialect: d}
		update, args := s.UpdateRows(rows, "a = ?, b = ?", []any{"a", "b"}, "TRUE")
		if !slices.Equal(args, want) {
			t.Errorf("%s: arguments of %s: got %v, want %v", d, update, args, want)
		}
		remove, _ := s.DeleteRows(rows, "TRUE")
		read, _ := s.SelectRows("line.id", rows)
		lock, _ := s.LockFree(rows)
		for _, statement := range []string{update, remove, read, lock} {
			if statement != "" && !strings.Contains(statement, "nonce = chosen.nonce") && !strings.Contains(statement, "(id, nonce) IN") {
				t.Errorf("%s: %s does not name rows by their nonce", d, statement)
			}
		}
	}
}

func TestExplain(t *testing.T) {
	lost := &plainError{`prepared statement "stmtcache_1" does not exist (SQLSTATE 26000)`}
	if got := (SQL{Dialect: dialect.Postgres}).Explain(lost); !strings.Contains(got.Error(), "max_prepared_statements") {
		t.Errorf("a lost prepared statement: got %v, want what to do", got)
	}
	other := &plainError{"unsupported startup parameter (SQLSTATE 08P01)"}
	if got := (SQL{Dialect: dialect.Postgres}).Explain(other); got != error(other) {
		t.Errorf("another error: got %v, want it unchanged", got)
	}
}

func TestRetryable(t *testing.T) {
	for err, d := range map[error]dialect.Dialect{
		stateError("40P01"): dialect.Postgres, fmt.Errorf("wrapped: %w", stateError("40001")): dialect.Postgres,
		&plainError{"Error 1213 (40001): Deadlock found when trying to get lock; try restarting transaction"}: dialect.MySQL,
		&plainError{"database is locked (5) (SQLITE_BUSY)"}:                                                   dialect.SQLite,
	} {
		if !(SQL{Dialect: d}).Retryable(err) {
			t.Errorf("%s: %v: got not retryable", d, err)
		}
		for _, other := range []error{nil, &plainError{"Error 1062 (23000): Duplicate entry"}, stateError("23505"), &plainError{"403: Error 1020: Access denied"}, &plainError{"Error 12130: no such customer"}} {
			if (SQL{Dialect: d}).Retryable(other) {
				t.Errorf("%s: %v: got retryable", d, other)
			}
		}
	}
}

// stateError is an error as drivers for PostgreSQL have it.
type stateError string

func (e stateError) Error() string    { return "database error" }
func (e stateError) SQLState() string { return string(e) }

type plainError struct{ text string }

func (e *plainError) Error() string { return e.text }

package outbox

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
)

// mute is a transaction that can run statements but no queries.
type mute struct{ told []string }

func (m *mute) ExecContext(_ context.Context, query string, _ ...any) (sql.Result, error) {
	m.told = append(m.told, query)
	return nil, errors.ErrUnsupported
}

// On MySQL some things cannot be done by statements alone.
func TestMySQLAsks(t *testing.T) {
	box := New(dialect.MySQL)
	tx := &mute{}
	_, cancelErr := box.Cancel(t.Context(), tx, "1")
	for doing, err := range map[string]error{
		"publish with an order": box.Publish(t.Context(), tx, rehop.Message{Key: "q", OrderKey: "k"}),
		"cancel":                cancelErr,
	} {
		if !errors.Is(err, rehop.ErrInvalid) || !strings.Contains(err.Error(), "QueryContext") {
			t.Errorf("%s: got %v, want ErrInvalid about QueryContext", doing, err)
		}
	}
	if len(tx.told) > 0 {
		t.Errorf("done in the transaction: got %q, want nothing", tx.told)
	}
}

type (
	inner struct{ *sql.Tx }
	outer struct{ *inner }
)

// A type whose embedded transaction is missing is nobody's business but its own.
func TestUnwrapNothing(t *testing.T) {
	for _, tx := range []Tx{outer{}, &outer{}, (*outer)(nil), &mute{}} {
		if got := unwrap(tx); got != tx {
			t.Errorf("%#v: got %#v, want the same", tx, got)
		}
	}
	if tx := new(sql.Tx); unwrap(outer{&inner{tx}}) != Tx(tx) {
		t.Error("a transaction that is embedded twice was not found")
	}
}

// Outside of a handler, inbox.Tx and inbox.From return nil.
func TestNoTransactionGiven(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Postgres, dialect.MySQL, dialect.SQLite} {
		box := New(d)
		for _, tx := range []Tx{nil, (*sql.Tx)(nil), (*sql.DB)(nil), (*outer)(nil)} {
			if err := box.Publish(t.Context(), tx, rehop.Message{Key: "q", OrderKey: "k"}); !errors.Is(err, ErrNoTransaction) {
				t.Errorf("%s: publish by a %T: got %v, want ErrNoTransaction", d, tx, err)
			}
			if _, err := box.Cancel(t.Context(), tx, "1"); !errors.Is(err, ErrNoTransaction) {
				t.Errorf("%s: cancel by a %T: got %v, want ErrNoTransaction", d, tx, err)
			}
		}
	}
	if err := (Box{}).Publish(t.Context(), new(sql.Tx)); !errors.Is(err, rehop.ErrInvalid) {
		t.Errorf("no dialect: got %v, want ErrInvalid", err)
	}
}

// Names that cannot be those of tables reach no database; here there is none.
func TestInspectorChecksNames(t *testing.T) {
	inspector := Inspector{Dialect: dialect.Postgres, Tables: dialect.Tables{Prefix: "x; DROP TABLE "}}
	_, listErr := inspector.List(t.Context(), StateReady, RowID{}, 10)
	_, backlogErr := inspector.Backlog(t.Context())
	_, retryErr := inspector.Retry(t.Context(), RowID{1, 1})
	_, discardErr := inspector.Discard(t.Context(), RowID{1, 1})
	for doing, err := range map[string]error{"list": listErr, "backlog": backlogErr, "retry": retryErr, "discard": discardErr} {
		if err == nil || !strings.Contains(err.Error(), "DROP TABLE") {
			t.Errorf("%s: got %v, want an error that names the prefix", doing, err)
		}
	}
}

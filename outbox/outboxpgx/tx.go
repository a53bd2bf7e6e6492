package outboxpgx

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/outbox"
)

// Tx makes a transaction for an outbox of one of pgx.
func Tx(tx pgx.Tx) outbox.Tx { return execer{tx} }

type execer struct{ tx pgx.Tx }

// InTransaction is for outbox.Box.Publish, which need not ask the database then.
func (e execer) InTransaction() {}

func (e execer) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := e.tx.Exec(ctx, query, args...)
	return driver.RowsAffected(tag.RowsAffected()), err
}

// Beginner is a *pgxpool.Pool or a *pgx.Conn.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Begin is for the field of that name of an inbox.Inbox: handlers find their transaction with From.
func Begin(pool Beginner) func(ctx context.Context) (inbox.Transaction, error) {
	return func(ctx context.Context) (inbox.Transaction, error) {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return nil, err
		}
		return &transaction{execer{tx}}, nil
	}
}

type transaction struct{ execer }

// endLimit bounds the end of a transaction, which must come also when the handler's time is up.
const endLimit = 30 * time.Second

func (t *transaction) Commit() error {
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	return t.tx.Commit(ctx)
}

func (t *transaction) Rollback() error {
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	return t.tx.Rollback(ctx)
}

// From is the transaction that a handler runs in, or nil outside of a handler of an inbox with Begin.
func From(ctx context.Context) pgx.Tx {
	if t, ok := inbox.From(ctx).(*transaction); ok {
		return t.tx
	}
	return nil
}

// DB is a pool of pgx as a *sql.DB, for the migrations, relays and inboxes. Closing it leaves the pool open.
func DB(pool *pgxpool.Pool) *sql.DB { return stdlib.OpenDBFromPool(pool) }

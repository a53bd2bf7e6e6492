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

// Tx returns a pgx.Tx as a transaction for outbox.Box.
func Tx(tx pgx.Tx) outbox.Tx { return execer{tx} }

type execer struct{ tx pgx.Tx }

// InTransaction marks a transaction, so that outbox.Box.Publish does not have to ask the database.
func (e execer) InTransaction() {}

func (e execer) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := e.tx.Exec(ctx, query, args...)
	return driver.RowsAffected(tag.RowsAffected()), err
}

// Beginner is a *pgxpool.Pool or a *pgx.Conn.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Begin returns a function for inbox.Inbox.Begin, with which handlers run in a transaction of pgx. They get it with From.
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

// endLimit bounds a commit or rollback, which must happen even if the handler's time is up.
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

// From returns the transaction that a handler runs in, or nil if ctx is not the context of a handler of an inbox with Begin.
func From(ctx context.Context) pgx.Tx {
	if t, ok := inbox.From(ctx).(*transaction); ok {
		return t.tx
	}
	return nil
}

// DB returns a pool of pgx as a *sql.DB, for migrations, relays and inboxes. Closing it leaves the pool open.
func DB(pool *pgxpool.Pool) *sql.DB { return stdlib.OpenDBFromPool(pool) }

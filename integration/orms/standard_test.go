package orms

import (
	"context"
	"database/sql"
	"testing"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/outbox"
)

func standardLibrary() []library {
	itself := func(db executor) outbox.Tx { return db }
	wrapped := func(db executor) outbox.Tx { return wrapper{db} }
	return []library{
		{name: "sql", open: openStandard(itself)},
		{name: "sql in a type of the program", open: openStandard(wrapped)},
	}
}

// executor is a *sql.Tx, *sql.DB or *sql.Conn.
type executor interface {
	outbox.Tx
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// wrapper is a type that Publish cannot know.
type wrapper struct{ inner executor }

func (w wrapper) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return w.inner.ExecContext(ctx, query, args...)
}

func (w wrapper) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return w.inner.QueryContext(ctx, query, args...)
}

func openStandard(as func(executor) outbox.Tx) func(testing.TB, database, *sql.DB) *shop {
	return func(_ testing.TB, d database, db *sql.DB) *shop {
		return &shop{
			db: db,
			transact: func(ctx context.Context, do work) error {
				return transact(ctx, db, func(tx *sql.Tx) error { return do(as(tx), storeIn(tx, d.speaks)) })
			},
			outside: map[string]func(ctx context.Context) (outbox.Tx, func() error, error){
				"DB": func(context.Context) (outbox.Tx, func() error, error) { return as(db), noop, nil },
				"Conn": func(ctx context.Context) (outbox.Tx, func() error, error) {
					conn, err := db.Conn(ctx)
					if err != nil {
						return nil, nil, err
					}
					return as(conn), conn.Close, nil
				},
			},
			adopt: func(ctx context.Context, do work) error {
				tx := inbox.Tx(ctx)
				return do(as(tx), storeIn(tx, d.speaks))
			},
		}
	}
}

func noop() error { return nil }

// transact does something in a transaction, which ends as that does.
func transact(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing if it is committed
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func storeIn(tx outbox.Tx, speaks dialect.Dialect) storing {
	return func(ctx context.Context, name string) error {
		_, err := tx.ExecContext(ctx, speaks.Bind("INSERT INTO orders (name) VALUES (?)"), name)
		return err
	}
}

package orms

import (
	"context"
	"database/sql"
	"testing"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/outbox"
)

func bunLibrary() []library {
	return []library{
		{name: "bun", open: openBun},
		{name: "bun Begin", open: openBunBegin},
	}
}

func openBun(_ testing.TB, d database, pool *sql.DB) *shop {
	db := newBun(d.speaks, pool)
	in := func(tx bun.Tx, do work) error { return do(tx, storeByBun(tx)) }
	return &shop{
		db: pool,
		transact: func(ctx context.Context, do work) error {
			return db.RunInTx(ctx, nil, func(_ context.Context, tx bun.Tx) error { return in(tx, do) })
		},
		nest: func(ctx context.Context, outer, inner work) error {
			return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				if err := in(tx, outer); err != nil {
					return err
				}
				return ignoreUndo(tx.RunInTx(ctx, nil, func(_ context.Context, tx bun.Tx) error { return in(tx, inner) }))
			})
		},
		outside: map[string]func(ctx context.Context) (outbox.Tx, func() error, error){
			"DB": func(context.Context) (outbox.Tx, func() error, error) { return db, noop, nil },
			"Conn": func(ctx context.Context) (outbox.Tx, func() error, error) {
				conn, err := db.Conn(ctx)
				if err != nil {
					return nil, nil, err
				}
				return conn, conn.Close, nil
			},
		},
		adopt: func(ctx context.Context, do work) error {
			tx := inbox.Tx(ctx)
			return do(tx, func(ctx context.Context, name string) error {
				_, err := db.NewInsert().Model(&order{Name: name}).Conn(tx).Exec(ctx)
				return err
			})
		},
	}
}

// bunTx is a bun.Tx for an inbox, whose statements bun must not rewrite.
type bunTx struct {
	*sql.Tx
	Bun bun.Tx
}

// beginBun is for the field Begin of an inbox.
func beginBun(db *bun.DB) func(ctx context.Context) (inbox.Transaction, error) {
	return func(ctx context.Context) (inbox.Transaction, error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		return bunTx{Tx: tx.Tx, Bun: tx}, nil
	}
}

func openBunBegin(t testing.TB, d database, pool *sql.DB) *shop {
	s := openBun(t, d, pool)
	s.begin = beginBun(newBun(d.speaks, pool))
	s.adopt = func(ctx context.Context, do work) error {
		tx := inbox.From(ctx).(bunTx).Bun
		return do(tx, storeByBun(tx))
	}
	return s
}

func newBun(speaks dialect.Dialect, pool *sql.DB) *bun.DB {
	if speaks == dialect.Postgres {
		return bun.NewDB(pool, pgdialect.New())
	}
	return bun.NewDB(pool, mysqldialect.New())
}

func storeByBun(tx bun.IDB) storing {
	return func(ctx context.Context, name string) error {
		_, err := tx.NewInsert().Model(&order{Name: name}).Exec(ctx)
		return err
	}
}

package orms

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rehop/rehop/dialect"
	pgxcode "github.com/rehop/rehop/integration/orms/sqlcode/pgx"
	"github.com/rehop/rehop/outbox"
	"github.com/rehop/rehop/outbox/outboxpgx"
)

func pgxLibrary() []library {
	byHand := func(_ *pgxpool.Pool, tx pgx.Tx) storing {
		return func(ctx context.Context, name string) error {
			_, err := tx.Exec(ctx, "INSERT INTO orders (name) VALUES ($1)", name)
			return err
		}
	}
	bySqlc := func(pool *pgxpool.Pool, tx pgx.Tx) storing { return pgxcode.New(pool).WithTx(tx).CreateOrder }
	return []library{
		{name: "pgx", only: dialect.Postgres, open: openPgx(byHand)},
		{name: "sqlc pgx", only: dialect.Postgres, open: openPgx(bySqlc)},
	}
}

func openPgx(store func(*pgxpool.Pool, pgx.Tx) storing) func(testing.TB, database, *sql.DB) *shop {
	return func(t testing.TB, d database, _ *sql.DB) *shop {
		t.Helper()
		pool, err := pgxpool.New(t.Context(), d.Source)
		if err != nil {
			t.Fatalf("open pool: %v", err)
		}
		t.Cleanup(pool.Close)
		db := outboxpgx.DB(pool)
		t.Cleanup(func() { _ = db.Close() })
		in := func(tx pgx.Tx, do work) error { return do(outboxpgx.Tx(tx), store(pool, tx)) }
		return &shop{
			db: db,
			transact: func(ctx context.Context, do work) error {
				return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return in(tx, do) })
			},
			nest: func(ctx context.Context, outer, inner work) error {
				return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					if err := in(tx, outer); err != nil {
						return err
					}
					return ignoreUndo(pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return in(tx, inner) }))
				})
			},
			outside: map[string]func(ctx context.Context) (outbox.Tx, func() error, error){
				// A pool is no pgx.Tx, so that outboxpgx.Tx does not take it.
				"DB": func(context.Context) (outbox.Tx, func() error, error) { return db, noop, nil },
				"Conn": func(ctx context.Context) (outbox.Tx, func() error, error) {
					conn, err := db.Conn(ctx)
					if err != nil {
						return nil, nil, err
					}
					return conn, conn.Close, nil
				},
			},
			begin: outboxpgx.Begin(pool),
			adopt: func(ctx context.Context, do work) error { return in(outboxpgx.From(ctx), do) },
		}
	}
}

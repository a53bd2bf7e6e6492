package orms

import (
	"context"
	"database/sql"
	"testing"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/integration/orms/sqlcode/mysql"
	"github.com/rehop/rehop/integration/orms/sqlcode/postgres"
	"github.com/rehop/rehop/outbox"
)

func sqlcLibrary() []library { return []library{{name: "sqlc", open: openSqlc}} }

func openSqlc(_ testing.TB, d database, db *sql.DB) *shop {
	return &shop{
		db: db,
		transact: func(ctx context.Context, do work) error {
			return transact(ctx, db, func(tx *sql.Tx) error { return do(tx, storeBySqlc(d.speaks, db, tx)) })
		},
		outside: map[string]func(ctx context.Context) (outbox.Tx, func() error, error){
			"DBTX": func(context.Context) (outbox.Tx, func() error, error) {
				var pool postgres.DBTX = db
				return pool, noop, nil
			},
		},
		adopt: func(ctx context.Context, do work) error {
			tx := inbox.Tx(ctx)
			if d.speaks == dialect.Postgres {
				return do(tx, postgres.New(tx).CreateOrder)
			}
			return do(tx, mysql.New(tx).CreateOrder)
		},
	}
}

func storeBySqlc(speaks dialect.Dialect, db *sql.DB, tx *sql.Tx) storing {
	if speaks == dialect.Postgres {
		return postgres.New(db).WithTx(tx).CreateOrder
	}
	return mysql.New(db).WithTx(tx).CreateOrder
}

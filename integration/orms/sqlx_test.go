package orms

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/outbox"
)

func sqlxLibrary() []library {
	return []library{
		{name: "sqlx", open: openSqlx},
		{name: "sqlx Begin", open: openSqlxBegin},
	}
}

func openSqlx(_ testing.TB, d database, pool *sql.DB) *shop {
	db := sqlx.NewDb(pool, d.Driver)
	return &shop{
		db: pool,
		transact: func(ctx context.Context, do work) error {
			tx, err := db.BeginTxx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := do(tx, storeBySqlx(tx)); err != nil {
				return err
			}
			return tx.Commit()
		},
		outside: map[string]func(ctx context.Context) (outbox.Tx, func() error, error){
			"DB": func(context.Context) (outbox.Tx, func() error, error) { return db, noop, nil },
			"Conn": func(ctx context.Context) (outbox.Tx, func() error, error) {
				conn, err := db.Connx(ctx)
				if err != nil {
					return nil, nil, err
				}
				return conn, conn.Close, nil
			},
		},
		adopt: func(ctx context.Context, do work) error {
			tx := &sqlx.Tx{Tx: inbox.Tx(ctx), Mapper: db.Mapper}
			return do(tx, func(ctx context.Context, name string) error {
				// tx does not know its driver, and would write ? for each argument, also for PostgreSQL.
				query, args, err := db.BindNamed("INSERT INTO orders (name) VALUES (:name)", order{Name: name})
				if err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, query, args...); err != nil {
					return err
				}
				var stored order
				return tx.GetContext(ctx, &stored, d.speaks.Bind("SELECT id, name FROM orders WHERE name = ?"), name)
			})
		},
	}
}

// beginSqlx is for the field Begin of an inbox.
func beginSqlx(db *sqlx.DB) func(ctx context.Context) (inbox.Transaction, error) {
	return func(ctx context.Context) (inbox.Transaction, error) {
		tx, err := db.BeginTxx(ctx, nil)
		if err != nil {
			return nil, err
		}
		return tx, nil
	}
}

func openSqlxBegin(t testing.TB, d database, pool *sql.DB) *shop {
	s := openSqlx(t, d, pool)
	s.begin = beginSqlx(sqlx.NewDb(pool, d.Driver))
	s.adopt = func(ctx context.Context, do work) error {
		tx := inbox.From(ctx).(*sqlx.Tx)
		return do(tx, storeBySqlx(tx))
	}
	return s
}

func storeBySqlx(tx *sqlx.Tx) storing {
	return func(ctx context.Context, name string) error {
		_, err := tx.NamedExecContext(ctx, "INSERT INTO orders (name) VALUES (:name)", order{Name: name})
		return err
	}
}

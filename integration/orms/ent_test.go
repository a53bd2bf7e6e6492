package orms

import (
	"context"
	"database/sql"
	"testing"

	entdialect "entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"entgo.io/ent/dialect/sql/sqlgraph"
	"entgo.io/ent/schema/field"

	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/outbox"
)

func entLibrary() []library {
	return []library{
		{name: "ent", open: openEnt(entAdapter)},
		{name: "ent driver", open: openEnt(entDriverTx)},
		{name: "ent execquery", open: openEnt(entExecQuery)},
		{name: "ent execquery debug", open: openEnt(entDebug)},
	}
}

// entTx has ent use a transaction that exists: ent.NewClient(ent.Driver(entTx{...})). ent begins a transaction for what takes several
// statements. Here that is the one that exists.
type entTx struct {
	entsql.Conn
	dialect string
}

func (d entTx) Tx(context.Context) (entdialect.Tx, error) { return entdialect.NopTx(d), nil }
func (d entTx) Dialect() string                           { return d.dialect }
func (entTx) Close() error                                { return nil }

func newEntTx(dialect string, tx *sql.Tx) entTx {
	return entTx{Conn: entsql.Conn{ExecQuerier: tx}, dialect: dialect}
}

// entAdapter begins transactions by database/sql.
func entAdapter(ctx context.Context, drv *entsql.Driver, do work) error {
	return transact(ctx, drv.DB(), func(tx *sql.Tx) error { return do(tx, storeByEnt(newEntTx(drv.Dialect(), tx))) })
}

// entDriverTx begins transactions of ent's driver.
func entDriverTx(ctx context.Context, drv *entsql.Driver, do work) error {
	tx, err := drv.Tx(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := do(tx.(*entsql.Tx), storeByEnt(&txDriver{drv: drv, tx: tx})); err != nil {
		return err
	}
	return tx.Commit()
}

// entExecQuery begins transactions of a generated client.
func entExecQuery(ctx context.Context, drv *entsql.Driver, do work) error {
	return clientTransact(ctx, &Client{config{driver: drv}}, do)
}

// entDebug begins transactions of a generated client that logs.
func entDebug(ctx context.Context, drv *entsql.Driver, do work) error {
	quiet := func(...any) {}
	return clientTransact(ctx, &Client{config{driver: entdialect.Debug(drv, quiet)}}, do)
}

func clientTransact(ctx context.Context, client *Client, do work) error {
	tx, err := client.Tx(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := do(tx, storeByEnt(tx.driver)); err != nil {
		return err
	}
	return tx.Commit()
}

func openEnt(begin func(ctx context.Context, drv *entsql.Driver, do work) error) func(testing.TB, database, *sql.DB) *shop {
	return func(_ testing.TB, d database, db *sql.DB) *shop {
		drv := entsql.OpenDB(string(d.speaks), db)
		return &shop{
			db:       db,
			transact: func(ctx context.Context, do work) error { return begin(ctx, drv, do) },
			outside: map[string]func(ctx context.Context) (outbox.Tx, func() error, error){
				"Driver": func(context.Context) (outbox.Tx, func() error, error) { return drv, noop, nil },
				"Client": func(context.Context) (outbox.Tx, func() error, error) {
					return &Client{config{driver: drv}}, noop, nil
				},
				"Client that logs": func(context.Context) (outbox.Tx, func() error, error) {
					return &Client{config{driver: entdialect.Debug(drv, func(...any) {})}}, noop, nil
				},
			},
			adopt: func(ctx context.Context, do work) error {
				tx := newEntTx(drv.Dialect(), inbox.Tx(ctx))
				return do(&Client{config{driver: tx}}, storeByEnt(tx))
			},
		}
	}
}

// storeByEnt does what a generated client does to create an order and to update it by its id. The latter begins a transaction.
func storeByEnt(drv entdialect.Driver) storing {
	return func(ctx context.Context, name string) error {
		create := sqlgraph.NewCreateSpec("orders", sqlgraph.NewFieldSpec("id", field.TypeInt64))
		create.SetField("name", field.TypeString, "draft of "+name)
		if err := sqlgraph.CreateNode(ctx, drv, create); err != nil {
			return err
		}
		update := sqlgraph.NewUpdateSpec("orders", []string{"id", "name"}, sqlgraph.NewFieldSpec("id", field.TypeInt64))
		update.Node.ID.Value = create.ID.Value
		update.SetField("name", field.TypeString, name)
		update.ScanValues = func([]string) ([]any, error) { return []any{new(sql.NullInt64), new(sql.NullString)}, nil }
		update.Assign = func([]string, []any) error { return nil }
		return sqlgraph.UpdateNode(ctx, drv, update)
	}
}

package orms

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/outbox"
)

func gormLibrary() []library {
	prepared := gorm.Session{PrepareStmt: true}
	return []library{
		{name: "gorm", open: gormShop{adopt: openOnInbox}.open},
		{name: "gorm PrepareStmt", open: gormShop{config: gorm.Config{PrepareStmt: true}}.open},
		{name: "gorm SkipDefaultTransaction", open: gormShop{config: gorm.Config{SkipDefaultTransaction: true}}.open},
		{name: "gorm PrepareStmt SkipDefaultTransaction", open: gormShop{config: gorm.Config{PrepareStmt: true, SkipDefaultTransaction: true}}.open},
		{name: "gorm prepared session", open: gormShop{session: prepared}.open},
		{name: "gorm PrepareStmt prepared session", open: gormShop{config: gorm.Config{PrepareStmt: true}, session: prepared}.open},
	}
}

// gormShop is a way to use gorm.
type gormShop struct {
	config  gorm.Config
	session gorm.Session // of each transaction
	// adopt has gorm use the transaction of the inbox. Default: sessionOnInbox.
	adopt func(ctx context.Context, db *gorm.DB) (*gorm.DB, error)
}

func (g gormShop) open(t testing.TB, d database, pool *sql.DB) *shop {
	t.Helper()
	g.config.Logger = logger.Discard
	if g.adopt == nil {
		g.adopt = sessionOnInbox
	}
	db, err := openGorm(d.speaks, pool, g.config)
	if err != nil {
		t.Fatalf("open gorm: %v", err)
	}
	in := func(ctx context.Context, tx *gorm.DB, do work) error {
		g.session.Context = ctx
		tx = tx.Session(&g.session)
		return do(tx.Statement.ConnPool, storeByGorm(tx))
	}
	return &shop{
		db: pool,
		transact: func(ctx context.Context, do work) error {
			return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return in(ctx, tx, do) })
		},
		nest: func(ctx context.Context, outer, inner work) error {
			return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
				if err := in(ctx, tx, outer); err != nil {
					return err
				}
				return ignoreUndo(tx.Transaction(func(tx *gorm.DB) error { return in(ctx, tx, inner) }))
			})
		},
		outside: map[string]func(ctx context.Context) (outbox.Tx, func() error, error){
			"ConnPool": func(ctx context.Context) (outbox.Tx, func() error, error) {
				return db.WithContext(ctx).Statement.ConnPool, noop, nil
			},
			"ConnPool of a prepared session": func(ctx context.Context) (outbox.Tx, func() error, error) {
				return db.Session(&gorm.Session{Context: ctx, PrepareStmt: true}).Statement.ConnPool, noop, nil
			},
			"Connection": func(ctx context.Context) (outbox.Tx, func() error, error) { return connectionOfGorm(ctx, db) },
		},
		adopt: func(ctx context.Context, do work) error {
			tx, err := g.adopt(ctx, db)
			if err != nil {
				return err
			}
			return do(tx.Statement.ConnPool, storeByGorm(tx))
		},
	}
}

// openGorm opens gorm on a pool, or on a transaction.
func openGorm(speaks dialect.Dialect, conn gorm.ConnPool, config gorm.Config) (*gorm.DB, error) {
	if speaks == dialect.Postgres {
		return gorm.Open(gormpostgres.New(gormpostgres.Config{Conn: conn}), &config)
	}
	return gorm.Open(gormmysql.New(gormmysql.Config{Conn: conn}), &config)
}

// sessionOnInbox makes a session use the transaction of the inbox. It needs Context: without one it shares its statement with db.
func sessionOnInbox(ctx context.Context, db *gorm.DB) (*gorm.DB, error) {
	tx := db.Session(&gorm.Session{NewDB: true, Context: ctx})
	tx.Statement.ConnPool = inbox.Tx(ctx)
	return tx, nil
}

// openOnInbox opens gorm on the transaction of the inbox. gorm cannot do that with PrepareStmt.
func openOnInbox(ctx context.Context, db *gorm.DB) (*gorm.DB, error) {
	return openGorm(dialect.Dialect(db.Name()), inbox.Tx(ctx), gorm.Config{Logger: logger.Discard})
}

// connectionOfGorm is what gorm has within DB.Connection, outside of it.
func connectionOfGorm(ctx context.Context, db *gorm.DB) (outbox.Tx, func() error, error) {
	pools, done, ended := make(chan gorm.ConnPool, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- db.WithContext(ctx).Connection(func(tx *gorm.DB) error {
			pools <- tx.Statement.ConnPool
			<-done
			return nil
		})
	}()
	select {
	case pool := <-pools:
		return pool, func() error {
			close(done)
			return <-ended
		}, nil
	case err := <-ended:
		return nil, nil, err
	}
}

func storeByGorm(tx *gorm.DB) storing {
	return func(ctx context.Context, name string) error {
		return tx.WithContext(ctx).Create(&order{Name: name}).Error
	}
}

// ignoreUndo: the inner transaction was rolled back because the test wants that.
func ignoreUndo(err error) error {
	if errors.Is(err, errUndo) {
		return nil
	}
	return err
}

// hooked is an order whose hook publishes.
type hooked struct {
	ID      int64
	Name    string
	publish func(tx *gorm.DB) error
}

func (hooked) TableName() string { return "orders" }

func (o *hooked) AfterCreate(tx *gorm.DB) error { return o.publish(tx) }

// A hook publishes in the transaction that gorm begins for each write, unless it is configured not to.
func testGormHook(t *testing.T, d database) {
	for _, c := range []struct {
		name             string
		skip             bool
		end              error
		want             error
		orders, messages int
	}{
		{"committed", false, nil, nil, 1, 1},
		{"rolled back", false, errUndo, errUndo, 0, 0},
		{"SkipDefaultTransaction", true, nil, outbox.ErrNoTransaction, 1, 0},
	} {
		for _, prepare := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s PrepareStmt=%t", c.name, prepare), func(t *testing.T) {
				eachKey(t, func(t *testing.T, key string) {
					ctx := kit.Context(t)
					db, err := openGorm(d.speaks, d.Open(t), gorm.Config{PrepareStmt: prepare, SkipDefaultTransaction: c.skip, Logger: logger.Discard})
					if err != nil {
						t.Fatal(err)
					}
					err = db.WithContext(ctx).Create(&hooked{Name: t.Name(), publish: func(tx *gorm.DB) error {
						return errors.Join(d.publish(ctx, tx.Statement.ConnPool, t.Name(), key), c.end)
					}}).Error
					if !same(err, c.want) {
						t.Errorf("create: got error %v, want %v", err, c.want)
					}
					d.wantOrders(t, t.Name(), c.orders)
					d.wantMessages(t, t.Name(), key, c.messages)
				})
			})
		}
	}
}

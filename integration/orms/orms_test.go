package orms

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/outbox"
)

func TestMain(m *testing.M) { kit.Main(m, 16) }

var (
	//go:embed sqlcode/postgres_schema.sql
	postgresSchema string
	//go:embed sqlcode/mysql_schema.sql
	mysqlSchema string
)

func TestPostgres(t *testing.T) {
	t.Parallel()
	runAll(t, lab.Postgres(t), dialect.Postgres, postgresSchema)
}

func TestMySQL(t *testing.T) {
	t.Parallel()
	runAll(t, lab.MySQL(t), dialect.MySQL, mysqlSchema)
}

func TestMariaDB(t *testing.T) {
	t.Parallel()
	runAll(t, lab.MariaDB(t), dialect.MySQL, mysqlSchema)
}

// database is one that all tests on a server use. Each has names of its own for its orders and messages.
type database struct {
	*lab.Database
	speaks dialect.Dialect
	box    outbox.Box
	check  *sql.DB // sees what is committed
}

// order is a row of the table orders, for the libraries that map rows to structs.
type order struct {
	ID   int64 `bun:",pk,autoincrement"`
	Name string
}

// work is something to do in a transaction of a library. store stores an order with the library, and tx is what the library offers
// to publish with.
type work func(tx outbox.Tx, store storing) error

type storing func(ctx context.Context, name string) error

// library is a way to use a library.
type library struct {
	name string
	only dialect.Dialect // "": it supports all
	open func(t testing.TB, d database, db *sql.DB) *shop
}

// shop is a library that uses a pool of connections.
type shop struct {
	db *sql.DB // the pool
	// transact commits if do returns nil, and else rolls back.
	transact func(ctx context.Context, do work) error
	// nest runs outer in a transaction, and inner in a transaction within it. It commits outer's whatever becomes of inner's. nil:
	// the library has no nested transactions.
	nest func(ctx context.Context, outer, inner work) error
	// outside has what the library offers outside of a transaction. The function returns it and how to give it back.
	outside map[string]func(ctx context.Context) (outbox.Tx, func() error, error)
	// begin is for an inbox that does not begin transactions itself. nil: it does.
	begin func(ctx context.Context) (inbox.Transaction, error)
	// adopt is how a handler uses the library in the transaction of the inbox.
	adopt func(ctx context.Context, do work) error
}

// libraries are all ways to use all libraries.
func libraries() []library {
	return slices.Concat(standardLibrary(), gormLibrary(), bunLibrary(), sqlxLibrary(), entLibrary(), sqlcLibrary(), pgxLibrary())
}

func runAll(t *testing.T, d *lab.Database, speaks dialect.Dialect, schema string) {
	t.Helper()
	ctx := kit.Context(t)
	shared := database{Database: d, speaks: speaks, box: outbox.New(speaks), check: d.Open(t)}
	if err := speaks.Migrate(ctx, shared.check); err != nil {
		t.Fatal(err)
	}
	if _, err := shared.check.ExecContext(ctx, schema); err != nil {
		t.Fatalf("create table orders: %v", err)
	}
	for _, l := range libraries() {
		if l.only != "" && l.only != speaks {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			t.Run("outbox", func(t *testing.T) { testOutbox(t, shared, l) })
			t.Run("nested", func(t *testing.T) { testNested(t, shared, l) })
			t.Run("cancel", func(t *testing.T) { testCancel(t, shared, l) })
			t.Run("outside", func(t *testing.T) { testOutside(t, shared, l) })
			t.Run("inbox", func(t *testing.T) { testInbox(t, shared, l) })
		})
	}
	t.Run("gorm hook", func(t *testing.T) {
		t.Parallel()
		testGormHook(t, shared)
	})
}

// eachKey runs a test for messages without an order key and with one.
func eachKey(t *testing.T, test func(t *testing.T, key string)) {
	t.Helper()
	t.Run("unordered", func(t *testing.T) { test(t, "") })
	t.Run("ordered", func(t *testing.T) { test(t, t.Name()) })
}

var errUndo = errors.New("roll back")

func testOutbox(t *testing.T, d database, l library) {
	ctx, s := kit.Context(t), l.open(t, d, d.Open(t))
	for _, c := range []struct {
		name string
		end  error
		want int
	}{
		{"committed", nil, 1},
		{"rolled back", errUndo, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachKey(t, func(t *testing.T, key string) {
				var ended outbox.Tx
				err := s.transact(ctx, func(tx outbox.Tx, store storing) error {
					ended = tx
					return errors.Join(d.place(ctx, tx, store, t.Name(), key), c.end)
				})
				if !same(err, c.end) {
					t.Fatalf("transaction: got error %v, want %v", err, c.end)
				}
				d.wantOrders(t, t.Name(), c.want)
				d.wantMessages(t, t.Name(), key, c.want)
				late := t.Name() + "-late"
				if err := d.publish(ctx, ended, late, key); err == nil {
					t.Errorf("publish with a %T that has ended: got no error, want one", ended)
				}
				d.wantMessages(t, late, key, 0)
			})
		})
	}
}

// same: a library may wrap the error that made it roll back, and must not add one of its own.
func same(err, want error) bool {
	return (err == nil) == (want == nil) && errors.Is(err, want)
}

// What was published in a nested transaction ends with it.
func testNested(t *testing.T, d database, l library) {
	ctx, s := kit.Context(t), l.open(t, d, d.Open(t))
	if s.nest == nil {
		return
	}
	for _, c := range []struct {
		name string
		end  error
		want int
	}{
		{"committed", nil, 1},
		{"rolled back", errUndo, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachKey(t, func(t *testing.T, key string) {
				outer, inner := t.Name()+"-outer", t.Name()+"-inner"
				err := s.nest(ctx,
					func(tx outbox.Tx, store storing) error { return d.place(ctx, tx, store, outer, key) },
					func(tx outbox.Tx, store storing) error {
						return errors.Join(d.place(ctx, tx, store, inner, key), c.end)
					})
				if err != nil {
					t.Fatalf("outer transaction: got error %v, want none", err)
				}
				d.wantOrders(t, outer, 1)
				d.wantMessages(t, outer, key, 1)
				d.wantOrders(t, inner, c.want)
				d.wantMessages(t, inner, key, c.want)
			})
		})
	}
}

// A delayed message is canceled when the transaction commits.
func testCancel(t *testing.T, d database, l library) {
	ctx, s := kit.Context(t), l.open(t, d, d.Open(t))
	if err := s.transact(ctx, func(tx outbox.Tx, _ storing) error {
		return d.box.Publish(ctx, tx, rehop.Message{ID: t.Name(), Exchange: "order", Key: "order.late", Delay: time.Hour})
	}); err != nil {
		t.Fatalf("publish: %v", err)
	}
	for _, c := range []struct {
		name string
		end  error
		want int
	}{
		{"rolled back", errUndo, 1},
		{"committed", nil, 0},
	} {
		err := s.transact(ctx, func(tx outbox.Tx, _ storing) error {
			found, err := d.box.Cancel(ctx, tx, t.Name())
			if err != nil {
				return err
			}
			if !found {
				t.Errorf("%s: cancel: got false, want true", c.name)
			}
			return c.end
		})
		if !same(err, c.end) {
			t.Fatalf("%s: got error %v, want %v", c.name, err, c.end)
		}
		d.wantMessages(t, t.Name(), "", c.want)
	}
}

// Outside of a transaction Publish refuses, and leaves the connection in order.
func testOutside(t *testing.T, d database, l library) {
	for _, pool := range []struct {
		name  string
		limit func(*sql.DB)
	}{
		{"one connection", func(db *sql.DB) { db.SetMaxOpenConns(1) }},
		{"new connections", func(db *sql.DB) { db.SetMaxIdleConns(-1) }},
	} {
		t.Run(pool.name, func(t *testing.T) {
			db := d.Open(t)
			pool.limit(db)
			s := l.open(t, d, db)
			for _, name := range slices.Sorted(maps.Keys(s.outside)) {
				t.Run(name, func(t *testing.T) {
					eachKey(t, func(t *testing.T, key string) { d.wantRefused(t, s, s.outside[name], key) })
				})
			}
		})
	}
}

func (d database) wantRefused(t *testing.T, s *shop, open func(ctx context.Context) (outbox.Tx, func() error, error), key string) {
	t.Helper()
	ctx := kit.Context(t)
	tx, giveBack, err := open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	held := s.db.Stats().InUse
	if err := d.publish(ctx, tx, t.Name(), key); !errors.Is(err, outbox.ErrNoTransaction) {
		t.Errorf("publish with a %T: got error %v, want %v", tx, err, outbox.ErrNoTransaction)
	}
	d.wantMessages(t, t.Name(), key, 0)
	// This would not be visible if a transaction had been left open.
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (name) VALUES ('"+t.Name()+"')"); err != nil {
		t.Errorf("next statement of a %T: got error %v, want none", tx, err)
	}
	d.wantOrders(t, t.Name(), 1)
	if got := s.db.Stats().InUse; got != held {
		t.Errorf("connections in use after Publish: got %d, want %d", got, held)
	}
	if err := giveBack(); err != nil {
		t.Error(err)
	}
	next := t.Name() + "-next"
	if err := s.transact(ctx, func(tx outbox.Tx, store storing) error { return d.place(ctx, tx, store, next, key) }); err != nil {
		t.Errorf("next transaction: got error %v, want none", err)
	}
	d.wantOrders(t, next, 1)
	d.wantMessages(t, next, key, 1)
}

// A handler uses the library in the transaction of the inbox, and publishes there. The first attempt fails, the second does not, and
// then a copy of the message comes.
func testInbox(t *testing.T, d database, l library) {
	ctx, s := kit.Context(t), l.open(t, d, d.Open(t))
	in := inbox.Inbox{DB: s.db, Dialect: d.speaks, Begin: s.begin, ManualClean: true, Logger: slog.New(slog.DiscardHandler)}
	eachKey(t, func(t *testing.T, key string) {
		calls, end := 0, errUndo
		byLibrary, byInbox := t.Name()+"-library", t.Name()+"-inbox"
		handler := in.Middleware("orders")(rehop.HandlerFunc(func(ctx context.Context, _ *rehop.Delivery) error {
			calls++
			return s.adopt(ctx, func(tx outbox.Tx, store storing) error {
				return errors.Join(d.place(ctx, tx, store, byLibrary, key), d.publish(ctx, inbox.From(ctx), byInbox, key), end)
			})
		}))
		for i, attempt := range []struct {
			name        string
			end         error
			calls, want int
		}{
			{"failed", errUndo, 1, 0},
			{"handled", nil, 2, 1},
			{"copy", nil, 2, 1},
		} {
			end = attempt.end
			err := handler.Handle(ctx, &rehop.Delivery{Message: rehop.Message{ID: t.Name()}, Queue: "orders", Attempt: i + 1})
			if !same(err, attempt.end) {
				t.Fatalf("%s: got error %v, want %v", attempt.name, err, attempt.end)
			}
			if calls != attempt.calls {
				t.Errorf("%s: got %d calls of the handler, want %d", attempt.name, calls, attempt.calls)
			}
			d.wantOrders(t, byLibrary, attempt.want)
			d.wantMessages(t, byLibrary, key, attempt.want)
			d.wantMessages(t, byInbox, key, attempt.want)
		}
	})
}

// place stores an order and publishes a message, both with the same name.
func (d database) place(ctx context.Context, tx outbox.Tx, store storing, name, key string) error {
	if err := store(ctx, name); err != nil {
		return fmt.Errorf("store order: %w", err)
	}
	return d.publish(ctx, tx, name, key)
}

func (d database) publish(ctx context.Context, tx outbox.Tx, id, key string) error {
	return d.box.Publish(ctx, tx, rehop.Message{ID: id, Exchange: "order", Key: "order.created", OrderKey: key, Body: []byte(id)})
}

func (d database) wantOrders(t *testing.T, name string, want int) {
	t.Helper()
	d.wantCount(t, "orders", want, "SELECT COUNT(*) FROM orders WHERE name = ?", name)
}

func (d database) wantMessages(t *testing.T, id, key string, want int) {
	t.Helper()
	d.wantCount(t, "messages in the outbox", want, "SELECT COUNT(*) FROM rehop_outbox WHERE message_id = ? AND order_key = ?", id, key)
}

func (d database) wantCount(t *testing.T, what string, want int, query string, args ...any) {
	t.Helper()
	var got int
	if err := d.check.QueryRowContext(kit.Context(t), d.speaks.Bind(query), args...).Scan(&got); err != nil {
		t.Fatalf("count %s: %v", what, err)
	}
	if got != want {
		t.Errorf("%s: got %d, want %d", what, got, want)
	}
}

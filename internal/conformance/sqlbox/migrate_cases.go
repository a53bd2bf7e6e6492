package sqlbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/outbox"
)

func migrateCases() []Case {
	return []Case{
		{Name: "Twice", Run: func(t *testing.T, b *Bench) {
			b.Must(b.Dialect.Migrate(b.Context(), b.DB))
			b.Exec("UPDATE rehop_outbox_lease SET term = 7 WHERE shard = 3")
			b.Must(b.Dialect.Migrate(b.Context(), b.DB))
			Equal(b, "a lease after the second time", b.Number("SELECT term FROM rehop_outbox_lease WHERE shard = 3"), 7)
			Equal(b, "rows of versions", b.Number("SELECT COUNT(*) FROM rehop_migration"), b.Dialect.Newest())
		}},
		{Name: "ByManyAtOnce", Run: func(t *testing.T, b *Bench) {
			var all sync.WaitGroup
			for range 8 {
				db := b.Open(t)
				all.Go(func() {
					if err := b.Dialect.Migrate(b.Context(), db); err != nil {
						t.Errorf("migrate: got %v, want nil", err)
					}
				})
			}
			all.Wait()
			version, err := b.Dialect.Version(b.Context(), b.DB)
			b.Must(err)
			Equal(b, "version", version, b.Dialect.Newest())
			Equal(b, "leases", b.Number("SELECT COUNT(*) FROM rehop_outbox_lease"), 16)
		}},
		{Name: "ByManyInSnapshots", Not: notPostgres, Run: func(t *testing.T, b *Bench) {
			// Where transactions do not see by default what was committed since they began.
			for _, isolation := range []string{"repeatable read", "serializable"} {
				db := b.OpenWith(t, "default_transaction_isolation", isolation)
				b.Exec("DROP SCHEMA public CASCADE")
				b.Exec("CREATE SCHEMA public")
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						if err := b.Dialect.Migrate(b.Context(), db); err != nil {
							t.Errorf("%s: migrate: got %v, want nil", isolation, err)
						}
					})
				}
				all.Wait()
			}
		}},
		{Name: "Unfit", Not: notMySQL, Run: func(t *testing.T, b *Bench) {
			// Connections on which nothing would be committed, or statements be refused.
			b.Migrate()
			for _, c := range []struct{ setting, value string }{{"autocommit", "0"}, {"sql_safe_updates", "1"}} {
				db := b.OpenWith(t, c.setting, c.value)
				relay := b.Relay()
				relay.DB = db
				ctx, cancel := context.WithCancel(b.Context())
				for doing, err := range map[string]error{"migrate": b.Dialect.Migrate(ctx, db), "relay": relay.Run(ctx)} {
					if err == nil || !strings.Contains(err.Error(), c.setting) {
						t.Errorf("%s with %s=%s: got %v, want an error that names it", doing, c.setting, c.value, err)
					}
				}
				cancel()
			}
		}},
		{Name: "AgainWhileWriting", Run: func(t *testing.T, b *Bench) {
			// Programs start, and migrate, while others have transactions open.
			b.Migrate()
			got := b.Collect("q")
			b.Start(b.Relay())
			tx := b.Tx()
			b.Must(b.Box.Publish(b.Context(), tx, To("q", "1")))
			if err := b.Dialect.Migrate(b.Context(), b.Open(t)); err != nil {
				t.Errorf("migrate while a transaction is open: got %v, want nil before it ends", err)
			}
			b.Must(tx.Commit())
			Equal(b, "message", Receive(b, got, "message").ID, "1")
		}},
		{Name: "AsPrinted", Run: func(t *testing.T, b *Bench) {
			script, err := b.Dialect.SQL(0)
			b.Must(err)
			for statement := range strings.SplitSeq(script, ";\n") {
				if strings.TrimSpace(statement) != "" {
					b.Exec(statement)
				}
			}
			b.Must(b.Dialect.Migrate(b.Context(), b.DB))
			Equal(b, "rows of versions", b.Number("SELECT COUNT(*) FROM rehop_migration"), b.Dialect.Newest())
			got := b.Collect("q")
			b.Start(b.Relay())
			b.Put(To("q", "1"))
			Equal(b, "message", Receive(b, got, "message").ID, "1")
		}},
		{Name: "Upgrade", Run: upgrade},
		{Name: "UpgradeInterrupted", Run: func(t *testing.T, b *Bench) {
			// An earlier try has got half-way and was killed before it could record that.
			b.firstVersion()
			switch b.Dialect {
			case dialect.MySQL:
				b.Exec("ALTER TABLE rehop_outbox ADD COLUMN nonce BIGINT NOT NULL DEFAULT 0")
				b.Exec("ALTER TABLE rehop_inbox ADD INDEX rehop_inbox_handled (handled)")
			case dialect.Postgres:
				b.Exec("CREATE INDEX rehop_inbox_handled ON rehop_inbox (handled)")
			}
			b.Must(b.Dialect.Migrate(b.Context(), b.DB))
			Equal(b, "rows of versions", b.Number("SELECT COUNT(*) FROM rehop_migration"), b.Dialect.Newest())
		}},
		{Name: "UpgradeWaits", Not: oneWriter, Run: func(t *testing.T, b *Bench) {
			// A transaction is open that has only read. Writers do not have to wait behind a migration that waits for it.
			b.firstVersion()
			tx, err := b.DB.BeginTx(b.Context(), nil)
			b.Must(err)
			defer tx.Rollback()
			var n int
			b.Must(tx.QueryRowContext(b.Context(), "SELECT COUNT(*) FROM rehop_outbox").Scan(&n))
			migrated := make(chan error, 1)
			go func() { migrated <- b.Dialect.Migrate(b.Context(), b.Open(t)) }()
			for i := range 3 { // at different moments of its tries
				_, err := b.DB.ExecContext(b.Context(), b.Dialect.Bind("INSERT INTO rehop_outbox (state, shard, due, created, size, message_id, exchange, routing_key, order_key, properties, headers, body) VALUES (0, 3, 0, 0, 10, ?, '', 'q', '', '{}', '', 'x')"), fmt.Sprint(i))
				if err != nil {
					t.Errorf("write while a migration waits: got %v, want nil before the migration ends", err)
				}
				select {
				case err := <-migrated:
					t.Fatalf("the migration did not wait: %v", err)
				case <-time.After(700 * time.Millisecond):
				}
			}
			b.Must(tx.Rollback())
			b.Must(Receive(b, migrated, "end of the migration"))
		}},
		{Name: "SamePrefix", Not: oneWriter, Run: func(t *testing.T, b *Bench) {
			// The usual prefix, given by name, names the same tables, and the same locks.
			b.Migrate()
			tx, other := b.Tx(), b.Tx()
			b.Must(b.Box.Publish(b.Context(), tx, ordered("k", "q", "1")))
			ctx, cancel := context.WithTimeout(b.Context(), 300*time.Millisecond)
			defer cancel()
			if err := (outbox.Box{Dialect: b.Dialect, Tables: dialect.Tables{Prefix: "rehop_"}}).Publish(ctx, other, ordered("k", "q", "2")); err == nil {
				t.Error("a transaction with the same key did not wait")
			}
		}},
		{Name: "OtherNames", Run: otherNames},
		{Name: "BadNames", Run: func(t *testing.T, b *Bench) {
			for _, names := range []dialect.Tables{{Prefix: "Shop_"}, {Prefix: "1"}, {Prefix: "a-b"}, {Prefix: strings.Repeat("x", 31)}, {Schema: "a'b"}, {Schema: `a"b`}, {Schema: "a`b"}} {
				relay := b.Relay()
				relay.Tables = names
				_, listErr := outbox.Inspector{DB: b.DB, Dialect: b.Dialect, Tables: names}.Discard(b.Context())
				for doing, err := range map[string]error{
					"migrate": dialect.Migration{Dialect: b.Dialect, Tables: names}.Run(b.Context(), b.DB), "relay": relay.Run(b.Context()), "drop": listErr,
					"publish": outbox.Box{Dialect: b.Dialect, Tables: names}.Publish(b.Context(), b.Tx(), To("q", "1")),
				} {
					if err == nil || !strings.Contains(err.Error(), "of the tables") {
						t.Errorf("%s with %+v: got %v, want an error about the name", doing, names, err)
					}
				}
			}
		}},
		{Name: "Durable", Run: durable},
		{Name: "NewerThanTheProgram", Run: func(t *testing.T, b *Bench) {
			b.Must(b.Dialect.Migrate(b.Context(), b.DB))
			b.Exec("INSERT INTO rehop_migration (version, applied) VALUES (1000, 0)")
			b.Must(b.Dialect.Migrate(b.Context(), b.DB))
			got := b.Collect("q")
			b.Start(b.Relay())
			b.Put(To("q", "1"))
			Equal(b, "message", Receive(b, got, "message").ID, "1")
		}},
		{Name: "NotYet", Run: func(t *testing.T, b *Bench) {
			if err := b.Relay().Run(b.Context()); err == nil || !strings.Contains(err.Error(), "rehop outbox migrate") {
				t.Errorf("relay without tables: got %v, want an error with what to do", err)
			}
		}},
	}
}

// firstVersion makes the tables as the first version of rehop had them.
func (b *Bench) firstVersion() {
	b.t.Helper()
	script, err := b.Dialect.SQL(0)
	b.Must(err)
	for statement := range strings.SplitSeq(script, ";\n") {
		b.Exec(statement)
		if strings.Contains(statement, "VALUES (1, ") && strings.Contains(statement, "rehop_migration") {
			return
		}
	}
	b.t.Fatal("the script does not record version 1")
}

// upgrade: tables with rows in them are brought to the newest version while others write.
func upgrade(t *testing.T, b *Bench) {
	b.firstVersion()
	row := "INSERT INTO rehop_outbox (state, shard, due, created, size, message_id, exchange, routing_key, order_key, properties, headers, body) VALUES (0, 3, 0, 0, 10, ?, '', 'q', '', '{}', '', 'x')"
	b.Exec(row, "old")
	b.Exec("INSERT INTO rehop_inbox (handled, consumer, message_id) VALUES (1, 'q', 'old')")
	ctx, cancel := context.WithCancel(b.Context())
	var writing sync.WaitGroup
	if b.Dialect != dialect.SQLite { // where a writer makes others fail, not wait
		writing.Go(func() {
			for ctx.Err() == nil {
				_, err := b.DB.ExecContext(ctx, b.Dialect.Bind("INSERT INTO rehop_inbox (handled, consumer, message_id) VALUES (1, 'q', ?)"), []byte(rand.Text()))
				if err != nil && ctx.Err() == nil {
					t.Errorf("write while the tables are upgraded: got %v, want nil", err)
					return
				}
			}
		})
	}
	err := b.Dialect.Migrate(b.Context(), b.Open(t))
	cancel()
	writing.Wait()
	b.Must(err)
	Equal(b, "rows of versions", b.Number("SELECT COUNT(*) FROM rehop_migration"), b.Dialect.Newest())
	if b.Dialect == dialect.Postgres {
		Equal(b, "valid indexes", b.Number("SELECT COUNT(*) FROM pg_index WHERE indexrelid = 'rehop_inbox_handled'::regclass AND indisvalid"), 1)
	}
	b.Exec(row, "by an old program")
	got := b.Collect("q")
	b.Start(b.Relay())
	for _, want := range []string{"old", "by an old program"} {
		Equal(b, "message", Receive(b, got, "message").ID, want)
	}
	b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
}

// otherNames: all works with tables that are called otherwise, in another schema where there are any.
func otherNames(t *testing.T, b *Bench) {
	names := dialect.Tables{Prefix: "shop_"}
	if b.Dialect != dialect.SQLite {
		names.Schema = "Order-" + strings.ToLower(rand.Text()[:8])
		quoted := strings.TrimSuffix(names.Name(b.Dialect, ""), ".shop_")
		b.Exec("CREATE SCHEMA " + quoted)
		t.Cleanup(func() {
			if b.Dialect == dialect.MySQL {
				b.Exec("DROP SCHEMA " + quoted)
			}
		})
	}
	migration := dialect.Migration{Dialect: b.Dialect, Tables: names}
	for range 2 {
		b.Must(migration.Run(b.Context(), b.DB))
	}
	version, err := migration.Version(b.Context(), b.DB)
	b.Must(err)
	Equal(b, "version", version, b.Dialect.Newest())
	version, err = b.Dialect.Version(b.Context(), b.DB)
	b.Must(err)
	Equal(b, "version of tables with the usual names", version, 0)

	b.Exec("CREATE TABLE effect (name VARCHAR(100) NOT NULL)")
	b.Box = outbox.Box{Dialect: b.Dialect, Tables: names}
	delayed := To("q", "delayed")
	delayed.Delay = time.Hour
	b.Put(To("q", "1"), ordered("k", "q", "2"), delayed, To("nowhere", "3"))
	told := newRecorder()
	relay := b.Relay()
	relay.Tables, relay.Tries, relay.Hooks = names, 1, told.hooks()
	if b.WakerOf != nil {
		relay.Waker = b.WakerOf(names)
	}
	handled := make(chan string, 10)
	in := b.Inbox(told)
	in.Tables = names
	_, err = b.Client.Subscribe(b.Context(), rehop.Subscriber{
		Queue: "q", Middleware: []rehop.Middleware{in.Middleware("")},
		Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			if inbox.From(ctx) == nil {
				t.Error("the handler has no transaction")
			}
			handled <- d.ID
			return b.effect(ctx, d)
		}),
	})
	b.Must(err)
	b.Start(relay)
	ids := map[string]bool{Receive(b, handled, "message"): true, Receive(b, handled, "message"): true}
	if !ids["1"] || !ids["2"] {
		t.Errorf("messages: got %v, want 1 and 2", ids)
	}
	b.Must(b.Client.Publish(b.Context(), rehop.Message{ID: "1", Key: "q"}))
	Equal(b, "duplicate", Receive(b, told.duplicates, "duplicate"), "1")
	inspector := outbox.Inspector{DB: b.DB, Dialect: b.Dialect, Tables: names}
	aside := Receive(b, told.aside, "message without a route")
	n, err := inspector.Discard(b.Context(), aside.Row)
	b.Must(err)
	Equal(b, "dropped", n, 1)
	tx := b.Tx()
	canceled, err := b.Box.Cancel(b.Context(), tx, "delayed")
	b.Must(err)
	Equal(b, "canceled", canceled, true)
	b.Must(tx.Commit())
	b.Eventually("the outbox is empty", func() bool {
		backlog, err := inspector.Backlog(b.Context())
		b.Must(err)
		return backlog == outbox.Backlog{}
	})
}

// durable: settings by which a crash loses what was committed are reported, and refused on demand.
func durable(t *testing.T, b *Bench) {
	weak, err := b.Dialect.Durability(b.Context(), b.DB)
	b.Must(err)
	if len(weak) > 0 {
		t.Errorf("usual settings: got %v, want no weakness", weak)
	}
	var db *sql.DB
	setting := ""
	switch b.Dialect {
	case dialect.Postgres:
		setting, db = "synchronous_commit", b.OpenWith(t, "synchronous_commit", "off")
	case dialect.MySQL: // whose setting is that of the whole server; other cases do not crash it
		setting, db = "innodb_flush_log_at_trx_commit", b.DB
		b.Exec("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
		defer b.Exec("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
	case dialect.SQLite:
		setting, db = "synchronous", b.OpenWith(t, "_pragma", "synchronous(OFF)")
	}
	weak, err = b.Dialect.Durability(b.Context(), db)
	b.Must(err)
	if len(weak) != 1 || weak[0].Setting != setting || weak[0].Loses == "" || weak[0].Fix == "" {
		t.Errorf("weak settings: got %+v, want %s, what it loses and what to set", weak, setting)
	}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	migration := dialect.Migration{Dialect: b.Dialect, Logger: logger, RequireDurable: true}
	refused := func(doing string, err error) {
		t.Helper()
		if !errors.Is(err, dialect.ErrNotDurable) || !strings.Contains(err.Error(), setting) {
			t.Errorf("%s: got %v, want ErrNotDurable that names %s", doing, err, setting)
		}
	}
	refused("migrate", migration.Run(b.Context(), db))
	migration.RequireDurable = false
	b.Must(migration.Run(b.Context(), db))
	if !strings.Contains(log.String(), setting) {
		t.Errorf("log: got %q, want a warning that names %s", log.String(), setting)
	}
	relay := b.Relay()
	relay.DB, relay.RequireDurable = db, true
	refused("relay", relay.Run(b.Context()))
	if b.Dialect == dialect.MySQL && b.hasRedoLogSwitch() {
		b.Exec("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
		b.Exec("ALTER INSTANCE DISABLE INNODB REDO_LOG")
		defer b.Exec("ALTER INSTANCE ENABLE INNODB REDO_LOG")
		weak, err = b.Dialect.Durability(b.Context(), db)
		b.Must(err)
		if len(weak) != 1 || weak[0].Setting != "innodb_redo_log_enabled" {
			t.Errorf("without a redo log: got %+v, want innodb_redo_log_enabled", weak)
		}
	}
}

// hasRedoLogSwitch reports whether the server can do without a redo log. MariaDB cannot.
func (b *Bench) hasRedoLogSwitch() bool {
	b.t.Helper()
	var version string
	b.Must(b.DB.QueryRowContext(b.Context(), "SELECT VERSION()").Scan(&version))
	return !strings.Contains(version, "MariaDB")
}

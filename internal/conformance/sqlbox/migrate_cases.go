package sqlbox

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
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
				ctx, cancel := context.WithTimeout(b.Context(), 5*time.Second)
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
			ctx, cancel := context.WithTimeout(b.Context(), 5*time.Second)
			defer cancel()
			if err := b.Dialect.Migrate(ctx, b.Open(t)); err != nil {
				t.Errorf("migrate while a transaction is open: got %v, want nil at once", err)
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
			if err := b.Relay().Run(b.Context()); err == nil || !strings.Contains(err.Error(), "call dialect.Migrate first") {
				t.Errorf("relay without tables: got %v, want an error that says what to do", err)
			}
		}},
	}
}

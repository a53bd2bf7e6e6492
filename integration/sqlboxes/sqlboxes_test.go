// Package sqlboxes runs the suite of outbox and inbox on real databases: SQLite, PostgreSQL and MariaDB by database/sql, PostgreSQL by
// pgx, and some of it with a real RabbitMQ.
package sqlboxes

import (
	"database/sql"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/sqlbox"
	"github.com/rehop/rehop/outbox/outboxpgx"
)

var writing = flag.Duration("writing", 2*time.Second, "for how long many writers write at once")

func TestMain(m *testing.M) {
	if os.Getenv(relayDatabase) != "" {
		if err := relayProcess(); err != nil {
			fmt.Fprintln(os.Stderr, "relay:", err)
			os.Exit(1)
		}
		return
	}
	kit.Main(m, 16)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	sqlbox.Run(t, dialect.Postgres, func(t testing.TB) sqlbox.Database { return standard(lab.Postgres(t), dialect.Postgres) })
}

func TestMariaDB(t *testing.T) {
	t.Parallel()
	sqlbox.Run(t, dialect.MySQL, func(t testing.TB) sqlbox.Database { return standard(lab.MariaDB(t), dialect.MySQL) })
}

// standard is a database by database/sql.
func standard(d *lab.Database, speaks dialect.Dialect) sqlbox.Database {
	return sqlbox.Database{Dialect: speaks, Open: d.Open, OpenWith: with(d), Writing: *writing}
}

// with opens a database's pools with a setting of the server's.
func with(d *lab.Database) func(t testing.TB, setting, value string) *sql.DB {
	return func(t testing.TB, setting, value string) *sql.DB {
		t.Helper()
		mark := "?"
		if strings.Contains(d.Source, mark) {
			mark = "&"
		}
		changed := *d
		changed.Source += mark + setting + "=" + url.PathEscape(value)
		return changed.Open(t)
	}
}

func TestPgx(t *testing.T) {
	t.Parallel()
	sqlbox.Run(t, dialect.Postgres, func(t testing.TB) sqlbox.Database { return byPgx(t, lab.Postgres(t)) })
}

// With a real RabbitMQ.
func TestRabbitMQ(t *testing.T) {
	t.Parallel()
	fresh := func(t testing.TB) sqlbox.Database { return byPgx(t, lab.Postgres(t)) }
	broker := func(t testing.TB) sqlbox.Broker { return rabbit{t, lab.Single(t)} }
	sqlbox.RunOn(t, dialect.Postgres, fresh, broker, "publish", "poison", "order")
}

type rabbit struct {
	t   testing.TB
	lab *lab.Rabbit
}

func (r rabbit) Config() rehop.Config {
	return rehop.Config{URL: r.lab.URL, Name: r.t.Name(), Logger: slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
}

// byPgx is a database by pgx.
func byPgx(t testing.TB, d *lab.Database) sqlbox.Database {
	t.Helper()
	pool := openPool(t, d)
	return sqlbox.Database{
		Dialect: dialect.Postgres, Writing: *writing,
		Open: func(t testing.TB) *sql.DB {
			t.Helper()
			db := outboxpgx.DB(openPool(t, d))
			t.Cleanup(func() { _ = db.Close() })
			return db
		},
		OpenWith: with(d),
		Begin:    outboxpgx.Begin(pool),
		Waker:    outboxpgx.Listener{Config: pool.Config().ConnConfig},
	}
}

func openPool(t testing.TB, d *lab.Database) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(d.Source)
	if err != nil {
		t.Fatalf("open pool: %v", err)
	}
	config.MaxConns = 70 // one for each of many writers
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("open pool: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

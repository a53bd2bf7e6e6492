// Package sqlboxes runs the suite of outbox and inbox on real databases: SQLite, PostgreSQL and MariaDB by database/sql, PostgreSQL by
// pgx, and some of it with a real RabbitMQ.
package sqlboxes

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/sqlbox"
	"github.com/rehop/rehop/outbox"
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

func TestMySQL(t *testing.T) {
	t.Parallel()
	sqlbox.Run(t, dialect.MySQL, func(t testing.TB) sqlbox.Database { return standard(lab.MySQL(t), dialect.MySQL) })
}

// standard is a database by database/sql.
func standard(d *lab.Database, speaks dialect.Dialect) sqlbox.Database {
	return sqlbox.Database{Dialect: speaks, Open: d.Open, OpenWith: with(d), Writing: *writing}
}

// with opens a database's pools with a setting of the server's.
func with(d *lab.Database) func(t testing.TB, setting, value string) *sql.DB {
	return func(t testing.TB, setting, value string) *sql.DB {
		t.Helper()
		changed := *d
		changed.Source = withSetting(d.Source, setting+"="+url.PathEscape(value))
		return changed.Open(t)
	}
}

func withSetting(source, setting string) string {
	if strings.Contains(source, "?") {
		return source + "&" + setting
	}
	return source + "?" + setting
}

// Settings with which the relay and the inbox work too. statements is a binary log of statements, to which MySQL lets nobody write at the
// level of isolation that the relay has elsewhere. conflicts is MariaDB's default from version 11.6.2 on: a transaction fails that changes
// a row which another has changed since the transaction began.
const (
	statements = "binlog_format=%27STATEMENT%27"
	conflicts  = "innodb_snapshot_isolation=ON"
)

// settled are the sections of the suite in which these settings could matter.
var settled = []string{"relay", "lease", "inbox"}

func TestMySQLStatements(t *testing.T) {
	t.Parallel()
	sqlbox.RunSome(t, dialect.MySQL, settled, func(t testing.TB) sqlbox.Database {
		d := lab.MySQL(t)
		d.Source = withSetting(d.Source, statements)
		return standard(d, dialect.MySQL)
	})
}

func TestMariaDBConflicts(t *testing.T) {
	t.Parallel()
	sqlbox.RunSome(t, dialect.MySQL, settled, func(t testing.TB) sqlbox.Database {
		d := lab.MariaDB(t)
		d.Source = withSetting(d.Source, conflicts)
		return standard(d, dialect.MySQL)
	})
}

func TestPgx(t *testing.T) {
	t.Parallel()
	sqlbox.Run(t, dialect.Postgres, func(t testing.TB) sqlbox.Database { return byPgx(t, lab.Postgres(t)) })
}

// Through pgbouncer, each transaction may have another session of the server. Before 1.21 it knows no prepared statements.
const throughPool = "&default_query_exec_mode=exec"

// pooled are the sections of the suite in which sessions of the server could matter.
var pooled = []string{"migrate", "publish", "relay", "delay", "order", "lease", "inbox"}

func TestPgBouncer(t *testing.T) {
	t.Parallel()
	sqlbox.RunSome(t, dialect.Postgres, pooled, func(t testing.TB) sqlbox.Database { return throughPgBouncer(lab.PgBouncer(t)) })
}

// throughPgBouncer is a database by database/sql through pgbouncer.
func throughPgBouncer(d *lab.Database) sqlbox.Database {
	d.Source += throughPool
	database := standard(d, dialect.Postgres)
	database.OpenWith = with(d.Direct) // pgbouncer passes no settings on
	return database
}

func TestPgBouncerPgx(t *testing.T) {
	t.Parallel()
	sqlbox.RunSome(t, dialect.Postgres, pooled, func(t testing.TB) sqlbox.Database { return throughPgBouncerByPgx(t, lab.PgBouncer(t)) })
}

// throughPgBouncerByPgx is a database by pgx through pgbouncer.
func throughPgBouncerByPgx(t testing.TB, d *lab.Database) sqlbox.Database {
	t.Helper()
	d.Source += throughPool
	database := byPgx(t, d)
	database.OpenWith = with(d.Direct)
	config, err := pgx.ParseConfig(d.Direct.Source) // nor notifications
	if err != nil {
		t.Fatal(err)
	}
	database.Waker, database.WakerOf = outboxpgx.Listener{Config: config}, nil
	return database
}

// Nothing leaves the database before it is on disk. Other tests would hide a mistake, so this has a server of its own.
func TestDisk(t *testing.T) {
	t.Parallel()
	server := lab.PostgresAlone(t)
	t.Run("standard", func(t *testing.T) {
		sqlbox.RunDisk(t, func(t testing.TB) sqlbox.Database { return standard(server.Postgres(t), dialect.Postgres) })
	})
	t.Run("pgx", func(t *testing.T) {
		sqlbox.RunDisk(t, func(t testing.TB) sqlbox.Database { return byPgx(t, server.Postgres(t)) })
	})
	t.Run("PgBouncer", func(t *testing.T) {
		sqlbox.RunDisk(t, func(t testing.TB) sqlbox.Database { return throughPgBouncer(server.PgBouncer(t)) })
	})
	t.Run("PgBouncer by pgx", func(t *testing.T) {
		sqlbox.RunDisk(t, func(t testing.TB) sqlbox.Database { return throughPgBouncerByPgx(t, server.PgBouncer(t)) })
	})
}

// A pool that prepares statements gets an error with what to do.
func TestPgBouncerPrepared(t *testing.T) {
	t.Parallel()
	d := lab.PgBouncer(t)
	ctx := kit.Context(t)
	if err := dialect.Postgres.Migrate(ctx, d.Direct.Open(t)); err != nil {
		t.Fatal(err)
	}
	faults := make(faultHook, 1000)
	db := d.Open(t)
	ctx, cancel := context.WithCancel(ctx)
	client := kit.Open(t, rehop.Config{URL: lab.Single(t).URL})
	var relaying sync.WaitGroup
	relaying.Go(func() {
		_ = outbox.Relay{Client: client, DB: db, Dialect: dialect.Postgres, Hooks: []outbox.Hooks{{OnFault: faults.OnFault}}, Logger: slog.New(slog.DiscardHandler)}.Run(ctx)
	})
	defer relaying.Wait()
	defer cancel()
	for {
		err := kit.Receive(t, faults, "fault of the relay")
		if strings.Contains(err.Error(), "prepared statement") {
			if !strings.Contains(err.Error(), "max_prepared_statements") || !strings.Contains(err.Error(), "default_query_exec_mode=exec") {
				t.Errorf("fault: got %v, want it to say what to do", err)
			}
			return
		}
	}
}

// faultHook keeps what a relay reports.
type faultHook chan error

func (f faultHook) OnFault(err error) {
	select {
	case f <- err:
	default:
	}
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
		WakerOf: func(tables dialect.Tables) outbox.Waker {
			return outboxpgx.Listener{Config: pool.Config().ConnConfig, Tables: tables}
		},
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

package lab

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// Database is a database without tables that only one test uses.
type Database struct {
	Driver string // for sql.Open
	Source string // for sql.Open; for PostgreSQL it is a URL
	Node   string // for scripts/services
	dir    string // the state directory of its server; empty: the default one

	// Direct is the same database without PgBouncer in between; nil for all but those of PgBouncer.
	Direct *Database
}

// Open opens a pool of connections that is closed with the test.
func (d *Database) Open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.Driver, d.Source)
	if err != nil {
		t.Fatalf("open database: %v", err)
	}
	// MySQL's driver sends a goodbye on each idle connection. That fails if the test has killed the server, and means nothing.
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Address is that of the database's server.
func (d *Database) Address(t testing.TB) string {
	t.Helper()
	if d.Driver == "mysql" {
		config, err := mysql.ParseDSN(d.Source)
		if err != nil {
			t.Fatal(err)
		}
		return config.Addr
	}
	u, err := url.Parse(d.Source)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// Through is the database's source with another address, of a proxy for example.
func (d *Database) Through(t testing.TB, address string) string {
	t.Helper()
	if d.Driver == "mysql" {
		config, err := mysql.ParseDSN(d.Source)
		if err != nil {
			t.Fatal(err)
		}
		config.Addr = address
		return config.FormatDSN()
	}
	u, err := url.Parse(d.Source)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = address
	return u.String()
}

// Kill kills the database's server at once.
func (d *Database) Kill() error { return d.services("kill") }

// Start starts the server, and returns when it serves.
func (d *Database) Start() error { return d.services("start") }

func (d *Database) services(command string) error {
	if d.dir == "" {
		return services(command, d.Node)
	}
	_, err := run(d.dir, command, d.Node)
	return err
}

// Postgres is a database on PostgreSQL. Those of tests that have ended are used again: making one takes longer than most tests.
func Postgres(t testing.TB) *Database {
	t.Helper()
	return postgres(t, Setting(t, "REHOP_POSTGRES_URL"), "pg")
}

// postgres is a database on a server.
func postgres(t testing.TB, server, node string) *Database {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + claim(t, server)
	execute(t, "pgx", u.String(), "DROP SCHEMA IF EXISTS public CASCADE", "CREATE SCHEMA public")
	return &Database{Driver: "pgx", Source: u.String(), Node: node}
}

// PgBouncer is a database on PostgreSQL that is reached through PgBouncer, which may run each transaction on another connection
// to the server. Prepared statements therefore fail: with pgx add default_query_exec_mode=exec to Source, or simple_protocol.
// Kill and Start are about PgBouncer; those of Direct are about PostgreSQL.
func PgBouncer(t testing.TB) *Database {
	t.Helper()
	return throughPgBouncer(t, Setting(t, "REHOP_PGBOUNCER_URL"), "pgbouncer", Postgres(t))
}

// throughPgBouncer is a database that is reached through PgBouncer as well.
func throughPgBouncer(t testing.TB, bouncer, node string, direct *Database) *Database {
	t.Helper()
	u, err := url.Parse(bouncer)
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(direct.Source)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/pgbouncer" // the admin console
	console, name := u.String(), strings.TrimPrefix(server.Path, "/")
	// Postgres has ended connections that an earlier test left behind, which PgBouncer may not have noticed yet.
	if err := emptyPool(console, name); err != nil {
		t.Fatalf("close PgBouncer's connections to database %s: %v", name, err)
	}
	t.Cleanup(func() { _ = emptyPool(console, name) }) // the test may have killed PgBouncer
	u.Path = server.Path
	return &Database{Driver: "pgx", Source: u.String(), Node: node, Direct: direct}
}

// emptyPool has PgBouncer close its idle connections to the server for a database. It does not use KILL: PgBouncer 1.18 has crashed
// on that ("bad client state") while it passed on a cancel request.
func emptyPool(console, name string) error {
	db, err := sql.Open("pgx", console)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var unknown *pgconn.PgError
	_, err = db.ExecContext(ctx, "RECONNECT "+name)
	if errors.As(err, &unknown) && strings.Contains(unknown.Message, "no such database") {
		return nil // nobody has used it through PgBouncer
	}
	return err
}

// claimSpace sets the locks of databases that are in use apart from others.
const claimSpace = 0x6c6162 // "lab"

// claim finds a database that no test uses, in this process or another, or makes one. It is this test's until the test has ended, or
// the server has.
func claim(t testing.TB, server string) (name string) {
	t.Helper()
	db, err := sql.Open("pgx", server)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		_ = db.Close()
		t.Fatalf("claim a database: %v", err)
	}
	t.Cleanup(func() { // which ends the lock
		_ = conn.Close()
		_ = db.Close()
	})
	n, locked := -1, false
	for !locked && err == nil {
		n++
		err = conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1, $2)", claimSpace, n).Scan(&locked)
	}
	name = fmt.Sprint("lab", n)
	there := 0
	if err == nil {
		err = conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM pg_database WHERE datname = $1", name).Scan(&there)
	}
	switch {
	case err != nil:
	case there == 0:
		_, err = conn.ExecContext(ctx, "CREATE DATABASE "+name)
	default: // processes that were killed may have left something behind
		_, err = conn.ExecContext(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
	}
	if err != nil {
		t.Fatalf("claim database %s: %v", name, err)
	}
	return name
}

// MariaDB is a fresh database on MariaDB.
func MariaDB(t testing.TB) *Database {
	t.Helper()
	return likeMySQL(t, Setting(t, "REHOP_MARIADB_URL"), "maria")
}

// MySQL is a fresh database on MySQL.
func MySQL(t testing.TB) *Database {
	t.Helper()
	return likeMySQL(t, Setting(t, "REHOP_MYSQL_URL"), "mysql")
}

func likeMySQL(t testing.TB, address, node string) *Database {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr = u.User.Username(), "tcp", u.Host
	config.Passwd, _ = u.User.Password()
	name, server := "t"+strings.ToLower(rand.Text()), config.FormatDSN()
	execute(t, "mysql", server, "CREATE DATABASE "+name)
	t.Cleanup(func() { execute(t, "mysql", server, "DROP DATABASE IF EXISTS "+name) })
	config.DBName = name
	return &Database{Driver: "mysql", Source: config.FormatDSN(), Node: node}
}

// execute runs statements on a connection of its own.
func execute(t testing.TB, driver, source string, statements ...string) {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

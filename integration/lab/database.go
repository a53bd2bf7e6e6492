package lab

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// Database is a fresh database, gone at the end of the test.
type Database struct {
	Driver string // for sql.Open
	Source string // for sql.Open; for PostgreSQL it is a URL
	Node   string // for scripts/services
}

// Open opens a pool of connections that is closed with the test.
func (d *Database) Open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.Driver, d.Source)
	if err != nil {
		t.Fatalf("open database: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close database: %v", err)
		}
	})
	return db
}

// Kill kills the database's server at once.
func (d *Database) Kill() error { return services("kill", d.Node) }

// Start starts the server, and returns when it serves.
func (d *Database) Start() error { return services("start", d.Node) }

// Postgres is a fresh database on PostgreSQL.
func Postgres(t testing.TB) *Database {
	t.Helper()
	server := Setting(t, "REHOP_POSTGRES_URL")
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	name := databaseName()
	create(t, "pgx", server, "CREATE DATABASE "+name, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	u.Path = "/" + name
	return &Database{Driver: "pgx", Source: u.String(), Node: "pg"}
}

// MariaDB is a fresh database on MariaDB.
func MariaDB(t testing.TB) *Database {
	t.Helper()
	u, err := url.Parse(Setting(t, "REHOP_MARIADB_URL"))
	if err != nil {
		t.Fatal(err)
	}
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr = u.User.Username(), "tcp", u.Host
	config.Passwd, _ = u.User.Password()
	name := databaseName()
	create(t, "mysql", config.FormatDSN(), "CREATE DATABASE "+name, "DROP DATABASE IF EXISTS "+name)
	config.DBName = name
	return &Database{Driver: "mysql", Source: config.FormatDSN(), Node: "maria"}
}

func databaseName() string { return "t" + strings.ToLower(rand.Text()) }

// create makes a database, and drops it when the test has closed its connections.
func create(t testing.TB, driver, server, create, drop string) {
	t.Helper()
	run := func(statement string) error {
		db, err := sql.Open(driver, server)
		if err != nil {
			return err
		}
		defer db.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
		return nil
	}
	if err := run(create); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run(drop); err != nil {
			t.Error(err)
		}
	})
}

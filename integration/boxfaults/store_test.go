package boxfaults

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/integration/proxy"
)

// store is a database.
type store struct {
	*lab.Database
	speaks  dialect.Dialect
	commits []string // what statements that commit something look like on their way to the server
	version string   // a query for the server's version

	// asynchronous: by default, commits return before they are on disk, and a crash can undo them. Only a quarter of the writers'
	// transactions wait for the disk.
	asynchronous bool
}

func postgresStore(t testing.TB) store {
	t.Helper()
	return store{Database: lab.Postgres(t), speaks: dialect.Postgres, commits: []string{"commit\x00"}, version: "SHOW server_version"}
}

// asyncPostgresStore is PostgreSQL with synchronous_commit=off in all sessions: writers, relays and the consumer. That is the setting
// with which PostgreSQL shows transactions to others before they are on disk.
func asyncPostgresStore(t testing.TB) store {
	t.Helper()
	s := postgresStore(t)
	// After a crash PostgreSQL syncs each of its thousand files, which takes long with a slow disk.
	if _, err := s.Open(t).ExecContext(kit.Context(t), "ALTER SYSTEM SET recovery_init_sync_method = 'syncfs'"); err != nil {
		t.Fatal(err)
	}
	s.Source += "&synchronous_commit=off"
	s.asynchronous = true
	return s
}

func mariaStore(t testing.TB) store {
	t.Helper()
	return mysqlLike(lab.MariaDB(t))
}

func mysqlStore(t testing.TB) store {
	t.Helper()
	return mysqlLike(lab.MySQL(t))
}

func mysqlLike(d *lab.Database) store {
	// Relays delete without a transaction around it.
	return store{Database: d, speaks: dialect.MySQL, commits: []string{"COMMIT", "DELETE line FROM"}, version: "SELECT VERSION()"}
}

// server reports whether the database has a server that can be killed.
func (s store) server() bool { return s.Node != "" }

// through is the database's source by way of a proxy.
func (s store) through(t testing.TB, p *proxy.Proxy) string {
	t.Helper()
	source := s.Through(t, p.Addr())
	if s.speaks == dialect.MySQL { // so that a statement is sent when it is executed, and not before
		config, err := mysql.ParseDSN(source)
		if err != nil {
			t.Fatal(err)
		}
		config.InterpolateParams = true
		return config.FormatDSN()
	}
	return source
}

// ask returns the server's version, such as 10.11.14.
func (s store) ask(t testing.TB, db *sql.DB) (version string) {
	t.Helper()
	if err := db.QueryRowContext(kit.Context(t), s.version).Scan(&version); err != nil {
		t.Fatalf("%s: %v", s.version, err)
	}
	if i := strings.IndexFunc(version, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); i > 0 {
		version = version[:i]
	}
	return version
}

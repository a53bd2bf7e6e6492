package sqlboxes

import (
	"context"
	"database/sql"
	"log/slog"
	"sync"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/integration/proxy"
	"github.com/rehop/rehop/outbox"
)

// server is a database with rehop's tables, and a proxy in front of it.
type server struct {
	*lab.Database
	dialect dialect.Dialect
	direct  *sql.DB // not through the proxy
	proxy   *proxy.Proxy
}

// kind is a kind of database.
type kind struct {
	name    string
	open    func(testing.TB) *lab.Database // an empty one
	dialect dialect.Dialect
}

// onPostgres is for tests of what only PostgreSQL has.
func onPostgres() kind { return kind{"PostgreSQL", lab.Postgres, dialect.Postgres} }

// eachKind runs a test on each kind of database that has a server.
func eachKind(t *testing.T, test func(*testing.T, kind)) {
	t.Helper()
	for _, k := range []kind{onPostgres(), {"MariaDB", lab.MariaDB, dialect.MySQL}, {"MySQL", lab.MySQL, dialect.MySQL}} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, k)
		})
	}
}

// eachServer runs a test on each of them, with rehop's tables and a proxy.
func eachServer(t *testing.T, test func(*testing.T, *server)) {
	t.Helper()
	eachKind(t, func(t *testing.T, k kind) {
		s := &server{Database: k.open(t), dialect: k.dialect}
		s.direct = s.Open(t)
		if err := s.dialect.Migrate(kit.Context(t), s.direct); err != nil {
			t.Fatal(err)
		}
		var err error
		if s.proxy, err = proxy.New(s.Address(t)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.proxy.Close() })
		test(t, s)
	})
}

// through opens a pool of connections through the proxy.
func (s *server) through(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(s.Driver, s.Through(t, s.proxy.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// put commits messages for the queue q, past the proxy.
func (s *server) put(t testing.TB, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := outbox.New(s.dialect).PublishNow(kit.Context(t), s.direct, rehop.Message{ID: id, Key: "q"}); err != nil {
			t.Fatal(err)
		}
	}
}

// relay runs a relay until the function that it returns is called, which waits for its end.
func (s *server) relay(t testing.TB, r outbox.Relay) (stop func()) {
	r.Dialect, r.Logger = s.dialect, slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Errorf("relay: got %v, want nil", err)
		}
	})
	return func() {
		cancel()
		s.proxy.Thaw()
		running.Wait()
	}
}

// awaitEmpty waits until nothing is left in the outbox.
func (s *server) awaitEmpty(t testing.TB) {
	t.Helper()
	lab.Eventually(t, kit.Limit, "the outbox is empty", func() bool {
		var rows int
		if err := s.direct.QueryRowContext(kit.Context(t), "SELECT COUNT(*) FROM rehop_outbox").Scan(&rows); err != nil {
			t.Fatal(err)
		}
		return rows == 0
	})
}

package sqlboxes

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/integration/proxy"
	"github.com/rehop/rehop/outbox"
)

// impatient opens a pool whose server gives up waiting for a lock after a moment.
func (s *server) impatient(t testing.TB, source string) *sql.DB {
	t.Helper()
	setting := map[dialect.Dialect]string{dialect.Postgres: "lock_timeout=300ms", dialect.MySQL: "innodb_lock_wait_timeout=1"}[s.dialect]
	and := "?"
	if strings.Contains(source, "?") {
		and = "&"
	}
	db, err := sql.Open(s.Driver, source+and+setting)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// collect has a client put what comes into the queue q into a channel.
func collect(t testing.TB) (*rehop.Client, <-chan *rehop.Delivery) {
	t.Helper()
	client := kit.Open(t, rehop.Config{URL: lab.Single(t).URL})
	got := make(chan *rehop.Delivery, 1000)
	kit.Subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: kit.Into(got)})
	return client, got
}

func ids(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

// Somebody has locked the row of a message that is published, and the server does not wait for the lock as long as the relay would. Other
// messages continue.
func TestLockedRowAndShortLockTimeout(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, d *server) {
		const n = 64
		client, got := collect(t)
		d.put(t, ids("first ", n)...)
		locking, err := d.direct.BeginTx(kit.Context(t), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = locking.Rollback() }()
		if err := locking.QueryRowContext(kit.Context(t), "SELECT id FROM rehop_outbox WHERE message_id = 'first 0' FOR UPDATE").Scan(new(int64)); err != nil {
			t.Fatal(err)
		}
		defer d.relay(t, outbox.Relay{Client: client, DB: d.impatient(t, d.Source)})()
		for range n {
			kit.Receive(t, got, "message, the locked one too")
		}
		d.put(t, ids("later ", n)...)
		for range n {
			kit.Receive(t, got, "message while a row is locked")
		}
	})
}

// A connection vanishes at COMMIT with the row of its relay locked, and the server does not wait for that lock as long as a lease lasts. The
// relay continues under another name.
func TestVanishedAndShortLockTimeout(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, d *server) {
		if d.dialect != dialect.MySQL {
			return // PostgreSQL locks nothing there
		}
		held := d.vanish(d.commit(), 2)
		client, got := collect(t)
		defer d.relay(t, outbox.Relay{Client: client, DB: d.impatient(t, d.Through(t, d.proxy.Addr()))})()
		kit.Receive(t, held, "COMMIT")
		const n = 32
		d.put(t, ids("", n)...)
		for range n {
			kit.Receive(t, got, "message")
		}
	})
}

// A relay can renew its leases and cannot read messages. Another one publishes them.
func TestRelayThatCannotRead(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, d *server) {
		client, got := collect(t)
		d.proxy.SetPlan(func(int) proxy.Plan {
			return proxy.Plan{Trap: proxy.Trap{Text: "UNION ALL", Hold: make(chan struct{})}} // it reads all lanes at once
		})
		leases := make(leaseHook, 1000)
		defer d.relay(t, outbox.Relay{Client: client, DB: d.through(t), Name: "cannot read", Hooks: []outbox.Hooks{{OnLease: leases.OnLease}}})()
		leases.await(t, "gained", func(l outbox.Lease) bool { return l.Gained })
		defer d.relay(t, outbox.Relay{Client: client, DB: d.direct, Name: "healthy"})()
		const n = 64
		d.put(t, ids("", n)...)
		seen := make(map[string]bool)
		for len(seen) < n {
			seen[kit.Receive(t, got, "message").ID] = true
		}
		d.proxy.Cut("")
	})
}

package sqlboxes

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/outbox"
)

// The database is away for longer than a lease, just when the broker has confirmed messages. The relay loses its leases, and still knows
// afterwards what was confirmed: it deletes those rows and does not publish them again.
func TestOutageLongerThanLease(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, d *server) {
		db := d.through(t)
		client := kit.Open(t, rehop.Config{URL: lab.Single(t).URL})
		got := make(chan *rehop.Delivery, 1000)
		kit.Subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: kit.Into(got)})
		leases := make(leaseHook, 1000)
		freezing := &freezer{Publisher: client, freeze: sync.OnceFunc(func() { d.proxy.Freeze("") })}
		defer d.relay(t, outbox.Relay{Client: freezing, DB: db, Lease: 2 * time.Second, Hooks: []outbox.Hooks{{OnLease: leases.OnLease}}})()
		d.put(t, "1", "2", "3")
		leases.await(t, "lost", func(l outbox.Lease) bool { return !l.Gained })
		d.proxy.Thaw()
		leases.await(t, "gained", func(l outbox.Lease) bool { return l.Gained })
		d.put(t, "last")
		times := make(map[string]int)
		for times["last"] == 0 {
			times[kit.Receive(t, got, "message").ID]++
		}
		d.awaitEmpty(t)
		for len(got) > 0 {
			times[(<-got).ID]++
		}
		// The relay may have read a part of them before the outage.
		for _, id := range []string{"1", "2", "3", "last"} {
			if times[id] != 1 {
				t.Errorf("message %s: got it %d times, want once", id, times[id])
			}
		}
	})
}

// Somebody has locked the row of a message that the broker has confirmed, for longer than the relay has its lease. The relay still knows then that the
// message was published: it deletes the row when it can, and does not publish it again.
func TestLockedLongerThanLease(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, d *server) {
		db := d.through(t)
		client := kit.Open(t, rehop.Config{URL: lab.Single(t).URL})
		got := make(chan *rehop.Delivery, 1000)
		kit.Subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: kit.Into(got)})
		d.put(t, "locked")
		locking, err := d.direct.BeginTx(kit.Context(t), &sql.TxOptions{Isolation: sql.LevelReadCommitted}) // which locks no gaps
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = locking.Rollback() }()
		if err := locking.QueryRowContext(kit.Context(t), "SELECT id FROM rehop_outbox FOR UPDATE").Scan(new(int64)); err != nil {
			t.Fatal(err)
		}
		leases, batches := make(leaseHook, 1000), make(batchHook, 1000)
		defer d.relay(t, outbox.Relay{Client: client, DB: db, Lease: 4 * time.Second, Hooks: []outbox.Hooks{{OnLease: leases.OnLease, OnBatch: batches.OnBatch}}})()
		times := make(map[string]int)
		times[kit.Receive(t, got, "message").ID]++
		kit.Receive(t, batches, "the batch, whose row could not be deleted")
		d.proxy.Freeze("")
		leases.await(t, "lost", func(l outbox.Lease) bool { return !l.Gained })
		d.proxy.Thaw()
		leases.await(t, "gained", func(l outbox.Lease) bool { return l.Gained })
		d.put(t, "last")
		for times["last"] == 0 {
			times[kit.Receive(t, got, "message").ID]++
		}
		if err := locking.Rollback(); err != nil {
			t.Fatal(err)
		}
		d.awaitEmpty(t)
		for len(got) > 0 {
			times[(<-got).ID]++
		}
		if times["locked"] != 1 || times["last"] != 1 {
			t.Errorf("got %v, want each message once", times)
		}
	})
}

// freezer is a publisher that has the database vanish when the broker has confirmed messages, and before the relay knows.
type freezer struct {
	outbox.Publisher
	freeze func()
}

func (f *freezer) PublishEach(ctx context.Context, messages []rehop.Message, settled func(int, error)) {
	outcomes := make([]error, len(messages))
	f.Publisher.PublishEach(ctx, messages, func(i int, err error) { outcomes[i] = err })
	f.freeze()
	for i, err := range outcomes {
		settled(i, err)
	}
}

// leaseHook keeps what a relay reports of its leases.
type leaseHook chan outbox.Lease

func (h leaseHook) OnLease(l outbox.Lease) { h <- l }

// batchHook keeps what a relay reports of its batches.
type batchHook chan outbox.Batch

func (h batchHook) OnBatch(b outbox.Batch) { h <- b }

func (h leaseHook) await(t testing.TB, what string, is func(outbox.Lease) bool) {
	t.Helper()
	for !is(kit.Receive(t, h, "leases "+what)) {
	}
}

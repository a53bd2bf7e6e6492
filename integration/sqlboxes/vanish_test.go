package sqlboxes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/integration/proxy"
	"github.com/rehop/rehop/outbox"
)

// Connections to the database die without a word, as when its machine is lost or a failover moves its address. The relays find new ones,
// and do not stand still with their leases until the operating system gives up.
func TestVanished(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, d *server) {
		client := kit.Open(t, rehop.Config{URL: lab.Single(t).URL})
		got := make(chan string, 100)
		kit.Subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			got <- d.ID
			return nil
		})})
		for range 2 {
			db := d.through(t)
			db.SetMaxIdleConns(4)
			defer d.relay(t, outbox.Relay{Client: client, DB: db})()
		}
		d.put(t, "before")
		if id := kit.Receive(t, got, "message before"); id != "before" {
			t.Errorf("got %q, want before", id)
		}
		d.proxy.Strand()
		missing := make(map[string]bool)
		for i := range 16 {
			missing[fmt.Sprint(i)] = true
			d.put(t, fmt.Sprint(i))
		}
		for len(missing) > 0 {
			delete(missing, kit.Receive(t, got, fmt.Sprintf("message after the connections died; %d are missing", len(missing))))
		}
	})
}

// Connections die without a word when the relay begins its work, or just when it commits: then the server keeps the locks of the
// transaction, because it does not learn that the client is gone. The relay gives the connections up and continues with others.
func TestVanishedAt(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, d *server) {
		starts := map[dialect.Dialect]string{dialect.Postgres: "synchronous_commit", dialect.MySQL: "flush_log_at_trx_commit"}
		t.Run("start", func(t *testing.T) { vanishesAt(t, d, starts[d.dialect], 1) })
		t.Run("commit", func(t *testing.T) { vanishesAt(t, d, d.commit(), 2) })
	})
}

// commit is a text that a connection carries when it commits.
func (d *server) commit() string {
	if d.dialect == dialect.Postgres {
		return "commit\x00"
	}
	return "COMMIT"
}

// vanish has the first connections die without a word when they carry a text, and reports each.
func (d *server) vanish(text string, bad int64) (held <-chan struct{}) {
	told := make(chan struct{}, 100)
	var connections atomic.Int64
	d.proxy.SetPlan(func(int) proxy.Plan {
		if connections.Add(1) > bad {
			return proxy.Plan{}
		}
		return proxy.Plan{Trap: proxy.Trap{Text: text, Hold: make(chan struct{}), Sprung: func() { told <- struct{}{} }}}
	})
	return told
}

// vanishOnce has one connection die without a word when it carries a text, and reports it. On a slow machine that need not be the first
// connection: a timeout can end its transaction before.
func (d *server) vanishOnce(text string) (held <-chan struct{}) {
	told := make(chan struct{}, 100)
	var dead atomic.Bool
	d.proxy.SetPlan(func(int) proxy.Plan {
		if dead.Load() {
			return proxy.Plan{}
		}
		return proxy.Plan{Trap: proxy.Trap{Text: text, Hold: make(chan struct{}), Sprung: func() { dead.Store(true); told <- struct{}{} }}}
	})
	return told
}

// Connections break when a relay that was stopped gives its leases back on them. It does so on another one.
func TestStopOnBrokenConnections(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, d *server) {
		broke := make(chan struct{}, 100)
		var broken atomic.Bool
		d.proxy.SetPlan(func(int) proxy.Plan {
			if broken.Load() {
				return proxy.Plan{}
			}
			return proxy.Plan{Trap: proxy.Trap{Text: "owner = '', term", Sprung: func() { broken.Store(true); broke <- struct{}{} }}}
		})
		client := kit.Open(t, rehop.Config{URL: lab.Single(t).URL})
		leases := make(leaseHook, 1000)
		// It tries for as long as its leases last.
		stop := d.relay(t, outbox.Relay{Client: client, DB: d.through(t), Lease: time.Hour, Hooks: []outbox.Hooks{{OnLease: leases.OnLease}}})
		leases.await(t, "gained", func(l outbox.Lease) bool { return l.Gained })
		stop()
		kit.Receive(t, broke, "broken connection")
		var kept, relays int
		if err := d.direct.QueryRowContext(kit.Context(t), "SELECT COUNT(*), (SELECT COUNT(*) FROM rehop_outbox_relay) FROM rehop_outbox_lease WHERE owner <> ''").Scan(&kept, &relays); err != nil {
			t.Fatal(err)
		}
		if kept > 0 || relays > 0 {
			t.Errorf("got %d leases that were not given back, and %d relays that did not sign off; want none", kept, relays)
		}
	})
}

// A connection dies without a word when it carries the COMMIT of PublishNow. The caller has the answer when its context ends.
func TestPublishNowVanished(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, d *server) {
		held := d.vanish(d.commit(), 1)
		ctx, cancel := context.WithCancel(kit.Context(t))
		published := make(chan error, 1)
		db := d.through(t)
		go func() {
			published <- outbox.New(d.dialect).PublishNow(ctx, db, rehop.Message{Key: "q"})
		}()
		kit.Receive(t, held, "COMMIT")
		cancel()
		if err := kit.Receive(t, published, "end of PublishNow"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	})
}

// A connection dies without a word when it carries the COMMIT of an inbox. The handler's timeout ends that, and its worker handles other
// messages. When the server has noticed, the message is handled again.
func TestInboxVanished(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, d *server) {
		held := d.vanishOnce(d.commit())
		w := d.work(t, time.Second)
		w.publish("1")
		w.wantHandled("1")
		kit.Receive(t, held, "COMMIT")
		w.publish("2")
		w.wantHandled("2")
		d.proxy.Cut("")
		w.wantHandled("1")
	})
}

// A connection breaks when it carries the COMMIT of an inbox. The worker is free at once, and the message is handled again.
func TestInboxCutAtCommit(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, d *server) {
		var connections atomic.Int64
		d.proxy.SetPlan(func(int) proxy.Plan {
			if connections.Add(1) > 1 {
				return proxy.Plan{}
			}
			return proxy.Plan{Trap: proxy.Trap{Text: d.commit()}}
		})
		w := d.work(t, time.Hour)
		w.publish("1")
		w.wantHandled("1")
		w.wantHandled("1")
		w.publish("2")
		w.wantHandled("2")
	})
}

// worker handles messages with an inbox whose database is behind the proxy, one at a time.
type worker struct {
	t      *testing.T
	client *rehop.Client
	got    chan string
}

func (d *server) work(t *testing.T, timeout time.Duration) *worker {
	t.Helper()
	w := &worker{t, kit.Open(t, rehop.Config{URL: lab.Single(t).URL}), make(chan string, 100)}
	box := inbox.Inbox{DB: d.through(t), Dialect: d.dialect, ManualClean: true, MaxWait: 100 * time.Millisecond}
	kit.Subscribe(t, w.client, rehop.Subscriber{Queue: "q", Concurrency: 1, Timeout: timeout, Retry: rehop.Steps(slices.Repeat([]time.Duration{time.Millisecond}, 100)...),
		Middleware: []rehop.Middleware{box.Middleware("")},
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			w.got <- d.ID
			return nil
		})})
	return w
}

func (w *worker) publish(id string) {
	w.t.Helper()
	if err := w.client.Publish(kit.Context(w.t), rehop.Message{ID: id, Key: "q"}); err != nil {
		w.t.Fatal(err)
	}
}

// wantHandled waits until a message is handled. Others may be handled again before, whose connections broke with it.
func (w *worker) wantHandled(id string) {
	w.t.Helper()
	for kit.Receive(w.t, w.got, "message "+id) != id {
	}
}

// vanishesAt has the first connections die when they carry a text.
func vanishesAt(t *testing.T, d *server, text string, bad int64) {
	held := d.vanish(text, bad)
	client := kit.Open(t, rehop.Config{URL: lab.Single(t).URL})
	got := make(chan *rehop.Delivery, 100)
	kit.Subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: kit.Into(got)})
	defer d.relay(t, outbox.Relay{Client: client, DB: d.through(t)})()
	kit.Receive(t, held, text)
	d.put(t, rehop.NewID())
	kit.Receive(t, got, "message")
}

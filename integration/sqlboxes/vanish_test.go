package sqlboxes

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
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
		kit.Subscribe(t, client, rehop.Subscription{Queue: "q", Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
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
// transaction, because nobody tells it that the client is gone. The relay gives the connections up and continues with others.
func TestVanishedAt(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, d *server) {
		starts := map[dialect.Dialect]string{dialect.Postgres: "synchronous_commit", dialect.MySQL: "flush_log_at_trx_commit"}
		t.Run("start", func(t *testing.T) { vanishesAt(t, d, starts[d.dialect], 1) })
		commits := map[dialect.Dialect]string{dialect.Postgres: "commit\x00", dialect.MySQL: "COMMIT"}
		t.Run("commit", func(t *testing.T) { vanishesAt(t, d, commits[d.dialect], 2) })
	})
}

// vanishesAt has the first connections die when they carry a text.
func vanishesAt(t *testing.T, d *server, text string, bad int64) {
	held := make(chan struct{}, 100)
	var connections atomic.Int64
	d.proxy.SetPlan(func(int) proxy.Plan {
		if connections.Add(1) > bad {
			return proxy.Plan{}
		}
		return proxy.Plan{Trap: proxy.Trap{Text: text, Hold: make(chan struct{}), Sprung: func() { held <- struct{}{} }}}
	})
	client := kit.Open(t, rehop.Config{URL: lab.Single(t).URL})
	got := make(chan *rehop.Delivery, 100)
	kit.Subscribe(t, client, rehop.Subscription{Queue: "q", Handler: kit.Into(got)})
	defer d.relay(t, outbox.Relay{Client: client, DB: d.through(t)})()
	kit.Receive(t, held, text)
	d.put(t, rehop.NewID())
	kit.Receive(t, got, "message")
}

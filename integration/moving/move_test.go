// Package moving tests the move from one cluster to one of a later release, as docs/upgrade.md describes it, with messages that wait for their next attempt,
// are delayed, or have failed.
package moving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/layouts"
)

const each = 50 // messages of each kind

// The releases between which the move is tested.
const before, after = "3.10", "4.3"

// cluster is one side of the move.
type cluster struct {
	*lab.Rabbit
	client *rehop.Client
	admin  *admin.Admin
}

func newCluster(t *testing.T, ctx context.Context, r *lab.Rabbit) *cluster {
	t.Helper()
	a, err := admin.Open(ctx, admin.Config{URL: r.URL, Management: r.Management()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return &cluster{r, kit.Open(t, config(r.URL)), a}
}

func config(url string) rehop.Config {
	return rehop.Config{URL: url, Exchanges: []rehop.Exchange{{Name: "order"}}}
}

func subscription(h rehop.Handler) rehop.Subscriber {
	return rehop.Subscriber{Queue: "orders", Exchange: "order", Keys: []string{"order.#"}, Retry: rehop.Steps(time.Hour), Handler: h}
}

// waiting are the queues of a cluster in which messages wait, and how many there are.
func (c *cluster) waiting(t *testing.T) map[string]int {
	t.Helper()
	live, err := c.admin.Live(kit.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]int)
	ch := c.Channel()
	for _, q := range live.Queues {
		if layouts.IsWaitQueue(q.Name) {
			if n := c.Depth(ch, q.Name); n > 0 {
				all[q.Name] = n
			}
		}
	}
	return all
}

// A cluster of an old release is replaced by one of a new release. What waits for its next attempt or was published with a delay is moved by shovels, what has
// failed by an export and an import, and what is ready is handled where it is. Nothing is lost, nothing is handled twice, attempts are counted on.
func TestMove(t *testing.T) {
	t.Parallel()
	ctx := kit.Timeout(t, 5*kit.Limit)
	from, to := newCluster(t, ctx, lab.SingleOf(t, before)), newCluster(t, ctx, lab.AloneOf(t, after))
	to.Plugin("rabbitmq_shovel", "rabbitmq_shovel_management")

	// The old cluster: some messages fail once and wait for an hour, some fail for good, some are delayed.
	handled, here := &kit.Tally{}, &kit.Tally{}
	first := kit.Subscribe(t, from.client, subscription(rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		switch {
		case strings.HasPrefix(d.ID, "waits"):
			return errors.New("not now")
		case strings.HasPrefix(d.ID, "fails"):
			return rehop.Permanent(errors.New("broken"))
		}
		handled.Add(d.ID)
		here.Add(d.ID)
		return nil
	})))
	for i := range each {
		kit.Publish(t, from.client,
			rehop.Message{Exchange: "order", Key: "order.waits", ID: fmt.Sprint("waits", i), Headers: map[string]any{"kept": "yes"}},
			rehop.Message{Exchange: "order", Key: "order.fails", ID: fmt.Sprint("fails", i)},
			rehop.Message{Exchange: "order", Key: "order.later", ID: fmt.Sprint("later", i), Delay: time.Hour},
			rehop.Message{Exchange: "order", Key: "order.now", ID: fmt.Sprint("now", i)})
	}

	// The new cluster has the same topology, publishers go there, and consumers are on both.
	plan, err := rehop.Topology(config(to.URL), subscription(kit.Nop))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := to.admin.Apply(ctx, plan, admin.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	// An hour is long for a test: on the new cluster, a policy makes it short.
	to.API("PUT", "/api/policies/"+to.Vhost+"/soon", map[string]any{"pattern": `^rehop\.(step|delay)\.`, "apply-to": "queues", "definition": map[string]any{"message-ttl": 100}}, nil)
	// Delayed messages need levels that no subscription plans: a publisher declares them. This one is to be handled at the end, too.
	kit.Publish(t, to.client, rehop.Message{Exchange: "order", Key: "order.later", ID: "later-there", Delay: time.Hour})
	attempts := &kit.Tally{}
	kit.Subscribe(t, to.client, subscription(rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		handled.Add(d.ID)
		attempts.Add(fmt.Sprintf("%.5s %s %s %d", d.ID, d.Exchange, d.Key, d.Attempt))
		if strings.HasPrefix(d.ID, "waits") && d.Headers["kept"] != "yes" {
			t.Errorf("message %s has lost its headers: %v", d.ID, d.Headers)
		}
		return nil
	})))

	// The old queue is drained by its consumers, and they end.
	ch := from.Channel()
	lab.Eventually(t, kit.Limit, "all messages of the old cluster have been handled once", func() bool {
		return from.Depth(ch, "orders") == 0 && from.Depth(ch, "orders.failed") == each && from.Depth(ch, "rehop.step.1h") == each && here.Sum() == each
	})
	kit.Drain(t, first)

	// What waits goes to the exchange of its queue, with its key and headers.
	for queue := range from.waiting(t) {
		to.shovel(t, from, queue)
	}
	lab.Eventually(t, kit.Limit, "nothing waits on the old cluster", func() bool { return len(from.waiting(t)) == 0 })
	// What has failed is exported, imported, and only then dropped.
	var file bytes.Buffer
	if n, err := from.admin.Export(ctx, "orders", &file, admin.Filter{}); err != nil || n != each {
		t.Fatalf("export: got %d %v, want %d", n, err, each)
	}
	if n, err := to.admin.Import(ctx, &file); err != nil || n != each {
		t.Fatalf("import: got %d %v, want %d", n, err, each)
	}
	if _, err := from.admin.Discard(ctx, "orders", admin.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := to.admin.Replay(ctx, "orders", admin.Options{}); err != nil {
		t.Fatal(err)
	}

	there := to.Channel()
	lab.Eventually(t, kit.Limit, "everything is handled, and nothing is left", func() bool {
		return handled.Len() == 4*each+1 && len(to.waiting(t)) == 0 && to.Depth(there, "orders") == 0
	})
	handled.WantSum(t, "messages that were handled", 4*each+1)
	for what, want := range map[string]int{"waits order order.waits 2": each, "later order order.later 1": each + 1, "fails order order.fails 1": each} {
		if got := attempts.Of(what); got != want {
			t.Errorf("handled with id, exchange, key and attempt %q: got %d, want %d", what, got, want)
		}
	}
	for queue, r := range map[string]*cluster{"orders": from, "orders.failed": from, "rehop.orphans": to, "rehop.unrouted": to} {
		ch := ch
		if r == to {
			ch = there
		}
		kit.WantDepth(t, r.Rabbit, ch, queue, 0)
	}
}

// shovel moves what is in a queue where messages wait to the exchange of that queue, at least once.
func (c *cluster) shovel(t *testing.T, from *cluster, queue string) {
	t.Helper()
	exchange := queue // a level of the cascade has an exchange of its own
	if strings.HasPrefix(queue, "rehop.step.") {
		exchange = layouts.StepExchange
	}
	c.API("PUT", "/api/parameters/shovel/"+c.Vhost+"/"+url.PathEscape(queue), map[string]any{"value": map[string]any{
		"src-protocol": "amqp091", "src-uri": from.URL, "src-queue": queue,
		"dest-protocol": "amqp091", "dest-uri": c.URL, "dest-exchange": exchange,
		"ack-mode": "on-confirm",
	}}, nil)
}

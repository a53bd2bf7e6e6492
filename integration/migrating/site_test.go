// Package migrating tests that queues get other arguments without losing a message, on a real RabbitMQ and on the embedded broker.
package migrating

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

func TestMain(m *testing.M) {
	if orders := os.Getenv(migratorRole); orders != "" {
		os.Exit(beMigrator(orders))
	}
	kit.Main(m, 8)
}

// settle is short: nothing comes by a queue's name except in some tests.
const settle = 50 * time.Millisecond

// site is a virtual host with an admin, and a channel for what is done by hand.
type site struct {
	t      *testing.T
	ctx    context.Context
	rabbit *lab.Rabbit
	admin  *admin.Admin
	ch     *amqp.Channel
}

func newSite(t *testing.T, r *lab.Rabbit) *site {
	t.Helper()
	limit := 15 * time.Minute // on RabbitMQ each migration waits for statistics
	if long() {
		limit = 55 * time.Minute
	}
	s := &site{t: t, ctx: kit.Timeout(t, limit), rabbit: r, ch: r.Channel()}
	s.admin = s.openAdmin(r.URL, r.Management())
	return s
}

func (s *site) openAdmin(url, management string) *admin.Admin {
	s.t.Helper()
	a, err := admin.Open(s.ctx, admin.Config{URL: url, Management: management})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(a.Close)
	return a
}

// plan is everything that subscriptions need.
func plan(t *testing.T, subscriptions ...rehop.Subscriber) topology.Plan {
	t.Helper()
	p, err := rehop.Topology(rehop.Config{}, subscriptions...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// orders is the subscription that most tests migrate.
func orders(change func(*rehop.Subscriber)) rehop.Subscriber {
	s := rehop.Subscriber{Queue: "orders", Exchange: "order", Keys: []string{"order.#", "*.paid"}, Retry: rehop.Steps(time.Second)}
	if change != nil {
		change(&s)
	}
	return s
}

func classic(s *rehop.Subscriber) { s.QueueType = layout.Classic }

func (s *site) apply(p topology.Plan) {
	s.t.Helper()
	if _, err := s.admin.Apply(s.ctx, p, admin.ApplyOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) migrate(p topology.Plan, queue string, o admin.MigrateOptions) admin.Migration {
	s.t.Helper()
	o.Settle = settle
	m, err := s.admin.Migrate(s.ctx, p, queue, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// fill publishes n messages to an exchange, by hand, with ids from first on.
func (s *site) fill(exchange, key string, first, n int) {
	s.t.Helper()
	ch := s.rabbit.Channel()
	if err := ch.Confirm(false); err != nil {
		s.t.Fatal(err)
	}
	confirms := make([]*amqp.DeferredConfirmation, n)
	for i := range n {
		var err error
		confirms[i], err = ch.PublishWithDeferredConfirm(exchange, key, true, false, amqp.Publishing{
			MessageId: id(first + i), DeliveryMode: amqp.Persistent, Body: []byte(id(first + i)), Headers: amqp.Table{"n": int64(first + i)},
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	for i, c := range confirms {
		if ok, err := c.WaitContext(s.ctx); !ok || err != nil {
			s.t.Fatalf("message %d was not confirmed: %v", i, err)
		}
	}
	if err := ch.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// wantPlanned checks that the broker has the plan, and nothing that was there for the migration.
func (s *site) wantPlanned(p topology.Plan) {
	s.t.Helper()
	diff, err := s.admin.Diff(s.ctx, p)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(diff) > 0 {
		s.t.Errorf("the broker differs from the plan:\n%s", diff)
	}
	live, err := s.admin.Live(s.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	left := make(map[string]bool)
	for _, x := range live.Exchanges {
		left[x.Name] = true
	}
	for _, q := range live.Queues {
		left[q.Name] = true
	}
	for name := range left {
		if strings.HasPrefix(name, "rehop.migrating.") || strings.HasPrefix(name, "rehop.aside.") ||
			strings.HasPrefix(name, "rehop.letters.") || strings.HasPrefix(name, "rehop.pause.") ||
			strings.HasPrefix(name, "rehop.back.") || strings.HasPrefix(name, "rehop.lock.") {
			s.t.Errorf("%q is left over; there are %q", name, slices.Sorted(maps.Keys(left)))
		}
	}
}

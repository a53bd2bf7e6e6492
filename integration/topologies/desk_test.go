// Package topologies tests on RabbitMQ and on the embedded broker that a plan can be compared, applied and exported.
package topologies

import (
	"context"
	"fmt"
	"maps"
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

func TestMain(m *testing.M) { kit.Main(m, 8) }

// desk is a virtual host with an admin who sees the management API, one who has AMQP alone, and a channel for what
// is done by hand.
type desk struct {
	t      *testing.T
	ctx    context.Context
	rabbit *lab.Rabbit
	admin  *admin.Admin
	blind  *admin.Admin
	ch     *amqp.Channel
}

// each runs a test on both brokers.
func each(t *testing.T, test func(*desk)) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		test(newDesk(t, r))
	})
}

func newDesk(t *testing.T, r *lab.Rabbit) *desk {
	t.Helper()
	d := &desk{t: t, ctx: kit.Timeout(t, 5*kit.Limit), rabbit: r, ch: r.Channel()}
	d.admin = d.open(admin.Config{URL: r.URL, Management: r.Management()})
	d.blind = d.open(admin.Config{URL: r.URL})
	return d
}

func (d *desk) open(config admin.Config) *admin.Admin {
	d.t.Helper()
	a, err := admin.Open(d.ctx, config)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(a.Close)
	return a
}

func (d *desk) diff(a *admin.Admin, plan topology.Plan) topology.Diff {
	d.t.Helper()
	diff, err := a.Diff(d.ctx, plan)
	if err != nil {
		d.t.Fatal(err)
	}
	return diff
}

func (d *desk) apply(a *admin.Admin, plan topology.Plan) admin.Applied {
	d.t.Helper()
	applied, err := a.Apply(d.ctx, plan, admin.ApplyOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	return applied
}

// wantSame checks that a broker differs from a plan in nothing.
func (d *desk) wantSame(plan topology.Plan) {
	d.t.Helper()
	if diff := d.diff(d.admin, plan); len(diff) > 0 {
		d.t.Errorf("got %swant no differences", diff)
	}
}

// wantDiff compares the differences, in short.
func (d *desk) wantDiff(a *admin.Admin, plan topology.Plan, want ...string) {
	d.t.Helper()
	var got []string
	for _, x := range d.diff(a, plan) {
		line := fmt.Sprintf("%s %s %s", x.Kind, x.Object.Kind, x.Object.Name)
		if x.Object.Key != "" {
			line += " key " + x.Object.Key
		}
		if x.Argument != "" {
			line += fmt.Sprintf(" %s %v→%v", x.Argument, x.Have, x.Want)
		}
		if x.Policy != "" {
			line += " by " + x.Policy
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		d.t.Errorf("differences:\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// objects is how many exchanges, queues and bindings of somebody's own there are.
func (d *desk) objects() int {
	d.t.Helper()
	live, err := d.admin.Live(d.ctx)
	if err != nil {
		d.t.Fatal(err)
	}
	n := len(live.Queues) + len(live.Bindings) + len(live.Policies)
	for _, x := range live.Exchanges {
		if x.Name != "" && !strings.HasPrefix(x.Name, "amq.") {
			n++
		}
	}
	return n
}

// subscriptions are one of each layout.
var subscriptions = map[string]rehop.Subscriber{
	"native":   {Queue: "orders/ü %2F", Exchange: "order", Keys: []string{"order.created", "order.#"}},
	"bounded":  {Queue: "bounded", Exchange: "order", MaxLength: 100, Retry: rehop.Steps(time.Second)},
	"pubsub":   {Queue: "billing@summary", Exchange: "master", Keys: []string{"order.#"}, Layout: layout.PubSub{}},
	"dlx":      {Queue: "dlx-orders", Exchange: "orders", Keys: []string{"order.#"}, Layout: layout.DLX{}},
	"tiers":    {Queue: "notify", Exchange: "order", Keys: []string{"order.#"}, Layout: layout.Tiers{}},
	"sneakers": {Queue: "downloads", Layout: layout.Sneakers{}},
	"envelope": {Queue: "order.main.q", Layout: layout.Envelope{}},
	"quorum":   {Queue: "order.main.q", Layout: layout.Envelope{}, QueueType: layout.Quorum},
}

// names of the layouts, in order.
func names() []string { return slices.Sorted(maps.Keys(subscriptions)) }

func plan(t testing.TB, subs ...rehop.Subscriber) topology.Plan {
	t.Helper()
	return planWith(t, rehop.Config{}, subs...)
}

func planWith(t testing.TB, config rehop.Config, subs ...rehop.Subscriber) topology.Plan {
	t.Helper()
	p, err := rehop.Topology(config, subs...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// everything is the plan of all layouts together, with names that are hard to write. Most queues are classic, which
// RabbitMQ makes much faster.
func everything(t testing.TB) topology.Plan {
	t.Helper()
	var all topology.Plan
	for _, name := range names() {
		s := subscriptions[name]
		switch name {
		case "quorum": // the same queue as another
			continue
		case "tiers":
			s.Layout = layout.Tiers{Type: layout.Classic}
		}
		if err := all.Merge(planWith(t, rehop.Config{QueueType: layout.Classic}, s)); err != nil {
			t.Fatal(err)
		}
	}
	hard := `a/b%2F#&?"'<>\ ä名😀|$^.*`
	all.Exchanges = append(all.Exchanges, topology.Exchange{Name: hard, Type: "headers"})
	all.Queues = append(all.Queues, topology.Queue{Name: hard, Args: topology.Args{"x-dead-letter-exchange": hard, "x-max-priority": int64(3)}})
	all.Bindings = append(all.Bindings, topology.Binding{Source: hard, Destination: hard, Key: hard, Args: topology.Args{"x-match": "any", hard: hard, "n": int64(1), "b": true}},
		topology.Binding{Source: "amq.topic", Destination: hard, Key: hard})
	return all
}

// queue is a queue that a test declares by hand, in the plan's place.
func (d *desk) queue(name string, args amqp.Table) {
	d.t.Helper()
	if _, err := d.ch.QueueDeclare(name, true, false, false, false, args); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) policy(name, pattern string, priority int, definition map[string]any) {
	d.t.Helper()
	d.rabbit.API("PUT", "/api/policies/"+d.rabbit.Vhost+"/"+name,
		map[string]any{"pattern": pattern, "apply-to": "all", "priority": priority, "definition": definition}, nil)
}

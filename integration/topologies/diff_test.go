package topologies

import (
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// A broker that has nothing: both ways see it, and neither makes anything.
func TestDiffOfNothing(t *testing.T) {
	each(t, func(d *desk) {
		p := everything(d.t)
		if got, want := len(d.diff(d.admin, p).Of(topology.Missing)), len(p.Exchanges)+len(p.Queues)+len(p.Bindings); got != want {
			d.t.Errorf("got %d missing, want %d", got, want)
		}
		if got, want := len(d.diff(d.blind, p).Of(topology.Missing)), len(p.Exchanges)+len(p.Queues); got != want {
			d.t.Errorf("through AMQP alone: got %d missing, want %d", got, want)
		}
		if got := d.objects(); got != 0 {
			d.t.Errorf("then there are %d objects, want none: to compare must make nothing", got)
		}
	})
}

// What differs in arguments and kinds is found by both ways, all of it.
func TestDiffOfDeclarations(t *testing.T) {
	each(t, func(d *desk) {
		exchange := func(name, kind string, args amqp.Table) {
			d.t.Helper()
			if err := d.ch.ExchangeDeclare(name, kind, true, false, false, false, args); err != nil {
				d.t.Fatal(err)
			}
		}
		exchange("kind", "direct", nil)
		exchange("alternate", "fanout", amqp.Table{"alternate-exchange": "b"})
		exchange("both", "direct", nil)
		exchange("same", "direct", nil)
		d.queue("ttl", amqp.Table{"x-message-ttl": int32(6000), "x-dead-letter-exchange": "kind", "x-queue-mode": "lazy"})
		d.queue("type", nil)
		d.queue("said", nil)
		d.queue("same", amqp.Table{"x-single-active-consumer": true, "x-dead-letter-exchange": "kind", "x-max-length": int16(3)})
		if _, err := d.ch.QueueDeclare("brief", true, true, false, false, amqp.Table{"x-max-length": int64(1)}); err != nil {
			d.t.Fatal(err)
		}
		p := topology.Plan{
			Exchanges: []topology.Exchange{{Name: "kind", Type: "topic"}, {Name: "alternate", Type: "fanout", Args: topology.Args{"alternate-exchange": "a"}},
				{Name: "both", Type: "topic", Internal: true}, {Name: "same", Type: "direct"}},
			Queues: []topology.Queue{
				{Name: "ttl", Args: topology.Args{"x-message-ttl": int64(5000), "x-max-length": int64(10), "x-queue-mode": "lazy"}},
				{Name: "type", Args: topology.Args{"x-queue-type": "quorum"}},
				{Name: "said", Args: topology.Args{"x-queue-type": "classic"}},
				{Name: "same", Args: topology.Args{"x-single-active-consumer": true, "x-dead-letter-exchange": "kind", "x-max-length": 3}},
				{Name: "brief"},
			},
		}
		var more []string
		if d.rabbit.Version() < "4.3" { // later ones refuse such a queue
			if _, err := d.ch.QueueDeclare("passing", false, false, false, false, nil); err != nil {
				d.t.Fatal(err)
			}
			p.Queues = append(p.Queues, topology.Queue{Name: "passing"})
			more = []string{"differs queue passing durable false→true"}
		}
		for _, a := range []*admin.Admin{d.admin, d.blind} {
			d.wantDiff(a, p, append([]string{
				"differs exchange kind type direct→topic",
				"differs exchange alternate alternate-exchange b→a",
				"differs exchange both type direct→topic",
				"differs exchange both internal false→true",
				"differs queue ttl x-dead-letter-exchange kind→<nil>",
				"differs queue ttl x-max-length <nil>→10",
				"differs queue ttl x-message-ttl 6000→5000",
				"differs queue type x-queue-type classic→quorum",
				"differs queue brief auto_delete true→false",
				"differs queue brief x-max-length 1→<nil>",
			}, more...)...)
		}
	})
}

// A queue that somebody holds for himself cannot be compared through AMQP, and is not missing.
func TestDiffOfAnExclusiveQueue(t *testing.T) {
	each(t, func(d *desk) {
		if _, err := d.ch.QueueDeclare("mine", false, false, true, false, nil); err != nil {
			d.t.Fatal(err)
		}
		p := topology.Plan{Queues: []topology.Queue{{Name: "mine"}, {Name: "temporary", Exclusive: true}}}
		d.wantDiff(d.admin, p, "differs queue mine durable false→true", "differs queue mine exclusive true→false")
		d.wantDiff(d.blind, p, "unchecked queue mine")
	})
}

// Bindings: what is missing, and what was left behind by an older version.
func TestDiffOfBindings(t *testing.T) {
	each(t, func(d *desk) {
		s := rehop.Subscriber{Queue: "q", Exchange: "order", Keys: []string{"order.created"}, Retry: rehop.NoRetry()}
		d.apply(d.admin, plan(d.t, s))
		s.Keys = []string{"order.paid"}
		now := plan(d.t, s)
		d.wantDiff(d.admin, now, "missing binding q key order.paid", "unexpected binding q key order.created")
		applied := d.apply(d.admin, now)
		if len(applied.Declared) != 1 || len(applied.Left) != 1 {
			d.t.Errorf("got %v, want one binding declared and one left", applied)
		}
		if err := d.ch.QueueUnbind("q", "order.created", "order", nil); err != nil {
			d.t.Fatal(err)
		}
		d.wantSame(now)
	})
}

// Policies that change what a plan has, or add to it.
func TestDiffOfPolicies(t *testing.T) {
	each(t, func(d *desk) {
		p := plan(d.t, rehop.Subscriber{Queue: "q", Exchange: "order", MessageTTL: time.Hour, Retry: rehop.NoRetry()})
		d.apply(d.admin, p)
		d.policy("harmless", "^q$", 0, map[string]any{"message-ttl": int64(2 * time.Hour / time.Millisecond), "dead-letter-exchange": "elsewhere"})
		d.wantSame(p)
		d.policy("harmful", "^(q|order)$", 1, map[string]any{"message-ttl": 1000, "max-length": 5, "overflow": "drop-head", "alternate-exchange": "z"})
		d.wantDiff(d.admin, p,
			"overridden queue q max-length 5→<nil> by harmful",
			"overridden queue q message-ttl 1000→3600000 by harmful",
			"overridden queue q overflow drop-head→reject-publish by harmful")
		// It keeps policies with keys that they do not know away from queues.
		d.policy("foreign", "^(q|order)$", 2, map[string]any{"queue-mode": "lazy", "max-length": 1})
		d.wantDiff(d.admin, p,
			"overridden queue q max-length 5→<nil> by harmful",
			"overridden queue q message-ttl 1000→3600000 by harmful",
			"overridden queue q overflow drop-head→reject-publish by harmful")
		if applied := d.apply(d.admin, p); len(applied.Declared) > 0 || len(applied.Left) != 3 {
			d.t.Errorf("got %v, want nothing declared and three things left", applied)
		}
	})
}

// Of rehop's own queues only those are superfluous that are of a queue of the plan. Steps may be another service's.
func TestDiffOfOldSteps(t *testing.T) {
	each(t, func(d *desk) {
		old := rehop.Subscriber{Queue: "q", Exchange: "order", Retry: rehop.Steps(time.Minute, time.Hour), MaxLength: 10}
		d.apply(d.admin, plan(d.t, old))
		address := layouts.StepAddress(time.Hour)
		err := d.ch.PublishWithContext(d.ctx, address.Exchange, "q", true, false, amqp.Publishing{Headers: address.Headers, Body: []byte("waits")})
		if err != nil {
			d.t.Fatal(err)
		}
		kit.WantDepth(d.t, d.rabbit, d.ch, layouts.StepQueue(time.Hour), 1)
		d.queue("rehop.delay.00", amqp.Table{"x-queue-type": "quorum"})
		now := plan(d.t, rehop.Subscriber{Queue: "q", Exchange: "order", Retry: rehop.Steps(time.Second), QueueArgs: map[string]any{"x-max-length": int64(10), "x-overflow": "drop-head"}})
		var names []string
		for _, x := range d.diff(d.admin, now).Of(topology.Superfluous) {
			names = append(names, x.Object.Name)
		}
		if len(names) != 1 || names[0] != layouts.LandingQueue("q") {
			d.t.Errorf("superfluous: got %v, want the landing queue alone", names)
		}
	})
}

// A queue that the broker declares, and whose subscription it could not serve as planned, is reported before anything is declared.
func TestPrioritiesOfQuorumQueues(t *testing.T) {
	each(t, func(d *desk) {
		prioritised := rehop.Subscriber{Queue: "urgent", Exchange: "orders", QueueType: layout.Quorum, MaxPriority: 5}
		p := plan(d.t, prioritised)
		supported := d.rabbit.Version() >= "4.0"
		for _, a := range []*admin.Admin{d.admin, d.blind} {
			got := d.diff(a, p).Of(topology.Unsupported)
			switch {
			case supported && len(got) > 0:
				d.t.Errorf("got %swant that this release has priorities", got)
			case !supported && (len(got) != 1 || got[0].Object.Name != "urgent" || !strings.Contains(got[0].Hint, "RabbitMQ "+d.rabbit.Version()+" have no priorities")):
				d.t.Errorf("got %swant that quorum queues of this release have no priorities", got)
			}
		}
		findings, err := d.admin.Doctor(d.ctx, admin.DoctorOptions{Subscriptions: map[string]admin.DoctorSubscription{"urgent": {Priorities: true}}})
		if err != nil {
			d.t.Fatal(err)
		}
		if found := slices.ContainsFunc(findings, func(f admin.Finding) bool { return f.ID == "queue.no-priorities" && f.Object.Name == "urgent" }); found == supported {
			d.t.Errorf("doctor: got %v, want a finding: %t", findings, !supported)
		}
		applied := d.apply(d.admin, p)
		if left := len(applied.Left.Of(topology.Unsupported)); (left == 0) != supported {
			d.t.Errorf("apply: got %swant the queue to be left: %t", applied, !supported)
		}
		live, err := d.admin.Live(d.ctx)
		if err != nil {
			d.t.Fatal(err)
		}
		if _, there := live.Queue("urgent"); there != supported {
			d.t.Errorf("after apply, is the queue there: got %t, want %t", there, supported)
		}
		// A queue that exists is not migrated to one.
		d.queue("old", nil)
		prioritised.Queue = "old"
		_, err = d.admin.PlanMigration(d.ctx, plan(d.t, prioritised), "old", admin.MigrateOptions{})
		if refused := err != nil && strings.Contains(err.Error(), "have no priorities"); refused == supported {
			d.t.Errorf("migrate: got %v, want it to be refused: %t", err, !supported)
		}
	})
}

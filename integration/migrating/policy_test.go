package migrating

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// rule is a policy that a test sets.
type rule struct {
	operator bool
	name     string
	pattern  string
	priority int
	sets     map[string]any
}

func (r rule) path(vhost string) string {
	kind := "policies"
	if r.operator {
		kind = "operator-policies"
	}
	return "/api/" + kind + "/" + vhost + "/" + url.PathEscape(r.name)
}

func (s *site) rule(r rule) {
	s.t.Helper()
	s.rabbit.API("PUT", r.path(s.rabbit.Vhost), map[string]any{"pattern": r.pattern, "definition": r.sets, "apply-to": "queues", "priority": r.priority}, nil)
}

func (s *site) unrule(r rule) {
	s.t.Helper()
	s.rabbit.API("DELETE", r.path(s.rabbit.Vhost), nil, nil)
}

// undying is a classic queue that has no dead letters.
func undying(s *rehop.Subscriber) {
	s.QueueType, s.QueueArgs = layout.Classic, map[string]any{"x-dead-letter-exchange": nil, "x-dead-letter-routing-key": nil}
}

// refusing is such a queue that accepts no more than n messages.
func refusing(s *rehop.Subscriber) {
	undying(s)
	s.MaxLength, s.Overflow = 1000, "reject-publish"
}

// A policy that takes messages away from the queue in which they are kept is refused before anything is touched.
func TestMigrateRefusesPoliciesThatTakeMessages(t *testing.T) {
	t.Parallel()
	const kept = "^rehop\\.migrating\\."
	for _, c := range []struct {
		name     string
		old, new func(*rehop.Subscriber)
		rules    []rule
		says     []string // the error, if it is to be refused
	}{
		{"a length for all queues but this", undying, nil, []rule{
			{name: "mine", pattern: "^orders", priority: 1, sets: map[string]any{"max-length": 100_000}},
			{name: "all", pattern: ".*", sets: map[string]any{"max-length": 20}},
		}, []string{`policy "all" sets max-length to 20`, `queue "rehop.migrating.orders"`, "narrow its pattern"}},
		{"a length below what is there", refusing, nil, []rule{{name: "all", pattern: ".*", sets: map[string]any{"max-length": 20}}},
			[]string{`policy "all" sets max-length to 20`, "holds 40"}},
		{"bytes", classic, nil, []rule{{name: "p", pattern: kept, sets: map[string]any{"max-length-bytes": 50}}}, []string{`policy "p" sets max-length-bytes to 50`}},
		{"a length of an operator", classic, nil, []rule{{operator: true, name: "cap", pattern: kept, sets: map[string]any{"max-length": 1000}}},
			[]string{`operator policy "cap" sets max-length to 1000`}},
		{"a length that drops", nil, classic, []rule{
			{name: "p", pattern: "orders", sets: map[string]any{"max-length": 1000, "overflow": "drop-head"}},
		}, []string{`policy "p" sets overflow to "drop-head"`}},
		{"a time to live", nil, classic, []rule{
			{name: "mine", pattern: "^orders", priority: 1, sets: map[string]any{"message-ttl": 100_000_000}},
			{name: "all", pattern: ".*", sets: map[string]any{"message-ttl": 1}},
		}, []string{`policy "all" sets message-ttl to 1 `}},
		{"an end of its own", classic, nil, []rule{{name: "p", pattern: kept, sets: map[string]any{"expires": 60_000}}}, []string{`policy "p" sets expires to 60000`}},
		{"few deliveries", nil, classic, []rule{{name: "p", pattern: kept, sets: map[string]any{"delivery-limit": 5}}}, []string{`policy "p" sets delivery-limit to 5`}},
		{"dead letters that go elsewhere", undying, nil, []rule{{name: "p", pattern: kept, sets: map[string]any{"dead-letter-exchange": "amq.fanout"}}},
			[]string{`policy "p" sets dead-letter-exchange to "amq.fanout"`}},
		{"the same for both", classic, nil, []rule{{name: "all", pattern: ".*orders$", sets: map[string]any{"message-ttl": 3_600_000, "max-length": 1000}}}, nil},
		{"a time to live for the new queue", classic, nil, []rule{{name: "p", pattern: "^orders$", sets: map[string]any{"delivery-limit": 50, "message-ttl": 10}}},
			[]string{`policy "p" sets message-ttl to 10`, "the new queue"}},
		{"a length for the new queue", classic, nil, []rule{{name: "p", pattern: "^orders$", sets: map[string]any{"delivery-limit": 50, "max-length": 10, "overflow": "drop-head"}}},
			[]string{"it holds 40 messages and is to hold 10", `policy "p"`}},
		{"dead letters of the new queue that go nowhere", nil, undying, []rule{{name: "p", pattern: "^orders$", sets: map[string]any{"dead-letter-exchange": "gone"}}},
			[]string{`exchange "gone", which does not exist`, `policy "p"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
				s := newSite(t, r)
				old, want := plan(t, orders(c.old)), plan(t, orders(c.new))
				s.apply(old)
				s.fill("order", "order.1", 0, 40)
				for _, rule := range c.rules {
					s.rule(rule)
				}
				if len(c.says) > 0 {
					_, err := s.admin.PlanMigration(s.ctx, want, "orders", admin.MigrateOptions{})
					for _, text := range c.says {
						wantError(t, err, nil, text)
					}
					_, err = s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
					wantError(t, err, nil, c.says[0])
					if m, err := s.admin.PlanMigration(s.ctx, old, "orders", admin.MigrateOptions{}); err != nil || len(m.Steps) > 0 {
						t.Errorf("to what it is: got %v, %v, want nothing to do", m, err)
					}
					for _, rule := range slices.Backward(c.rules) {
						s.unrule(rule)
					}
					s.wantPlanned(old)
				} else {
					s.migrate(want, "orders", admin.MigrateOptions{})
				}
				wantOrder(s, "orders", 0, 40)
			})
		})
	}
}

// An operator's cap on all queues: while the queue is replaced, what is too much is refused, as it would be there, and nothing that was
// confirmed is dropped.
func TestMigrateUnderCapOfOperator(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.rule(rule{operator: true, name: "cap", pattern: ".*", sets: map[string]any{"max-length": 50}})
		s.apply(plan(t, orders(refusing)))
		s.fill("order", "order.1", 0, 40)
		want := plan(t, orders(func(x *rehop.Subscriber) {
			refusing(x)
			x.MaxLength = 2000
		}))
		confirmed, published := 40, false
		s.migrate(want, "orders", admin.MigrateOptions{Progress: func(p admin.MigrationProgress) {
			if p.Now.Action != admin.ActionDelete || published {
				return
			}
			published = true
			ch := r.Channel()
			if err := ch.Confirm(false); err != nil {
				t.Error(err)
			}
			for i := range 30 {
				c, err := ch.PublishWithDeferredConfirm("order", "order.1", true, false, amqp.Publishing{MessageId: id(40 + i), DeliveryMode: amqp.Persistent})
				if err != nil {
					t.Error(err)
					return
				}
				if ok, err := c.WaitContext(s.ctx); ok && err == nil {
					confirmed++
				}
			}
		}})
		seen := make(map[string]bool)
		for _, d := range s.takeAll("orders") {
			seen[d.MessageId] = true
		}
		if !published || len(seen) != confirmed || confirmed < 50 || confirmed == 70 {
			t.Errorf("published meanwhile: %v; %d messages are confirmed and %d are there, want as many, from 50 to 69", published, confirmed, len(seen))
		}
	})
}

// Whether a policy with a lookahead matches a name only RabbitMQ knows, and only for a queue that exists: it is asked before any message is
// led there, and what was prepared is removed when it is refused.
func TestMigrateAsksBrokerForPolicy(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	s := newSite(t, r)
	old, want := plan(t, orders(classic)), plan(t, orders(func(x *rehop.Subscriber) { x.QueueType, x.MessageTTL = layout.Classic, time.Hour }))
	s.apply(old)
	s.fill("order", "order.1", 0, 10)
	harmful := rule{name: "others", pattern: "^(?!orders)", sets: map[string]any{"max-length": 5, "overflow": "reject-publish"}}
	s.rule(harmful)
	m, err := s.admin.PlanMigration(s.ctx, want, "orders", admin.MigrateOptions{})
	if err != nil || !strings.Contains(m.String(), "warning: only the broker knows whether a policy removes messages") {
		t.Errorf("got %v, %v, want a warning", m, err)
	}
	_, err = s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
	wantError(t, err, nil, `policy "others" sets max-length to 5`)
	live, err := s.admin.Live(s.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, left := live.Queue(layouts.MigratingQueue("orders")); left {
		t.Error("the queue that keeps messages is left over")
	}
	s.unrule(harmful)
	s.rule(rule{name: "others", pattern: "^(?!orders|rehop\\.)", sets: map[string]any{"max-length": 5}})
	s.migrate(want, "orders", admin.MigrateOptions{})
	wantOrder(s, "orders", 0, 10)
}

// A plan by policies is refused while those are not set, or do not apply: the new queue would drop what is rejected.
func TestMigrateToPolicies(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		old := plan(t, orders(nil))
		s.apply(old)
		s.fill("order", "order.1", 0, 3)
		want := old.ByPolicy(10)
		_, err := s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
		for _, text := range []string{`policy "rehop:queue:orders" of the plan is not set`, "dead-letter-exchange", "apply the plan's policies first"} {
			wantError(t, err, nil, text)
		}
		s.wantPlanned(old)
		s.apply(want)
		above := rule{name: "above", pattern: "^orders$", priority: 20, sets: map[string]any{"delivery-limit": 50}}
		s.rule(above)
		_, err = s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
		wantError(t, err, nil, `policy "above" applies in the place of policy "rehop:queue:orders"`)
		s.unrule(above)
		i := 0
		for want.Policies[i].Name != "rehop:queue:orders" {
			i++
		}
		s.rule(rule{name: "rehop:queue:orders", pattern: want.Policies[i].Pattern, priority: 10, sets: map[string]any{"delivery-limit": 50}})
		_, err = s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
		wantError(t, err, nil, `policy "rehop:queue:orders" of the plan is set otherwise`)
		s.rule(rule{name: "rehop:queue:orders", pattern: want.Policies[i].Pattern, priority: 10, sets: want.Policies[i].Definition})
		if t.Failed() {
			return
		}
		s.migrate(want, "orders", admin.MigrateOptions{})
		if again := s.migrate(want, "orders", admin.MigrateOptions{}); len(again.Changes)+len(again.Steps) > 0 {
			t.Errorf("run again, it does %v", again)
		}
		for range 3 {
			d, ok, err := s.ch.Get("orders", false)
			if !ok || err != nil {
				t.Fatalf("the message is not there: %v", err)
			}
			if err := d.Reject(false); err != nil {
				t.Fatal(err)
			}
		}
		kit.WantDepth(t, r, s.ch, "orders.failed", 3)
	})
}

// While a queue is being migrated, what was turned aside is neither missing nor too much: a diff names the migration.
func TestDiffNamesMigration(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		want := plan(t, orders(nil))
		s.apply(plan(t, orders(classic)))
		all, err := s.admin.PlanMigration(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []admin.Action{admin.ActionMove, admin.ActionDeclare, admin.ActionRestore} {
			s.cancelAt(want, slices.IndexFunc(all.Steps, func(step admin.Step) bool { return step.Action == at }), make(map[admin.Action]bool))
			diff, err := s.admin.Diff(s.ctx, want)
			if err != nil {
				t.Fatal(err)
			}
			if len(diff) == 0 {
				t.Errorf("at step %s nothing differs", at)
			}
			for _, d := range diff {
				if d.Do != "migrate" || !strings.Contains(d.Hint, `queue "orders" is being migrated`) {
					t.Errorf("at step %s: got %s, want that it names the migration", at, d)
				}
			}
			if all, err = s.admin.PlanMigration(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle}); err != nil {
				t.Fatal(err)
			}
		}
		s.migrate(want, "orders", admin.MigrateOptions{})
		s.wantPlanned(want)
	})
}

// The doctor reports which queue is being migrated, even if its name does not fit into that of the queue which keeps its messages.
func TestDoctorNamesMigratedQueue(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long", 62)
	for _, at := range []admin.Action{admin.ActionMove, admin.ActionDeclare} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			r := lab.Embedded(t)
			s := newSite(t, r)
			named := func(x *rehop.Subscriber) { x.Queue = long }
			s.apply(plan(t, orders(func(x *rehop.Subscriber) { classic(x); named(x) })))
			s.cancelQueueAt(plan(t, orders(named)), long, at)
			found, err := s.admin.Doctor(s.ctx, admin.DoctorOptions{})
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(found, func(f admin.Finding) bool { return f.ID == "queue.migration" })
			if i < 0 || found[i].Object.Name != long {
				t.Errorf("got %v, want that queue %s is being migrated", found, long)
			}
		})
	}
}

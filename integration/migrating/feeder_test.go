package migrating

import (
	"context"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// Queues that dead-letter to the queue by its name, through the default exchange, are found, and the queue is not replaced while they hold messages.
func TestMigrateWithDeadLettersByName(t *testing.T) {
	t.Parallel()
	kept := amqp.Table{"x-dead-letter-exchange": ""} // without a key they keep the one with which they came
	for name, c := range map[string]struct {
		exchange, binding string
		args              amqp.Table
	}{
		"key":       {"amq.direct", "orders", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"}},
		"bound key": {"amq.direct", "orders", kept},
		"fanout":    {"amq.fanout", "", kept},
		"topic":     {"amq.topic", "#", kept},
		"headers":   {"amq.headers", "", kept},
		// Each dies once more on its way.
		"two queues": {"amq.direct", "orders", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.soon"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
				s := newSite(t, r)
				s.apply(plan(t, orders(classic)))
				want := plan(t, orders(nil))
				kit.Queue(t, s.ch, "orders.soon", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders", "x-message-ttl": 1})
				kit.Queue(t, s.ch, "orders.wait", c.args)
				if err := s.ch.QueueBind("orders.wait", c.binding, c.exchange, false, nil); err != nil {
					t.Fatal(err)
				}
				const n = 200
				s.fill(c.exchange, "orders", 0, n)
				kit.WantDepth(t, r, s.ch, "orders.wait", n)

				m, err := s.admin.PlanMigration(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
				if err != nil || !strings.Contains(strings.Join(m.Warnings, "\n"), `queue "orders.wait" dead-letters to this queue by its name`) {
					t.Errorf("got warnings %q, %v, want one of queue orders.wait", m.Warnings, err)
				}
				_, err = s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
				wantError(t, err, admin.ErrFeeders, `"orders.wait" holds 200`)
				s.wantPlanned(plan(t, orders(classic)))

				// They die while the migration waits for them: first half of them, then the others while a consumer holds them.
				ch := r.Channel()
				died := 0
				die := func(upTo int) {
					for ; died < upTo; died++ {
						d, ok, err := ch.Get("orders.wait", false)
						if err != nil || !ok {
							t.Errorf("nothing to get: %v", err)
							return
						}
						if err := d.Reject(false); err != nil {
							t.Error(err)
						}
					}
				}
				s.migrate(want, "orders", admin.MigrateOptions{Consumers: admin.AwaitConsumers, Progress: func(p admin.MigrationProgress) {
					switch {
					case strings.Contains(p.Waiting, `"orders.wait"`) && strings.Contains(p.Waiting, "dead-letters to this one by its name"):
						die(min(n, died+n/2))
					case p.Now.Action == admin.ActionDelete && died < n:
						t.Errorf("the queue is deleted while %d messages may yet come by its name", n-died)
						died = n
					}
				}})
				s.wantPlanned(want)
				kit.WantDepth(t, r, s.ch, "orders", n)
				wantAll(s, "orders", n)
			})
		})
	}
}

// Whoever consumes such a queue may reject a message at any time, so it counts as a consumer of the queue itself.
func TestMigrateWithConsumersOfFeeder(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(classic)))
		want := plan(t, orders(nil))
		kit.Queue(t, s.ch, "orders.wait", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"})
		s.fill("", "orders.wait", 0, 1)
		ch := r.Channel()
		deliveries, err := ch.Consume("orders.wait", "one", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		d := kit.Receive(t, deliveries, "the message")
		_, err = s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
		wantError(t, err, admin.ErrConsumers, `"orders.wait"`)

		// Who has canceled and still holds a message can reject it, too.
		if err := ch.Cancel("one", false); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		_, err = s.admin.Migrate(ctx, want, "orders", admin.MigrateOptions{Settle: settle, Consumers: admin.AwaitConsumers, Progress: func(p admin.MigrationProgress) {
			if strings.Contains(p.Waiting, `consumers of queue "orders.wait" hold`) {
				cancel()
			}
		}})
		wantError(t, err, context.Canceled, "orders.wait")
		if err := d.Reject(false); err != nil {
			t.Fatal(err)
		}
		s.migrate(want, "orders", admin.MigrateOptions{Consumers: admin.AwaitConsumers})
		s.wantPlanned(want)
		wantAll(s, "orders", 1)
	})
}

// A queue that keeps its dead letters until they have arrived loses none, and is not waited for.
func TestMigrateWithDeadLettersAtLeastOnce(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(classic)))
		kit.Queue(t, s.ch, "orders.wait", amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"})
		s.fill("", "orders.wait", 0, 1)
		want := plan(t, orders(nil))
		if m := s.migrate(want, "orders", admin.MigrateOptions{}); !strings.Contains(strings.Join(m.Warnings, "\n"), "arrive late") {
			t.Errorf("got warnings %q, want one of queue orders.wait", m.Warnings)
		}
		s.wantPlanned(want)
		kit.WantDepth(t, r, s.ch, "orders.wait", 1)
	})
}

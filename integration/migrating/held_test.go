package migrating

import (
	"context"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// However short Settle is, what a consumer holds is not deleted with the queue, though the broker's statistics show it only seconds later.
func TestMigrateKeepsHeldMessages(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(classic)))
		want := plan(t, orders(nil))
		const n = 100
		s.fill("order", "order.1", 0, n)
		ch := r.Channel()
		deliveries, err := ch.Consume("orders", "one", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			kit.Receive(t, deliveries, "message "+id(i))
		}
		// They are held until the migration knows of them, or until it believes that there are none.
		given := false
		give := func() {
			if given {
				return
			}
			given = true
			if err := ch.Cancel("one", false); err != nil { // or they would come back to it
				t.Error(err)
			}
			if err := ch.Nack(0, true, true); err != nil {
				t.Error(err)
			}
		}
		s.migrate(want, "orders", admin.MigrateOptions{Consumers: admin.IgnoreConsumers, Progress: func(p admin.MigrationProgress) {
			switch {
			case strings.Contains(p.Waiting, "consumers hold"):
				give()
			case p.Now.Action == admin.ActionDelete && !given:
				t.Error("the queue is deleted while a consumer holds its messages")
				given = true
			}
		}})
		s.wantPlanned(want)
		wantAll(s, "orders", n)
	})
}

// What a quorum queue of RabbitMQ 4.3 delays is neither ready nor held by a consumer, and is not deleted with the queue either. Other releases delay
// nothing.
func TestMigrateKeepsDelayedMessages(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(func(s *rehop.Subscriber) {
			s.QueueArgs = map[string]any{"x-delayed-retry-type": "all", "x-delayed-retry-min": time.Hour.Milliseconds()}
		})))
		want := plan(t, orders(nil))
		const n = 5
		s.fill("order", "order.1", 0, n)
		ch := r.Channel()
		for range n {
			if _, ok, err := ch.Get("orders", false); err != nil || !ok {
				t.Fatalf("got %v, %v, want a message", ok, err)
			}
		}
		if err := ch.Nack(0, true, true); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		_, err := s.admin.Migrate(ctx, want, "orders", admin.MigrateOptions{Settle: settle, Progress: func(p admin.MigrationProgress) {
			if strings.Contains(p.Waiting, "5 messages of queue \"orders\" that consumers hold or that it delays") {
				cancel()
			}
		}})
		if lab.Release() < broker.RabbitMQ43 {
			if err != nil {
				t.Fatal(err)
			}
			wantAll(s, "orders", n)
			return
		}
		wantError(t, err, context.Canceled, "delays")
		if purged, err := ch.QueuePurge("orders", false); err != nil || purged != n {
			t.Errorf("the queue has %d messages, %v, want the %d that it delays", purged, err, n)
		}
	})
}

// wantAll checks that a queue has the messages with ids from 0 on, in any order, each once.
func wantAll(s *site, queue string, n int) {
	s.t.Helper()
	seen := make(map[string]int)
	for _, d := range s.takeAll(queue) {
		seen[d.MessageId]++
	}
	lost, twice := 0, 0
	for i := range n {
		switch seen[id(i)] {
		case 0:
			lost++
		case 1:
		default:
			twice++
		}
	}
	if lost > 0 || twice > 0 || len(seen) != n {
		s.t.Errorf("queue %q: of %d messages %d are lost and %d are there twice; there are %d", queue, n, lost, twice, len(seen))
	}
}

// Statistics that were written down before the messages were delivered show no unacked ones. They are not believed, also
// where they are written anew in the meantime.
func TestMigrateDoubtsOldStatistics(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(nil)))
		want := plan(t, orders(classic))
		s.fill("order", "order.1", 0, 5)
		ch := r.Channel()
		var held []amqp.Delivery
		s.migrate(want, "orders", admin.MigrateOptions{Progress: func(p admin.MigrationProgress) {
			switch {
			case p.Now.Action == admin.ActionMove && p.Moved == 0 && held == nil:
				for range 5 { // by hand, so that there is no consumer that could be seen
					d, ok, err := ch.Get("orders", false)
					if err != nil || !ok {
						t.Errorf("nothing to get: %v", err)
						return
					}
					held = append(held, d)
				}
			case strings.Contains(p.Waiting, "consumers hold"):
				for _, d := range held {
					if err := d.Nack(false, true); err != nil {
						t.Error(err)
					}
				}
				held = []amqp.Delivery{}
			case p.Now.Action == admin.ActionDelete && len(held) > 0:
				t.Error("the queue is deleted while its messages are held")
			}
		}})
		wantAll(s, "orders", 5)
	})
}

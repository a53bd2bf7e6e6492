package migrating

import (
	"context"
	"fmt"
	"reflect"
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

// A message keeps its properties, headers and routing key; a CC header leads no copy anywhere; a subscriber sees where it was
// published to.
func TestMigrateKeepsContent(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(classic), rehop.Subscriber{Queue: "other"}))
		sent := amqp.Publishing{
			MessageId: "m1", ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: amqp.Transient, Priority: 3,
			Timestamp: time.Unix(1700000000, 0), CorrelationId: "c", ReplyTo: "r", Type: "t", AppId: "a", Expiration: "3600000",
			Body: []byte{0, 1, 255}, Headers: amqp.Table{
				"CC": []any{"other"}, "text": "ü", "n": int32(-7), "big": int64(1) << 60, "f": 1.5, "yes": true, "none": nil,
				"at": time.Unix(1700000000, 0), "list": []any{"a", int64(2)}, "table": amqp.Table{"x": int32(1)},
				"x-death": []any{amqp.Table{"count": int64(2), "queue": "orders@retry", "reason": "expired", "exchange": "order.retry",
					"routing-keys": []any{"order.1"}, "time": time.Unix(1700000000, 0)}},
			},
		}
		if err := s.ch.PublishWithContext(s.ctx, "order", "order.1", true, false, sent); err != nil {
			t.Fatal(err)
		}
		kit.WantDepth(t, r, s.ch, "orders", 1)
		want := plan(t, orders(nil))
		s.migrate(want, "orders", admin.MigrateOptions{})
		kit.WantDepth(t, r, s.ch, "orders", 1)
		kit.WantDepth(t, r, s.ch, "other", 0)
		d, ok, err := s.ch.Get("orders", false)
		if !ok || err != nil {
			t.Fatalf("the message is not there: %v", err)
		}
		for name := range d.Headers {
			if _, had := sent.Headers[name]; !had && !slices.Contains([]string{"rehop-queue", "rehop-exchange", "rehop-key", "rehop-attempt", "x-delivery-count"}, name) {
				t.Errorf("header %q has come to it: %v", name, d.Headers[name])
			}
		}
		for name, value := range sent.Headers {
			if !reflect.DeepEqual(d.Headers[name], value) {
				t.Errorf("header %q: got %#v, want %#v", name, d.Headers[name], value)
			}
		}
		got := amqp.Publishing{
			MessageId: d.MessageId, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode, Priority: d.Priority,
			Timestamp: d.Timestamp, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Type: d.Type, AppId: d.AppId, Expiration: d.Expiration,
			Body: d.Body, Headers: sent.Headers,
		}
		if !reflect.DeepEqual(got, sent) {
			t.Errorf("got %+v, want %+v", got, sent)
		}
		if d.RoutingKey != "order.1" {
			t.Errorf("routing key: got %q, want %q", d.RoutingKey, "order.1")
		}
		if err := d.Nack(false, true); err != nil {
			t.Fatal(err)
		}
		client := kit.Open(t, rehop.Config{URL: r.URL})
		deliveries := make(chan *rehop.Delivery, 1)
		sub := orders(nil)
		sub.Handler = kit.Into(deliveries)
		kit.Subscribe(t, client, sub)
		m := kit.Receive(t, deliveries, "the message")
		if m.Exchange != "order" || m.Key != "order.1" || m.Attempt != 1 || m.Headers["text"] != "ü" {
			t.Errorf("a subscriber sees exchange %q, key %q, attempt %d, headers %v", m.Exchange, m.Key, m.Attempt, m.Headers)
		}
	})
}

// What waits for its next attempt returns to the queue, at whatever moment; its count continues.
func TestMigrateWhileMessagesWait(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		old := orders(classic)
		const messages = 5
		old.Concurrency = 2 * messages // those that wait for the others leave room for them
		failed, all := make(chan struct{}, messages), make(chan struct{})
		old.Handler = rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			if d.Attempt > 1 { // the machine is slow, and it is back before the migration: it waits in the queue, and the subscription pauses
				select {
				case <-all:
				case <-ctx.Done():
				}
				return rehop.Unavailable(fmt.Errorf("the migration comes first"))
			}
			failed <- struct{}{}
			return fmt.Errorf("later")
		})
		client := kit.Open(t, rehop.Config{URL: r.URL})
		sub := kit.Subscribe(t, client, old)
		for i := range messages {
			kit.Publish(t, client, rehop.Message{ID: id(i), Exchange: "order", Key: "order.1"})
			kit.Receive(t, failed, "a failure")
		}
		close(all)
		kit.Drain(t, sub)
		// It returns within the second in which the queue is replaced, or after that.
		s.migrate(plan(t, orders(nil)), "orders", admin.MigrateOptions{})
		again := orders(nil)
		deliveries := make(chan *rehop.Delivery, 10)
		again.Handler = kit.Into(deliveries)
		kit.Subscribe(t, client, again)
		seen := make(map[string]int)
		for range messages {
			m := kit.Receive(t, deliveries, "what has waited")
			if seen[m.ID]++; m.Attempt != 2 || m.Exchange != "order" {
				t.Errorf("message %s comes back as attempt %d of exchange %q, want 2 of order", m.ID, m.Attempt, m.Exchange)
			}
		}
		if len(seen) != messages {
			t.Errorf("got %v, want each once", seen)
		}
	})
}

// A queue in which messages rest keeps what replaying them needs.
func TestMigrateFailedQueue(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		client := kit.Open(t, rehop.Config{URL: r.URL})
		sub := orders(nil)
		sub.Retry = rehop.NoRetry()
		sub.Handler = rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return rehop.Permanent(fmt.Errorf("no such customer")) })
		running := kit.Subscribe(t, client, sub)
		for i := range 3 {
			kit.Publish(t, client, rehop.Message{ID: id(i), Exchange: "order", Key: "order.1"})
		}
		kit.WantDepth(t, r, s.ch, "orders.failed", 3)
		want := plan(t, sub)
		for i, q := range want.Queues {
			if q.Name == "orders.failed" {
				want.Queues[i].Args = map[string]any{"x-queue-type": "quorum", "x-delivery-limit": int64(1000), "x-max-length": int64(1_000_000), "x-overflow": "reject-publish"}
			}
		}
		_, err := s.admin.Migrate(s.ctx, want, "orders.failed", admin.MigrateOptions{Settle: settle})
		wantError(t, err, admin.ErrConsumers, `of queue "orders"`)
		kit.Drain(t, running)
		d, ok, err := s.ch.Get("orders.failed", false)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		before := d.Headers
		if err := d.Nack(false, true); err != nil {
			t.Fatal(err)
		}
		s.publishDead()
		s.migrate(want, "orders.failed", admin.MigrateOptions{})
		found, err := s.admin.Failed(s.ctx, "orders", 10, admin.Filter{})
		if err != nil || len(found) != 4 {
			t.Fatalf("found %d failed messages, want 4: %v", len(found), err)
		}
		for _, m := range found {
			if m.Queue != "orders" || m.Exchange != "order" || m.Key != "order.1" {
				t.Errorf("message %s: got queue %q, exchange %q, key %q; its headers were %v", m.ID, m.Queue, m.Exchange, m.Key, before)
			}
			if m.ID == "dead" && m.Kind != "dead" || m.ID != "dead" && (m.Kind != "permanent" || m.Error != "no such customer") {
				t.Errorf("message %s: got kind %q, error %q", m.ID, m.Kind, m.Error)
			}
		}
		if p, err := s.admin.Replay(s.ctx, "orders", admin.Options{}); err != nil || p.Done != 4 {
			t.Errorf("replayed %+v, %v, want 4", p, err)
		}
		kit.WantDepth(t, r, s.ch, "orders", 4)
	})
}

// publishDead has the broker dead-letter a message of queue orders.
func (s *site) publishDead() {
	s.t.Helper()
	if err := s.ch.PublishWithContext(s.ctx, "order", "order.1", true, false, amqp.Publishing{MessageId: "dead"}); err != nil {
		s.t.Fatal(err)
	}
	kit.WantDepth(s.t, s.rabbit, s.ch, "orders", 1)
	d, ok, err := s.ch.Get("orders", false)
	if !ok || err != nil {
		s.t.Fatal(ok, err)
	}
	if err := d.Reject(false); err != nil {
		s.t.Fatal(err)
	}
	kit.WantDepth(s.t, s.rabbit, s.ch, "orders.failed", 4)
}

// A queue of another layout changes its type, and works as before.
func TestMigrateOtherLayouts(t *testing.T) {
	t.Parallel()
	for _, l := range []layout.Layout{layout.PubSub{}, layout.Sneakers{}, layout.DLX{}, layout.Tiers{}, layout.Envelope{}} {
		t.Run(fmt.Sprintf("%T", l), func(t *testing.T) {
			t.Parallel()
			lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
				s := newSite(t, r)
				sub := rehop.Subscriber{Queue: "orders", Layout: l}
				old := plan(t, sub)
				sub.QueueType = layout.Quorum
				want := plan(t, sub)
				s.apply(old)
				ch := s.rabbit.Channel()
				for i := range 20 {
					// By name, and nobody does so while it is migrated.
					if err := ch.PublishWithContext(s.ctx, "", "orders", true, false, amqp.Publishing{MessageId: id(i), Body: []byte(id(i)), Headers: amqp.Table{"n": int64(i)}}); err != nil {
						t.Fatal(err)
					}
				}
				kit.WantDepth(t, r, s.ch, "orders", 20)
				s.migrate(want, "orders", admin.MigrateOptions{})
				if _, ok := l.(layout.Sneakers); ok { // in its newest form they have the type of the queue
					s.migrate(want, "orders-retry", admin.MigrateOptions{})
					s.migrate(want, "orders-error", admin.MigrateOptions{})
				}
				s.wantPlanned(want)
				kit.WantDepth(t, r, s.ch, "orders", 20)
				wantOrder(s, "orders", 0, 20)
			})
		})
	}
}

// A message that expires while its queue is replaced goes where it would have gone from there, and is known as that queue's, even if
// its name does not fit into that of the queue which keeps its messages.
func TestMigrateKeepsExpired(t *testing.T) {
	t.Parallel()
	for name, queue := range map[string]string{"short": "orders", "long": strings.Repeat("long", 62)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
				s := newSite(t, r)
				named := func(x *rehop.Subscriber) { x.Queue = queue }
				s.apply(plan(t, orders(func(x *rehop.Subscriber) { classic(x); named(x) })))
				want := plan(t, orders(named))
				s.cancelQueueAt(want, queue, admin.ActionEmpty)
				if err := s.ch.PublishWithContext(s.ctx, "order", "order.1", true, false, amqp.Publishing{MessageId: "short", Expiration: "20"}); err != nil {
					t.Fatal(err)
				}
				kit.WantDepth(t, r, s.ch, layouts.FailedQueue(queue), 1)
				s.migrate(want, queue, admin.MigrateOptions{})
				found, err := s.admin.Failed(s.ctx, queue, 1, admin.Filter{})
				if err != nil || len(found) != 1 || found[0].Queue != queue || found[0].Exchange != "order" || found[0].Kind != "dead" {
					t.Errorf("got %+v, %v, want the message of queue %s", found, err, queue)
				}
				if p, err := s.admin.Replay(s.ctx, queue, admin.Options{}); err != nil || p.Done != 1 {
					t.Errorf("replayed %+v, %v, want 1", p, err)
				}
				kit.WantDepth(t, r, s.ch, queue, 1)
			})
		})
	}
}

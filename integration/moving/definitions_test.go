package moving

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
)

// Definitions of an old release move to a new one, as far as it has them. What it refuses is reported first, and flags change it.
func TestMoveDefinitions(t *testing.T) {
	t.Parallel()
	ctx := kit.Timeout(t, 5*kit.Limit)
	from, to := newCluster(t, ctx, lab.SingleOf(t, before)), newCluster(t, ctx, lab.SingleOf(t, after))
	ch := from.Channel()
	kit.Exchange(t, ch, "shop", "topic")
	kit.Exchange(t, ch, "by-header", "headers")
	kit.Queue(t, ch, "orders", amqp.Table{"x-dead-letter-exchange": "shop", "x-dead-letter-routing-key": "dead", "x-queue-mode": "lazy"}, [2]string{"shop", "order.#"})
	kit.Queue(t, ch, "dead", nil, [2]string{"shop", "dead"})
	if err := ch.QueueBind("dead", "", "by-header", false, amqp.Table{"x-match": "all", "tenant": int32(5), "old": nil}); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("transient", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	from.API("PUT", "/api/policies/"+from.Vhost+"/mirrored", map[string]any{"pattern": "^orders$", "definition": map[string]any{"ha-mode": "all", "max-length": 1000}}, nil)
	publish := func(key string, p amqp.Publishing) {
		t.Helper()
		if err := ch.PublishWithContext(ctx, "shop", key, true, false, p); err != nil {
			t.Fatal(err)
		}
	}
	// take consumes a message with a connection of its own, and returns what closes that.
	take := func(then func(amqp.Delivery) error) (end func()) {
		t.Helper()
		conn, err := amqp.Dial(from.URL)
		if err != nil {
			t.Fatal(err)
		}
		other, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		deliveries, err := other.Consume("orders", "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := then(kit.Receive(t, deliveries, "message")); err != nil {
			t.Fatal(err)
		}
		return func() { _ = conn.Close() }
	}
	publish("order.paid", amqp.Publishing{MessageId: "rejected", DeliveryMode: amqp.Persistent})
	end := take(func(d amqp.Delivery) error { return d.Reject(false) })
	kit.WantDepth(t, from.Rabbit, ch, "dead", 1)
	end()
	publish("order.placed", amqp.Publishing{MessageId: "whole", Headers: amqp.Table{"n": int16(7), "CC": []any{"order.copied"}}, Priority: 3, DeliveryMode: amqp.Persistent,
		CorrelationId: "c", Type: "placed", AppId: "shop", ContentType: "text/plain", Timestamp: time.Unix(1_700_000_000, 0), Body: []byte("text")})

	plan, err := from.admin.PlanMove(ctx, to.admin, admin.MoveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"transient": "transient", "mirrored": "mirrors classic queues"} {
		if !slices.ContainsFunc(plan.Refused, func(r admin.Refusal) bool { return r.Object.Name == name && strings.Contains(r.Reason, want) }) {
			t.Errorf("%s: got refusals %v, want one with %q", name, plan.Refused, want)
		}
	}
	if _, err := from.admin.Move(ctx, to.admin, admin.MoveOptions{}); !errors.Is(err, admin.ErrRefused) {
		t.Errorf("got %v, want ErrRefused", err)
	}
	live, err := to.admin.Live(ctx)
	if _, there := live.Queue("orders"); err != nil || there || len(live.Policies) > 0 {
		t.Fatalf("the target has queues %v and policies %v (%v), want no queue orders and no policy", live.Queues, live.Policies, err)
	}

	options := admin.MoveOptions{QueueType: layout.Quorum, Durable: true, Timeout: 20 * time.Second}
	end = take(func(amqp.Delivery) error { return nil })
	balance, err := from.admin.Move(ctx, to.admin, options)
	if sum := balance.Sum(); !errors.Is(err, admin.ErrLeft) || sum.Moved != 1 || sum.Left != 1 {
		t.Errorf("while a consumer has a message: got %v, want ErrLeft and the balance 1 moved, 1 left\n%s", err, balance)
	}
	end()
	options.Timeout = 0
	balance, err = from.admin.Move(ctx, to.admin, options)
	if sum := balance.Sum(); err != nil || sum.Moved != 1 || sum.Left != 0 {
		t.Errorf("afterwards: got %v, want 1 moved\n%s", err, balance)
	}

	if live, err = to.admin.Live(ctx); err != nil {
		t.Fatal(err)
	}
	orders, _ := live.Queue("orders")
	if limit, _ := orders.Effective("max-length"); orders.Type != "quorum" || orders.Args["x-queue-mode"] != nil || fmt.Sprint(limit) != "1000" {
		t.Errorf("queue orders: got %+v, want a quorum queue with the limit of the policy", orders)
	}
	there := to.Channel()
	d := kit.Take(t, there, "orders")
	f := envelope.Read(rabbit.FromTable(d.Headers), d.Exchange, d.RoutingKey)
	if d.MessageId != "whole" || d.RoutingKey != "order.placed" || f.Exchange != "shop" || f.Key != "order.placed" || d.Headers["n"] != int16(7) || !slices.Equal(d.Headers["CC"].([]any), []any{"order.copied"}) ||
		d.Priority != 3 || d.DeliveryMode != amqp.Persistent || d.CorrelationId != "c" || d.Type != "placed" || d.AppId != "shop" || d.ContentType != "text/plain" || d.Timestamp.Unix() != 1_700_000_000 || string(d.Body) != "text" {
		t.Errorf("got %+v, want the whole message", d)
	}
	d = kit.Take(t, there, "dead")
	if death := envelope.Deaths(rabbit.FromTable(d.Headers)); d.MessageId != "rejected" || d.RoutingKey != "dead" || len(death) != 1 || death[0].Queue != "orders" || death[0].Reason != "rejected" {
		t.Errorf("got %+v, want the rejected message with its x-death", d)
	}
	// The binding has the types that it had.
	for id, tenant := range map[string]any{"five": int32(5), "text": "5"} {
		if err := there.PublishWithContext(ctx, "by-header", "", false, false, amqp.Publishing{MessageId: id, Headers: amqp.Table{"tenant": tenant, "old": true}}); err != nil {
			t.Fatal(err)
		}
	}
	kit.WantDepth(t, to.Rabbit, there, "dead", 1)
	if d := kit.Take(t, there, "dead"); d.MessageId != "five" {
		t.Errorf("the binding by headers has routed message %q, want five", d.MessageId)
	}
}

package topologies

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
)

// TestRefusedOrder: a subscription with OrderBy whose queue the broker refuses leaves nothing behind.
func TestRefusedOrder(t *testing.T) {
	each(t, func(d *desk) {
		client, err := rehop.Open(d.ctx, rehop.Config{URL: d.rabbit.URL})
		if err != nil {
			d.t.Fatal(err)
		}
		defer func() { _ = client.Close(d.ctx) }()
		ordered := rehop.Subscriber{Queue: "orders", Exchange: "shop", OrderBy: rehop.OrderKey, Partitions: 4, Retry: rehop.NoRetry(),
			Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })}
		if _, err := client.Subscribe(d.ctx, ordered); err != nil {
			d.t.Fatal(err)
		}
		if _, err := d.ch.QueueDeclare("unordered", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			d.t.Fatal(err)
		}
		before := d.names()
		for _, c := range []struct {
			queue      string
			partitions int
		}{{"orders", 1}, {"orders", 2}, {"orders", 8}, {"unordered", 1}, {"unordered", 4}} {
			other := ordered
			other.Queue, other.Partitions, other.Exchange, other.Retry = c.queue, c.partitions, "elsewhere", rehop.Steps(time.Minute)
			if _, err := client.Subscribe(d.ctx, other); err == nil {
				d.t.Errorf("%s with %d partitions: got no error", c.queue, c.partitions)
			}
			if after := d.names(); !slices.Equal(after, before) {
				d.t.Errorf("%s with %d partitions was refused, and now there are\n%q, before\n%q", c.queue, c.partitions, after, before)
			}
		}
	})
}

// names are those of all that is on the broker.
func (d *desk) names() (names []string) {
	d.t.Helper()
	live, err := d.admin.Live(d.ctx)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, x := range live.Exchanges {
		names = append(names, "exchange "+x.Name)
	}
	for _, q := range live.Queues {
		names = append(names, "queue "+q.Name)
	}
	for _, b := range live.Bindings {
		names = append(names, fmt.Sprintf("binding %s %s %s", b.Source, b.Destination, b.Key))
	}
	slices.Sort(names)
	return names
}

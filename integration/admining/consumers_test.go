package admining

import (
	"slices"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// Consumers of rehop and of others are listed with their clients. One that stands by is not active.
func TestConsumers(t *testing.T) {
	d := newDesk(t)
	quiet := kit.Into(make(chan *rehop.Delivery, 1))
	first := kit.Open(t, rehop.Config{URL: d.rabbit.URL, Name: "first"})
	kit.Subscribe(t, first, rehop.Subscriber{Queue: "orders", SingleActiveConsumer: true, Prefetch: 7, Handler: quiet})
	second := kit.Open(t, rehop.Config{URL: d.rabbit.URL, Name: "second"})
	kit.Subscribe(t, second, rehop.Subscriber{Queue: "orders", SingleActiveConsumer: true, Prefetch: 9, Handler: quiet})
	if _, err := d.ch.QueueDeclare("plain", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ch.Consume("plain", "by-hand", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	// The management API lists a consumer, and the name of its connection, a moment after it has begun.
	var last []admin.Consumer
	list := func(queue string, want ...admin.Consumer) {
		t.Helper()
		lab.Eventually(t, kit.Limit, "the list shows the consumers", func() bool {
			var err error
			if last, err = d.admin.Consumers(d.ctx, queue); err != nil {
				t.Fatal(err)
			}
			got := slices.Clone(last)
			for i := range got {
				if got[i].Connection == "" || got[i].Tag == "" || got[i].User == "" {
					return false
				}
				got[i].Connection, got[i].User = "", ""
				if got[i].Queue == "orders" {
					got[i].Tag = ""
				}
			}
			return slices.Equal(got, want)
		})
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last list: %+v", last)
		}
	})
	byHand := admin.Consumer{Queue: "plain", Tag: "by-hand", Active: true, AutoAck: true}
	list("plain", byHand)
	active, standby := admin.Consumer{Queue: "orders", Client: "first consume", Prefetch: 7, Active: true}, admin.Consumer{Queue: "orders", Client: "second consume", Prefetch: 9}
	list("", active, standby, byHand)
	list("orders", active, standby)
	list("none")
}

package topologies

import (
	"context"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// ofForms are subscriptions whose layouts have several forms: the older form, and the newer one.
var ofForms = map[string]struct {
	rehop.Subscriber
	older, newer layout.Layout
	failed       string // a queue that is in both
}{
	"pubsub": {rehop.Subscriber{Queue: "billing@summary", Exchange: "master", Keys: []string{"order.#"}, Layout: layout.PubSub{}},
		layout.PubSub{Form: layout.PubSubByKey}, layout.PubSub{Form: layout.PubSubByQueue}, "billing@summary@failed"},
	"sneakers": {rehop.Subscriber{Queue: "downloads", QueueType: layout.Quorum, Layout: layout.Sneakers{}},
		layout.Sneakers{RetryArgs: map[string]any{}}, layout.Sneakers{RetryArgs: map[string]any{"x-queue-type": "quorum"}}, "downloads-error"},
}

// What the broker has decides between the forms of a layout, for who compares and applies a plan as for who subscribes.
func TestFormOfTheBroker(t *testing.T) {
	t.Parallel()
	for name, c := range ofForms {
		t.Run(name, func(t *testing.T) {
			each(t, func(d *desk) {
				in := func(l layout.Layout) topology.Plan {
					s := c.Subscriber
					s.Layout = l
					return plan(d.t, s)
				}
				automatic, older, newer := plan(d.t, c.Subscriber), in(c.older), in(c.newer)
				d.apply(d.admin, older)
				d.wantSame(automatic)
				d.wantDiff(d.blind, automatic, "unchecked bindings ")
				before := d.objects()
				for _, a := range []*admin.Admin{d.admin, d.blind} {
					if applied := d.apply(a, automatic); len(applied.Declared) > 0 || len(applied.Left) > 0 {
						d.t.Errorf("applied to the older form: got %v, want nothing declared and nothing left", applied)
					}
				}
				if got := d.objects(); got != before {
					d.t.Errorf("after applying to the older form: got %d objects, want %d", got, before)
				}
				if diff := d.diff(d.admin, newer); len(diff.Of("differs")) == 0 {
					d.t.Errorf("the newer form by a setting: got %vwant it to differ", diff)
				}

				// What is missing of the older form is declared in it.
				if _, err := d.ch.QueueDelete(c.failed, false, false, false); err != nil {
					d.t.Fatal(err)
				}
				if applied := d.apply(d.admin, automatic); len(applied.Declared) == 0 || len(applied.Left) > 0 {
					d.t.Errorf("applied to a part of the older form: got %v, want things declared and nothing left", applied)
				}
				d.wantSame(older)
				s := c.Subscriber
				s.Handler = rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })
				kit.Drain(d.t, kit.Subscribe(d.t, kit.Open(d.t, rehop.Config{URL: d.rabbit.URL}), s))
				d.wantSame(automatic)
			})
		})
	}
}

// Each subscription of a plan is in the form that it has, and on an empty broker in the newest.
func TestFormsOfSeveral(t *testing.T) {
	each(t, func(d *desk) {
		old, fresh := ofForms["pubsub"].Subscriber, ofForms["pubsub"].Subscriber
		fresh.Queue, fresh.Keys = "billing@other", []string{"invoice.#"}
		p := plan(d.t, old, fresh)
		before := old
		before.Layout = layout.PubSub{Form: layout.PubSubByKey}
		d.apply(d.admin, plan(d.t, before))
		d.apply(d.admin, p)
		d.wantSame(p)
		after := fresh
		after.Layout = layout.PubSub{Form: layout.PubSubByQueue}
		d.wantSame(plan(d.t, before, after))
	})
}

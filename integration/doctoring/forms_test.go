package doctoring

import (
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/layout"
)

// A broker that has a layout in its older form is as healthy for who leaves the form to the broker as for who sets it.
func TestFormsOfLayouts(t *testing.T) {
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		w := newWard(t, r)
		subscriptions := []rehop.Subscription{
			{Queue: "shop@orders", Exchange: "master", Keys: []string{"order.#"}, Layout: layout.PubSub{Form: layout.PubSubByKey}},
			{Queue: "mail", QueueType: layout.Quorum, Layout: layout.Sneakers{RetryArgs: map[string]any{}}},
		}
		plan, err := rehop.Topology(rehop.Config{}, subscriptions...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.admin.Apply(w.ctx, plan, admin.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		found := func(layouts ...layout.Layout) []string {
			o := options()
			o.Subscriptions = make(map[string]admin.DoctorSubscription)
			for i, l := range layouts {
				o.Subscriptions[subscriptions[i].Queue] = admin.DoctorSubscription{Layout: l}
			}
			return lines(slices.DeleteFunc(w.examine(w.admin, o), func(f admin.Finding) bool {
				return strings.HasPrefix(f.ID, "user.") || strings.HasPrefix(f.ID, "broker.") // of other tests on the same broker
			}))
		}
		got, want := found(layout.PubSub{}, layout.Sneakers{}), found(subscriptions[0].Layout, subscriptions[1].Layout)
		if !slices.Equal(got, want) {
			t.Errorf("with the form left to the broker: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

package doctoring

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/layout"
)

// A broker that has a layout in its older form is as healthy for who leaves the form to the broker as for who sets it.
func TestFormsOfLayouts(t *testing.T) {
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		w := newWard(t, r)
		subscriptions := []rehop.Subscriber{
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

// A queue that other programs declare, too, must not get another type by itself: their declarations would be refused.
func TestAdviceForSharedLayouts(t *testing.T) {
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		w := newWard(t, r)
		subscriptions := []rehop.Subscriber{
			{Queue: "shop@orders", Keys: []string{"order.#"}, Layout: layout.PubSub{}},
			{Queue: "mail", Layout: layout.Sneakers{}},
			{Queue: "letters", Exchange: "letters", Layout: layout.DLX{}},
		}
		plan, err := rehop.Topology(rehop.Config{}, subscriptions...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.admin.Apply(w.ctx, plan, admin.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		w.queue("own", amqp.Table{"x-message-ttl": 60_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "mail"})
		told := options()
		told.Subscriptions = make(map[string]admin.DoctorSubscription)
		for _, s := range subscriptions {
			told.Subscriptions[s.Queue] = admin.DoctorSubscription{Layout: s.Layout}
		}
		for _, o := range []admin.DoctorOptions{options(), told} {
			all := w.examine(w.admin, o)
			for _, c := range []struct{ id, queue string }{
				{"queue.lossy-dead-letters", "shop@orders@retry"}, {"queue.lossy-dead-letters", "mail-retry"}, {"queue.lossy-dead-letters", "letters"}, {"queue.old-arguments", "dlq"},
			} {
				f, found := has(all, c.id, fmt.Sprintf("queue %q", c.queue))
				if !found || strings.Contains(f.Fix, "rehop topology migrate") || !strings.Contains(f.Fix, "406") {
					t.Errorf("%s of %s: got %q, want that it is found, what changing it costs, and no advice to migrate it alone", c.id, c.queue, f.Fix)
				}
			}
			if f, found := has(all, "queue.lossy-dead-letters", `queue "own"`); !found || !strings.Contains(f.Fix, "rehop topology migrate") {
				t.Errorf("a queue of no layout: got %q, want the advice to migrate it", f.Fix)
			}
		}
		// What the advice is about: the queue as a quorum queue, and a program of the fleet that declares it.
		const retry = "shop@orders@retry"
		fleet := amqp.Table{"x-dead-letter-exchange": "master", "x-dead-letter-routing-key": "shop@orders", "x-message-ttl": int64(30_000)}
		if _, err := w.ch.QueueDeclare(retry, true, false, false, false, fleet); err != nil {
			t.Fatalf("got %v, want that the fleet and rehop declare the same queue", err)
		}
		if _, err := w.ch.QueueDelete(retry, false, false, false); err != nil {
			t.Fatal(err)
		}
		quorum := amqp.Table{"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
		maps.Copy(quorum, fleet)
		w.queue(retry, quorum)
		var refused *amqp.Error
		if _, err := w.ch.QueueDeclare(retry, true, false, false, false, fleet); !errors.As(err, &refused) || refused.Code != amqp.PreconditionFailed {
			t.Errorf("the fleet's declaration of a quorum queue: got %v, want 406", err)
		}
	})
}

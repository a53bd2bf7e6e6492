package doctoring

import (
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/layout"
)

// crash takes the first message of a queue and closes the channel, as a consumer that dies does.
func (w *ward) crash(queue string) {
	w.t.Helper()
	ch := w.rabbit.Channel()
	lab.Eventually(w.t, kit.Limit, "a message in "+queue, func() bool {
		_, there, err := ch.Get(queue, false)
		if err != nil {
			w.t.Fatal(err)
		}
		return there
	})
	if err := ch.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// From RabbitMQ 4.3 on a dead letter keeps how often it was delivered, and a queue with the default limit drops it when it is delivered once more.
// Doctor reports it, and its advice helps.
func TestLettersLimit(t *testing.T) {
	t.Parallel()
	w := newWard(t, lab.Single(t))
	w.queue("letters", amqp.Table{"x-queue-type": "quorum"})
	w.queue("work", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 20, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"})
	die := func() {
		w.put("work", amqp.Publishing{MessageId: "m", DeliveryMode: amqp.Persistent})
		for range 21 {
			w.crash("work")
		}
		kit.WantDepth(t, w.rabbit, w.ch, "letters", 1)
	}
	die()
	f, _ := has(w.examine(w.admin, options()), "queue.letters-limit", `queue "letters"`)
	w.crash("letters")
	switch {
	case w.atLeast(4, 3):
		if f.Severity != admin.Critical {
			t.Errorf("got %v, want a critical finding", f)
		}
		lab.Eventually(t, kit.Limit, "the broker has dropped it", func() bool { return w.rabbit.Depth(w.ch, "letters") == 0 })
		w.policy("letters", "^letters$", "queues", 1, map[string]any{"delivery-limit": 1_000_000_000})
		die()
		w.crash("letters")
	case w.atLeast(4, 0):
		if f.Severity != admin.Warning {
			t.Errorf("got %v, want a warning", f)
		}
		w.policy("letters", "^letters$", "queues", 1, map[string]any{"delivery-limit": 1_000_000_000})
	default:
		if f.Severity != admin.Info {
			t.Errorf("got %v, want what is worth knowing", f)
		}
		w.policy("letters", "^letters$", "queues", 1, map[string]any{"delivery-limit": 1_000_000_000})
	}
	w.crash("letters")
	kit.WantDepth(t, w.rabbit, w.ch, "letters", 1)
	if f, found := has(w.examine(w.admin, options()), "queue.letters-limit", `queue "letters"`); found {
		t.Errorf("after the fix there is still %s", f)
	}
}

// A policy for all queues can have RabbitMQ 4.3 hold back what was given back. A failed queue that somebody has looked at seems to be empty then.
func TestDelayedRetryOfFailedQueue(t *testing.T) {
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		w := newWard(t, r)
		if !w.atLeast(4, 3) {
			t.Skip("delayed retries are new in RabbitMQ 4.3")
		}
		plan, err := rehop.Topology(rehop.Config{}, rehop.Subscriber{Queue: "orders"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.admin.Apply(w.ctx, plan, admin.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		const id, object = "policy.own", `queue "orders.failed"`
		w.policy("late", "", "quorum_queues", 1, map[string]any{"delayed-retry-type": "all", "delayed-retry-min": 3_600_000})
		if _, found := has(w.examine(w.admin, options()), id, object); !found {
			t.Errorf("no finding %s of %s", id, object)
		}
		w.policy("late", "", "quorum_queues", 1, map[string]any{"delayed-retry-type": "disabled"})
		lab.Eventually(t, kit.Limit, "the finding is gone", func() bool {
			_, found := has(w.examine(w.admin, options()), id, object)
			return !found
		})
	})
}

// How long the broker waits is shown by the API from 4.0 on, and queues can have timeouts of their own.
func TestTimeoutsOfQueues(t *testing.T) {
	lab.EachBroker(t, timeoutsOfQueues)
}

func timeoutsOfQueues(t *testing.T, r *lab.Rabbit) {
	w := newWard(t, r)
	quorum := amqp.Table{"x-queue-type": "quorum"}
	w.queue("usual", quorum)
	w.queue("classic", nil)
	w.queue("unhurried", quorum)
	w.queue("stopped", quorum) // from 4.3 on its subscription asks for its own timeout when it starts
	w.queue("short", amqp.Table{"x-queue-type": "quorum", "x-consumer-timeout": int64(15 * time.Minute / time.Millisecond)})
	for _, q := range []string{"usual", "classic", "unhurried", "short"} {
		w.consume(q, false, 1, false)
	}
	o := options()
	o.HandlerTimeout = 0
	o.Subscriptions = map[string]admin.DoctorSubscription{
		"usual": {HandlerTimeout: 40 * time.Minute}, "classic": {HandlerTimeout: 40 * time.Minute}, "stopped": {HandlerTimeout: 40 * time.Minute},
		"unhurried": {HandlerTimeout: 20 * time.Minute}, "short": {HandlerTimeout: 20 * time.Minute},
	}
	want := []string{`warning consumer.timeout queue "usual"`}
	if w.atLeast(4, 0) {
		want = append(want, `warning consumer.timeout queue "short"`)
	}
	if !w.atLeast(4, 3) { // where classic queues have none
		want = append(want, `warning consumer.timeout queue "classic"`, `warning consumer.timeout queue "stopped"`)
	}
	slices.Sort(want)
	var got []string
	lab.Eventually(t, kit.Limit, "consumers are among the figures", func() bool {
		all := w.examine(w.admin, o)
		got = lines(slices.DeleteFunc(all, func(f admin.Finding) bool { return f.ID != "consumer.timeout" }))
		return slices.Equal(got, want)
	})
}

// Layouts that count in x-death are found by what is on the broker, and by the caller's options; those that have the broker count, by the options.
func TestLayoutsThatCountInDeaths(t *testing.T) {
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		w := newWard(t, r)
		all := map[string]layout.Layout{
			"plain": layout.Native{}, "counted": layout.Sneakers{Reject: true}, "shop@orders": layout.PubSub{}, "tiered": layout.Tiers{}, "mail": layout.Sneakers{}, "post": layout.Sneakers{Reject: true},
			"lettered": layout.DLX{QueueArgs: map[string]any{"x-queue-mode": nil}}, "letter.main.q": layout.Envelope{},
		}
		said := make(map[string]admin.DoctorSubscription)
		for queue, l := range all {
			s := rehop.Subscriber{Queue: queue, Exchange: "x." + queue, Layout: l}
			if queue == "counted" { // whose rejected messages are counted on every release
				s.QueueType = layout.Quorum
			}
			plan, err := rehop.Topology(rehop.Config{}, s)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.admin.Apply(w.ctx, plan, admin.ApplyOptions{}); err != nil {
				t.Fatal(err)
			}
			said[queue] = admin.DoctorSubscription{Layout: l}
		}
		ofLayouts := func(o admin.DoctorOptions) []string {
			return lines(slices.DeleteFunc(w.examine(w.admin, o), func(f admin.Finding) bool { return !strings.HasPrefix(f.ID, "layout.") }))
		}
		as, rejects := "info", "info"
		if w.atLeast(4, 0) {
			as = "warning"
		}
		if w.atLeast(4, 3) {
			rejects = "warning"
		}
		sure := []string{as + ` layout.x-death queue "shop@orders"`, as + ` layout.x-death queue "tiered"`}
		want := append(slices.Clone(sure), `info layout.x-death queue "counted"`, `info layout.x-death queue "mail"`, `info layout.x-death queue "post"`)
		slices.Sort(want)
		if got := ofLayouts(options()); !slices.Equal(got, want) {
			t.Errorf("by what is on the broker: got %q, want %q", got, want)
		}
		o := options()
		o.Subscriptions = said
		want = append(slices.Clone(sure), as+` layout.x-death queue "mail"`, rejects+` layout.rejections queue "post"`)
		slices.Sort(want)
		if got := ofLayouts(o); !slices.Equal(got, want) {
			t.Errorf("as the caller says: got %q, want %q", got, want)
		}
		for _, f := range w.examine(w.admin, o) {
			if f.ID != "layout.x-death" || f.Object.Name != "mail" {
				continue
			}
			if advises := strings.Contains(f.Fix, "reject: true"); advises == w.atLeast(4, 3) {
				t.Errorf("it advises to reject messages of a classic queue: %v, and from 4.3 on that does not help: %s", advises, f.Fix)
			}
		}
	})
}

// What the repair of an embedded broker has kept is named, and not called superfluous; a replay brings it to its queue.
func TestRecovered(t *testing.T) {
	t.Parallel()
	w := newWard(t, lab.Embedded(t))
	w.queue("rehop.recovered.7", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 3})
	w.queue("rehop.recovered.8", nil)
	w.queue("orders", nil)
	kit.Exchange(t, w.ch, "order", "topic")
	for queue, key := range map[string]string{"rehop.recovered.7": "order.lost", "orders": "order.#"} {
		if err := w.ch.QueueBind(queue, key, "order", false, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.ch.PublishWithContext(w.ctx, "order", "order.lost", true, false, amqp.Publishing{MessageId: "m", DeliveryMode: amqp.Persistent}); err != nil {
		t.Fatal(err)
	}
	if m := kit.Take(t, w.ch, "orders"); m.MessageId != "m" { // its queue was lost, and will be another one
		t.Fatalf("got message %q, want m", m.MessageId)
	}
	if err := w.ch.QueueUnbind("rehop.recovered.7", "order.lost", "order", nil); err != nil {
		t.Fatal(err)
	}
	ofQueues := func() []string {
		return lines(slices.DeleteFunc(w.examine(w.admin, options()), func(f admin.Finding) bool { return f.Object.Kind != "queue" }))
	}
	if got, want := ofQueues(), []string{`info queue.recovered queue "rehop.recovered.8"`, `warning queue.recovered queue "rehop.recovered.7"`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	listed, err := w.admin.Failed(w.ctx, "rehop.recovered.7", 10, admin.Filter{})
	if err != nil || len(listed) != 1 || listed[0].ID != "m" {
		t.Errorf("got %v %v, want the message", listed, err)
	}
	if _, err := w.admin.Replay(w.ctx, "rehop.recovered.7", admin.Options{}); err != nil {
		t.Fatal(err)
	}
	kit.WantDepth(t, w.rabbit, w.ch, "rehop.recovered.7", 0)
	kit.WantDepth(t, w.rabbit, w.ch, "orders", 1)
	if m := kit.Take(t, w.ch, "orders"); m.MessageId != "m" {
		t.Errorf("got message %q, want m", m.MessageId)
	}
}

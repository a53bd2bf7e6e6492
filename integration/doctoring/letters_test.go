package doctoring

import (
	"fmt"
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

// ofDeadLetters are the findings about where dead letters go.
func ofDeadLetters(all admin.Findings) admin.Findings {
	return slices.DeleteFunc(all, func(f admin.Finding) bool {
		return f.ID != "queue.dead-letter-nowhere" && f.ID != "queue.dead-letter-cycle"
	})
}

// Dead letters that find no queue by the key that they have, or that come back to where they have died, are found; the usual recipes are not.
func TestDeadLetters(t *testing.T) {
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		w := newWard(t, r)
		dead := func(exchange, key string, ttl int) amqp.Table {
			args := amqp.Table{"x-dead-letter-exchange": exchange}
			if key != "" {
				args["x-dead-letter-routing-key"] = key
			}
			if ttl > 0 {
				args["x-message-ttl"] = ttl
			}
			return args
		}
		for name, kind := range map[string]string{"in": "topic", "exact": "direct", "all": "fanout", "dlx": "direct", "dlt": "topic", "back": "topic", "on": "fanout"} {
			kit.Exchange(t, w.ch, name, kind)
		}
		w.queue("parked", nil, [2]string{"dlx", "parked"}, [2]string{"dlt", "order.#"})
		if err := w.ch.ExchangeBind("dlx", "", "on", false, nil); err != nil {
			t.Fatal(err)
		}
		if err := w.ch.ExchangeDeclare("spared", "direct", true, false, false, false, amqp.Table{"alternate-exchange": "dlt"}); err != nil {
			t.Fatal(err)
		}
		want := []string{}

		// Bound, and not for the key.
		w.queue("fixed", dead("dlx", "other", 0))
		w.queue("fixed-on", dead("on", "other", 0)) // by way of another exchange
		w.queue("own-key", dead("dlx", "", 0), [2]string{"exact", "mail"})
		w.queue("own-pattern", dead("dlt", "", 0), [2]string{"in", "mail.*"})
		w.queue("own-name", dead("dlx", "", 0))
		for _, q := range []string{"fixed", "fixed-on", "own-key", "own-pattern", "own-name"} {
			want = append(want, fmt.Sprintf(`critical queue.dead-letter-nowhere queue %q`, q))
		}
		w.queue("fixed-well", dead("dlx", "parked", 0))
		w.queue("on-well", dead("on", "parked", 0))
		w.queue("pattern-well", dead("dlt", "", 0), [2]string{"in", "*.created"})
		w.queue("alternate-well", dead("spared", "order.late", 0))

		// The default exchange, and no key.
		w.queue("default", dead("", "", 0), [2]string{"in", "order.created"}, [2]string{"in", "order.*"})
		w.queue("default-any", dead("", "", 0), [2]string{"all", ""})
		want = append(want, `critical queue.dead-letter-nowhere queue "default"`, `warning queue.dead-letter-nowhere queue "default-any"`)
		w.queue("default-well", dead("", "", 0), [2]string{"exact", "parked"})

		// Cycles.
		w.queue("round", dead("", "round.wait", 1000))
		w.queue("round.wait", dead("back", "round", 1000))
		w.queue("self", dead("", "self", 1000))
		w.queue("full", amqp.Table{"x-max-length": 3, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "full.wait"})
		w.queue("full.wait", dead("", "full", 1000))
		if err := w.ch.QueueBind("round", "round.#", "back", false, nil); err != nil {
			t.Fatal(err)
		}
		want = append(want, `critical queue.dead-letter-cycle queue "full"`, `critical queue.dead-letter-cycle queue "round"`, `critical queue.dead-letter-cycle queue "self"`)
		w.queue("retried", dead("", "retried.wait", 0)) // consumers reject
		w.queue("retried.wait", dead("", "retried", 1000))

		got := lines(ofDeadLetters(w.examine(w.admin, options())))
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// Where the dead letters of each layout go, they find a queue, and do not come back by themselves.
func TestDeadLettersOfLayouts(t *testing.T) {
	for _, l := range []layout.Layout{layout.Native{}, layout.PubSub{}, layout.PubSub{Form: layout.PubSubByKey}, layout.Sneakers{}, layout.DLX{}, layout.Tiers{}, layout.Envelope{}} {
		t.Run(fmt.Sprintf("%T%[1]v", l), func(t *testing.T) {
			t.Parallel()
			w := newWard(t, lab.Embedded(t))
			plan, err := rehop.Topology(rehop.Config{},
				rehop.Subscriber{Queue: "orders", Exchange: "order", Keys: []string{"order.#"}, Layout: l},
				rehop.Subscriber{Queue: "mail", Exchange: "order", Keys: []string{"order.created"}, Layout: l})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.admin.Apply(w.ctx, plan, admin.ApplyOptions{}); err != nil {
				t.Fatal(err)
			}
			for _, f := range ofDeadLetters(w.examine(w.admin, options())) {
				t.Errorf("got %s", f)
			}
		})
	}
}

// Doctor's word for a cycle is the broker's: what expires in each queue on the way is dropped when it comes back to the first, and what was
// rejected on the way is not.
func TestCyclesLoseMessages(t *testing.T) {
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		w := newWard(t, r)
		w.queue("first", amqp.Table{"x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "second"})
		w.queue("second", amqp.Table{"x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "first"})
		w.queue("rejected", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "waits"})
		w.queue("waits", amqp.Table{"x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "rejected"})
		w.put("first", amqp.Publishing{MessageId: "lost"})
		lab.Eventually(t, kit.Limit, "the message that expired twice is gone", func() bool {
			return r.Depth(w.ch, "first") == 0 && r.Depth(w.ch, "second") == 0 && r.Depth(w.ch, "first") == 0
		})
		w.put("rejected", amqp.Publishing{MessageId: "kept"})
		for range 3 {
			var d amqp.Delivery
			lab.Eventually(t, kit.Limit, "the message that was rejected is back", func() (there bool) {
				var err error
				if d, there, err = w.ch.Get("rejected", false); err != nil {
					t.Fatal(err)
				}
				return there
			})
			if err := d.Reject(false); err != nil {
				t.Fatal(err)
			}
		}
		kit.WantDepth(t, r, w.ch, "rejected", 1)
		found := ofDeadLetters(w.examine(w.admin, options()))
		if got, want := lines(found), []string{`critical queue.dead-letter-cycle queue "first"`}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// What is about to be deleted with its queue, and what consumers hoard. RabbitMQ's figures are up to ten seconds old.
func TestExpiringAndHeld(t *testing.T) {
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		w := newWard(t, r)
		message := amqp.Publishing{MessageId: "m", DeliveryMode: amqp.Persistent}
		hour := amqp.Table{"x-expires": int64(time.Hour / time.Millisecond)}
		w.queue("expiring", hour)
		w.queue("expiring-by-policy", nil)
		w.policy("short", "^expiring-by-policy$", "queues", 1, map[string]any{"expires": int64(time.Hour / time.Millisecond)})
		w.queue("expiring-empty", hour)
		w.queue("expiring-used", hour)
		w.queue("hoarded", nil)
		w.queue("shared", nil)
		w.put("expiring", message)
		w.put("expiring-by-policy", message)
		w.put("expiring-used", message)
		w.put("hoarded", message, message, message)
		w.put("shared", message, message)
		w.consume("expiring-used", false, 1, false)
		w.consume("hoarded", false, 10, false)
		w.consume("shared", false, 10, false)
		want := []string{`critical queue.expires queue "expiring"`, `critical queue.expires queue "expiring-by-policy"`, `warning queue.unacked queue "hoarded"`}
		o := options()
		o.MaxUnacked = 3
		var got []string
		lab.Eventually(t, kit.Limit, "everything is found", func() bool {
			got = lines(slices.DeleteFunc(w.examine(w.admin, o), func(f admin.Finding) bool { return f.ID != "queue.expires" && f.ID != "queue.unacked" }))
			return slices.Equal(got, want)
		})
	})
}

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
)

// Everything that can be declared wrong, in one virtual host: all of it is found, and nothing else.
func TestDeclaredWrong(t *testing.T) {
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		w := newWard(t, r)
		quorum := func(more amqp.Table) amqp.Table {
			args := amqp.Table{"x-queue-type": "quorum"}
			for name, value := range more {
				args[name] = value
			}
			return args
		}
		kit.Exchange(t, w.ch, "dlx", "fanout")
		w.queue("dlq", nil, [2]string{"dlx", ""})
		kit.Exchange(t, w.ch, "unfed", "topic")
		want := []string{}
		expect := func(lines ...string) { want = append(want, lines...) }

		if !w.atLeast(4, 3) { // which refuses it
			if _, err := w.ch.QueueDeclare("transient", false, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
			expect(`warning queue.transient queue "transient"`)
			w.queue("placed", amqp.Table{"x-queue-master-locator": "min-masters"})
			expect(`info queue.old-arguments queue "placed"`)
		}
		w.queue("short", amqp.Table{"x-message-ttl": 1000})
		expect(`warning queue.ttl-drops queue "short"`)
		w.queue("bounded", amqp.Table{"x-max-length": 10})
		w.queue("bounded-bytes", amqp.Table{"x-max-length-bytes": 1000})
		w.queue("refusing", amqp.Table{"x-max-length": 10, "x-overflow": "reject-publish"})
		expect(`warning queue.length-drops queue "bounded"`, `warning queue.length-drops queue "bounded-bytes"`)
		w.queue("lossy", amqp.Table{"x-message-ttl": 1000, "x-dead-letter-exchange": "dlx"})
		w.queue("rejects", amqp.Table{"x-dead-letter-exchange": "dlx"})
		w.queue("once", quorum(amqp.Table{"x-max-length": 10, "x-dead-letter-exchange": "dlx"}))
		expect(`warning queue.lossy-dead-letters queue "lossy"`, `info queue.lossy-dead-letters queue "rejects"`, `warning queue.lossy-dead-letters queue "once"`)
		w.queue("strategy", quorum(amqp.Table{"x-dead-letter-exchange": "dlx", "x-dead-letter-strategy": "at-least-once"}))
		expect(`warning queue.strategy-ignored queue "strategy"`)
		w.queue("nowhere", quorum(amqp.Table{"x-dead-letter-exchange": "gone", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}))
		w.queue("no-queue", quorum(amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "gone", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}))
		w.queue("nobody", quorum(amqp.Table{"x-dead-letter-exchange": "unfed", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}))
		expect(`critical queue.dead-letter-nowhere queue "nowhere"`, `critical queue.dead-letter-nowhere queue "no-queue"`, `critical queue.dead-letter-nowhere queue "nobody"`)
		w.queue("limited", quorum(amqp.Table{"x-delivery-limit": 3}))
		expect(`warning queue.limit-drops queue "limited"`)
		w.queue("lazy", amqp.Table{"x-queue-mode": "lazy"})
		expect(`info queue.old-arguments queue "lazy"`)

		// rehop's own, declared by somebody else before.
		w.queue("orders.failed", quorum(amqp.Table{"x-delivery-limit": 5}))
		plan, err := rehop.Topology(rehop.Config{}, rehop.Subscriber{Queue: "orders"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.admin.Apply(w.ctx, plan, admin.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		if w.atLeast(4, 3) { // where dead letters of orders come with more deliveries than that
			expect(`critical queue.letters-limit queue "orders.failed"`)
		} else {
			expect(`warning queue.failed-limit queue "orders.failed"`)
		}
		w.queue("rehop.migrating.invoices", nil)
		expect(`warning queue.migration queue "invoices"`)

		w.queue("clash-a", nil)
		w.queue("clash-b", nil)
		w.policy("wide", "^clash-", "queues", 1, map[string]any{"max-length": 1000, "overflow": "reject-publish"})
		w.policy("narrow", "^clash-a$", "queues", 2, map[string]any{"expires": 3_600_000})
		expect(`warning policy.clash policy "wide"`)
		w.policy("own", `^rehop\.orphans$`, "queues", 1, map[string]any{"message-ttl": 1000})
		expect(`critical policy.own queue "rehop.orphans"`, `warning queue.ttl-drops queue "rehop.orphans"`)
		w.policy("full", "^orders$", "queues", 1, map[string]any{"max-length": 10})
		expect(`critical policy.full queue "orders"`)
		w.policy("idle", "^no-such-queue$", "queues", 1, map[string]any{"max-length": 10})
		expect(`info policy.unused policy "idle"`)
		if !w.embedded() && !w.atLeast(4, 0) { // which have no mirrors
			w.policy("mirrors", "^mirrored", "queues", 1, map[string]any{"ha-mode": "all"})
			expect(`info policy.mirrors policy "mirrors"`)
		}

		kit.Exchange(t, w.ch, "plain", "topic")
		if err := w.ch.QueueBind("dlq", "k", "plain", false, nil); err != nil {
			t.Fatal(err)
		}
		expect(`info exchange.no-alternate exchange "plain"`)
		if err := w.ch.ExchangeDeclare("astray", "topic", true, false, false, false, amqp.Table{"alternate-exchange": "gone"}); err != nil {
			t.Fatal(err)
		}
		expect(`warning exchange.alternate-missing exchange "astray"`)

		found := slices.DeleteFunc(w.examine(w.admin, options()), func(f admin.Finding) bool {
			// Other tests cover the broker as a whole, and who is connected.
			return f.Object.Kind == "broker" || f.Object.Kind == "user" || f.Object.Kind == "virtual host" || f.Object.Kind == "node"
		})
		for _, f := range found {
			if w.embedded() && strings.Contains(f.Fix, "rabbitmqctl") {
				t.Errorf("the embedded broker has no rabbitmqctl: %s", f)
			}
		}
		slices.Sort(want)
		if got := lines(found); !slices.Equal(got, want) {
			for _, l := range want {
				if !slices.Contains(got, l) {
					t.Errorf("not found: %s", l)
				}
			}
			for _, l := range got {
				if !slices.Contains(want, l) {
					t.Errorf("found, and not there: %s", l)
				}
			}
		}
	})
}

// What is found of messages, consumers and channels. RabbitMQ's figures are up to ten seconds old.
func TestContents(t *testing.T) {
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		w := newWard(t, r)
		plan, err := rehop.Topology(rehop.Config{}, rehop.Subscriber{Queue: "orders", Retry: rehop.Steps(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.admin.Apply(w.ctx, plan, admin.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		message := amqp.Publishing{MessageId: "m", DeliveryMode: amqp.Persistent}
		w.put("orders", message)
		w.put("orders.failed", message, message, message)
		w.put("rehop.orphans", message)
		w.put("rehop.unrouted", message)
		late := message
		late.Headers = amqp.Table{"rehop-queue": "orders", "rehop-due": time.Now().Add(-time.Hour).UnixMilli()}
		w.put("rehop.step.1h", late)
		w.queue("looping", amqp.Table{"x-queue-type": "quorum"})
		w.queue("reckless", nil)
		w.queue("greedy", nil)
		w.consume("looping", false, 1, false)
		w.consume("reckless", true, 1, false)
		w.consume("greedy", false, 0, false)
		w.consume("greedy", false, 7, true)
		kit.Exchange(t, w.ch, "plain", "topic")
		if err := w.ch.PublishWithContext(w.ctx, "plain", "nobody", false, false, message); err != nil {
			t.Fatal(err)
		}
		want := [][2]string{
			{"queue.unconsumed", `queue "orders"`}, {"queue.failed", `queue "orders.failed"`}, {"queue.orphans", `queue "rehop.orphans"`},
			{"queue.unrouted", `queue "rehop.unrouted"`}, {"queue.stalled", `queue "rehop.step.1h"`}, {"queue.stalled", `queue "rehop.step.stuck"`}, {"broker.unroutable", `virtual host "` + r.Vhost + `"`},
		}
		if w.atLeast(4, 0) { // where each quorum queue has a limit
			want = append(want, [2]string{"queue.limit-drops", `queue "looping"`})
		} else {
			want = append(want, [2]string{"queue.no-delivery-limit", `queue "looping"`})
		}
		if !w.embedded() { // where guest can log in from the same machine alone
			want = append(want, [2]string{"user.administrator", `user "guest"`})
		}
		// How many of each, at which severity.
		counts := map[string]int{"warning consumer.auto-ack": 1, "warning consumer.unlimited": 1, "warning channel.global-prefetch": 1}
		switch {
		case w.atLeast(4, 3): // a prefetch of a channel is one of each consumer
			counts["warning channel.global-prefetch"] = 0
		case w.atLeast(4, 0): // the API does not show prefetches of channels
			counts = map[string]int{"warning consumer.auto-ack": 1, "warning consumer.unlimited": 0, "info consumer.unlimited": 2, "warning channel.global-prefetch": 0}
		}
		w.queue("rehop.step.stuck", amqp.Table{"x-queue-type": "quorum", "x-message-ttl": 1, "x-dead-letter-exchange": "gone",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"})
		w.put("rehop.step.stuck", message)
		var all admin.Findings
		lab.Eventually(t, kit.Limit, "everything is found", func() bool {
			all = w.examine(w.admin, options())
			for _, x := range want {
				if f, there := has(all, x[0], x[1]); !there || !f.Severity.Above(admin.Info) {
					t.Logf("not yet: %s %s", x[0], x[1])
					return false
				}
			}
			for of, want := range counts {
				n := 0
				for _, f := range all {
					if string(f.Severity)+" "+f.ID == of {
						n++
					}
				}
				if n != want {
					t.Logf("not yet: %d times %s", n, of)
					return false
				}
			}
			return true
		})
		if _, found := has(all, "user.administrator", `user "guest"`); found && w.embedded() {
			t.Error("user.administrator: guest of an embedded broker can log in from the same machine alone")
		}
		for _, f := range all {
			if w.embedded() && strings.Contains(f.Fix, "rabbitmqctl") {
				t.Errorf("the embedded broker has no rabbitmqctl: %s", f)
			}
		}
		kit.WantDepth(t, r, w.ch, "rehop.step.1h", 1) // looking has not taken it
	})
}

// consume begins a consumer on a channel of its own.
func (w *ward) consume(queue string, autoAck bool, prefetch int, global bool) {
	w.t.Helper()
	ch := w.rabbit.Channel()
	if err := ch.Qos(prefetch, 0, global); err != nil {
		w.t.Fatal(err)
	}
	if _, err := ch.Consume(queue, "", autoAck, false, false, false, nil); err != nil {
		w.t.Fatal(err)
	}
}

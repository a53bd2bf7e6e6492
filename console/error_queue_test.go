package console_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/topology"
)

// faulty is a message as MassTransit leaves it in the error queue of billing.
func faulty(id, why string) rehop.Message {
	return rehop.Message{ID: id, Key: "billing_error", Body: []byte(`{"messageId":"` + id + `","message":{"order":7}}`), ContentType: "application/vnd.masstransit+json",
		Headers: map[string]any{"tenant": "acme", "MT-Reason": "fault", "MT-Fault-ExceptionType": "System.Exception", "MT-Fault-Message": why,
			"MT-Fault-InputAddress": "rabbitmq://mq/shop/billing?durable=true", "MT-Fault-Timestamp": "2026-03-04T05:06:07.1230000Z"}}
}

// The failed messages of a program that does not use rehop can be seen, exported, discarded and replayed to their queue.
func TestErrorQueue(t *testing.T) {
	f := open(t)
	plan := topology.Plan{Queues: []topology.Queue{{Name: "billing"}, {Name: "billing_error"}, {Name: "elsewhere"}}}
	if _, err := f.admin.Apply(t.Context(), plan, admin.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	depth := func(queue string) int {
		ready, unacked := f.Depth(queue)
		return ready + unacked
	}
	f.publish("billing_error", faulty("a1", "no such customer"), faulty("a2", "no such customer"), faulty("b1", "too late"), faulty("b2", "too late"),
		rehop.Message{ID: "c1", Body: []byte("of an unknown program")})
	const as = "&as=error-queue"
	f.get("/queues").has(t, `name="as" value="error-queue"`)
	list := f.get("/failed?queue=billing_error" + as)
	list.has(t, "all 5 that match", "a1", "c1", "System.Exception: no such customer", "of queue <bdi>billing</bdi>", "recorded by <bdi>MassTransit</bdi>", "; the queue has 5 messages")
	f.get("/failed?in=billing_error&text=late"+as).has(t, "all 2 that match", "b1", `name="as" value="error-queue"`)
	message := f.get("/message?queue=billing_error&id=a1" + as)
	message.has(t, "with a record of <bdi>MassTransit</bdi>", "no such customer", "tenant")
	message.lacks(t, "In the failed queue")
	if text := f.get("/export?queue=billing_error&format=jsonl" + as).text; strings.Count(text, "\n") != 5 || !strings.Contains(text, "MT-Fault-Message") {
		t.Errorf("got the export %s, want 5 lines with the records", text)
	}
	f.get("/export?queue=billing_error&format=csv"+as).has(t, "a1", "too late")

	where := list.hidden(t, "where")
	asked := f.post("/confirm", url.Values{"where": {where}, "do": {"replay-selected"}, "pick": {"a1", "a2"}})
	asked.has(t, `id="count">2<`, "To queue")
	f.post("/replay", asked.confirmed(t, nil)).has(t, `id="done">2<`)
	if got := fmt.Sprint(depth("billing"), depth("billing_error")); got != "2 3" {
		t.Errorf("after a replay: got %s messages in the queue and its error queue, want 2 3", got)
	}
	// A record that names no queue keeps its message, and the page has the reason. A queue for all helps.
	asked = f.post("/confirm", url.Values{"where": {where}, "do": {"replay-selected"}, "pick": {"c1"}})
	if p := do(t, f.console, "POST", "/replay", asked.confirmed(t, nil)); p.status != 400 || !strings.Contains(p.text, "name the queue to replay it to") {
		t.Errorf("without a queue: got %d %s, want 400 and what to do", p.status, p.text)
	}
	f.post("/replay", asked.confirmed(t, url.Values{"to": {"elsewhere"}})).has(t, `id="done">1<`)
	asked = f.post("/confirm", url.Values{"where": {where}, "do": {"discard-all"}})
	f.post("/discard", asked.confirmed(t, url.Values{"typed": {"2"}})).has(t, `id="done">2<`)
	if got := fmt.Sprint(depth("billing"), depth("billing_error"), depth("elsewhere")); got != "2 0 1" {
		t.Errorf("at the end: got %s messages, want 2 0 1", got)
	}
}

// The messages of a failed queue can be replayed to another queue.
func TestReplayToAnotherQueue(t *testing.T) {
	f := open(t)
	f.fail("orders", messagesOf("m", 3)...)
	f.subscribe("repaired")
	asked := f.post("/confirm", url.Values{"where": {"queue=orders"}, "do": {"replay-all"}})
	if p := do(t, f.console, "POST", "/replay", asked.confirmed(t, url.Values{"to": {"orders.failed"}})); p.status != 400 {
		t.Errorf("to a failed queue: got %d %s, want 400", p.status, p.text)
	}
	f.post("/replay", asked.confirmed(t, url.Values{"to": {"repaired"}})).has(t, `id="done">3<`)
	f.AwaitEmpty("repaired")
	if n := f.failedNow("orders"); n != 0 {
		t.Errorf("got %d messages in the failed queue, want none", n)
	}
}

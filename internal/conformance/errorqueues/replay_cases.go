package errorqueues

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/conformance/await"
)

func replayCases() []Case {
	return []Case{
		{"a message that the broker has dead-lettered is replayed, and fails again as if for the first time", deadLettered},
		{"an expired message is replayed to the queue in which it expired", expired},
		{"messages without an id keep the one by which they are seen, and equal ones share it", anonymous},
		{"a queue that does not exist keeps all messages where they are", noSuchQueue},
		{"a replay to the error queue itself is refused", toItself},
		{"a message with CC goes to its queue alone", copied},
		{"a filter chooses among messages of several frameworks", filtered},
		{"a replay that is killed loses nothing", killed},
		{"a queue that rejects messages keeps them in the error queue", full},
	}
}

// pair declares a queue that dead-letters into an error queue.
func (b *Bench) pair(args amqp091.Table) {
	b.t.Helper()
	args["x-dead-letter-exchange"], args["x-dead-letter-routing-key"] = "", "dead"
	b.declare(quorum(), "dead")
	b.declare(args, "orders")
	b.bind("shop", "order.*", "orders")
}

func deadLettered(b *Bench) {
	b.pair(quorum())
	q := b.admin().ErrorQueue("dead")
	b.publish("shop", "order.placed", amqp091.Publishing{MessageId: "o-7", Body: []byte("order 7"), Headers: amqp091.Table{"tenant": "acme"}})
	for round := range 3 {
		if round == 2 { // the key is now also the name of a queue, which must not get a copy
			b.declare(quorum(), "order.placed")
		}
		b.reject("orders")
		b.wantDepth("dead", 1)
		m := b.only(q)
		if m.Queue != "orders" || m.Key != "order.placed" || m.Attempts != 1 || m.Kind != rehop.KindDead || m.FailedAt.IsZero() || m.RecordedBy != "RabbitMQ" || m.ID != "o-7" {
			b.t.Fatalf("round %d: got %+v, want one attempt in orders", round, m)
		}
		if p, err := q.Replay(b.context(), "", admin.Options{}); err != nil || p.Done != 1 {
			b.t.Fatalf("replay: got %+v, %v, want 1 message", p, err)
		}
		b.wantDepth("dead", 0)
		b.wantDepth("orders", 1)
	}
	b.wantDepth("order.placed", 0)
	d := b.take("orders")
	if d.RoutingKey != "orders" || d.Exchange != "" {
		b.t.Errorf("got key %q, want the name of the queue, because the key is that of another one", d.RoutingKey)
	}
	if string(d.Body) != "order 7" || d.Headers["tenant"] != "acme" || d.Headers["x-death"] != nil || d.Headers["x-first-death-queue"] != nil {
		b.t.Errorf("got %q with %v, want what was published, without x-death", d.Body, d.Headers)
	}
}

func expired(b *Bench) {
	b.pair(quorum())
	q := b.admin().ErrorQueue("dead")
	b.publish("shop", "order.placed", amqp091.Publishing{MessageId: "o-7", Expiration: "1"})
	b.wantDepth("dead", 1)
	if m := b.only(q); m.Queue != "orders" || m.Exchange != "shop" || m.Key != "order.placed" || m.Attempts != 0 || !strings.Contains(m.Error, "expired") {
		b.t.Errorf("got %+v, want no attempt in orders", m)
	}
	if p, err := q.Replay(b.context(), "", admin.Options{}); err != nil || p.Done != 1 {
		b.t.Fatalf("replay: got %+v, %v, want 1 message", p, err)
	}
	if d := b.take("orders"); d.MessageId != "o-7" || d.Expiration != "" {
		b.t.Errorf("got %q with expiration %q, want o-7 with none", d.MessageId, d.Expiration)
	}
}

// anonymous reads the messages more often than the queue allows, so that they are republished.
func anonymous(b *Bench) {
	b.declare(amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(2)}, "dead")
	b.declare(quorum(), "orders")
	q := b.admin().ErrorQueue("dead")
	for _, body := range []string{"one", "two", "two", "three"} {
		b.publish("", "dead", amqp091.Publishing{Body: []byte(body)})
	}
	b.wantDepth("dead", 4)
	ids := make(map[string]string)
	for round := range 6 {
		found, err := q.Messages(b.context(), 10, admin.Filter{})
		b.must(err)
		if len(found) != 4 {
			b.t.Fatalf("round %d: got %d messages, want 4", round, len(found))
		}
		for _, m := range found {
			if id, known := ids[string(m.Body)]; known && id != m.ID || !strings.HasPrefix(m.ID, "noid-") {
				b.t.Fatalf("round %d: %q: got id %q, want %q", round, m.Body, m.ID, id)
			}
			ids[string(m.Body)] = m.ID
		}
	}
	if len(ids) != 3 || ids["one"] == ids["two"] || ids["two"] == ids["three"] {
		b.t.Fatalf("got ids %v, want three", ids)
	}
	if p, err := q.Replay(b.context(), "orders", admin.Options{Filter: admin.Filter{IDs: []string{ids["two"]}}}); err != nil || p.Done != 2 || p.Kept != 2 {
		b.t.Fatalf("replay: got %+v, %v, want both of 2 equal messages", p, err)
	}
	first, second := b.take("orders"), b.take("orders")
	if string(first.Body) != "two" || string(second.Body) != "two" || first.MessageId == second.MessageId || len(first.Headers) > 0 && first.Headers["rehop-came-by"] != nil {
		b.t.Errorf("got %q and %q with ids %q and %q, want both with different ids", first.Body, second.Body, first.MessageId, second.MessageId)
	}
	b.wantDepth("dead", 2)
}

func noSuchQueue(b *Bench) {
	b.declare(quorum(), "dead")
	q := b.admin().ErrorQueue("dead")
	b.publish("", "dead", amqp091.Publishing{MessageId: "o-7", Headers: amqp091.Table{"NServiceBus.FailedQ": "gone"}})
	b.wantDepth("dead", 1)
	if p, err := q.Replay(b.context(), "nowhere", admin.Options{}); !errors.Is(err, admin.ErrNoQueue) || p.Seen != 0 {
		b.t.Errorf("to a queue that does not exist: got %+v, %v, want ErrNoQueue and nothing read", p, err)
	}
	p, err := q.Replay(b.context(), "", admin.Options{})
	b.wantErr(err, `message o-7 to queue "gone"`)
	if p.Done != 0 || p.Kept != 1 {
		b.t.Errorf("got %+v, want it kept", p)
	}
	b.wantDepth("dead", 1)
	if _, err := b.admin().ErrorQueue("nowhere").Messages(b.context(), 1, admin.Filter{}); !errors.Is(err, admin.ErrNoQueue) {
		b.t.Errorf("an error queue that does not exist: got %v, want ErrNoQueue", err)
	}
}

func toItself(b *Bench) {
	b.declare(quorum(), "dead")
	q := b.admin().ErrorQueue("dead")
	b.publish("", "dead", amqp091.Publishing{MessageId: "o-7", Headers: amqp091.Table{"NServiceBus.FailedQ": "dead"}})
	b.wantDepth("dead", 1)
	_, err := q.Replay(b.context(), "dead", admin.Options{})
	b.wantErr(err, "return to where they are")
	if p, err := q.Replay(b.context(), "", admin.Options{}); !errors.Is(err, admin.ErrNoDestination) || p.Kept != 1 {
		b.t.Errorf("a record that names the error queue: got %+v, %v, want it kept with ErrNoDestination", p, err)
	}
	b.wantDepth("dead", 1)
}

// copied has its copy routed when there is no queue for it yet, so that only a replay could send one.
func copied(b *Bench) {
	b.declare(quorum(), "dead", "orders")
	b.publish("", "dead", amqp091.Publishing{MessageId: "o-7", Headers: amqp091.Table{"CC": []any{"copies"}, "tenant": "acme"}})
	b.wantDepth("dead", 1)
	b.declare(quorum(), "copies")
	if p, err := b.admin().ErrorQueue("dead").Replay(b.context(), "orders", admin.Options{}); err != nil || p.Done != 1 {
		b.t.Fatalf("got %+v, %v, want 1 message", p, err)
	}
	if d := b.take("orders"); d.Headers["CC"] != nil || d.Headers["tenant"] != "acme" {
		b.t.Errorf("got %v, want no CC", d.Headers)
	}
	b.wantDepth("copies", 0)
}

func filtered(b *Bench) {
	b.declare(quorum(), "dead", "orders")
	q := b.admin().ErrorQueue("dead")
	for i := range 6 {
		b.publish("", "dead", amqp091.Publishing{MessageId: fmt.Sprint(i), Headers: amqp091.Table{"NServiceBus.FailedQ": "orders", "tenant": fmt.Sprint(i % 2),
			"NServiceBus.ExceptionInfo.Message": fmt.Sprintf("No customer %d", i), "NServiceBus.TimeOfFailure": fmt.Sprintf("2026-03-0%d 00:00:00:000000 Z", i+1)}})
	}
	b.wantDepth("dead", 6)
	p, err := q.Replay(b.context(), "", admin.Options{Filter: admin.Filter{Header: map[string]string{"tenant": "1"}}, DropHeaders: []string{"ten*"}})
	if err != nil || p.Done != 3 || p.Kept != 3 {
		b.t.Fatalf("got %+v, %v, want 3 of 6", p, err)
	}
	if d := b.take("orders"); d.MessageId != "1" || d.Headers["tenant"] != nil {
		b.t.Errorf("got %q with %v, want 1 without the header tenant", d.MessageId, d.Headers)
	}
	if p, err := q.Discard(b.context(), admin.Options{Filter: admin.Filter{Text: "customer 2"}}); err != nil || p.Done != 1 {
		b.t.Errorf("discard by text: got %+v, %v, want 1", p, err)
	}
	b.wantDepth("dead", 2)
}

// killed closes the connections of a replay when some messages are replayed, and then runs another one.
func killed(b *Bench) {
	const all = 1000
	b.declare(quorum(), "dead", "orders")
	for i := range all {
		b.publish("", "dead", amqp091.Publishing{MessageId: fmt.Sprint(i), Headers: amqp091.Table{"MT-Reason": "fault", "MT-Fault-Message": "boom",
			"MT-Fault-InputAddress": "rabbitmq://localhost/orders"}})
	}
	b.wantDepth("dead", all)
	a := b.admin()
	p, err := a.ErrorQueue("dead").Replay(b.context(), "", admin.Options{Progress: func(p admin.Progress) {
		if p.Done > all/4 {
			a.Close()
		}
	}})
	if err == nil || p.Done >= all {
		b.t.Fatalf("a replay that was killed: got %+v, %v, want an error before the end", p, err)
	}
	await.True(b.t, limit, 0, "the broker has taken everything back", func() bool { return b.depth("dead")+b.depth("orders") >= all })
	if p, err := b.admin().ErrorQueue("dead").Replay(b.context(), "", admin.Options{}); err != nil || p.Kept != 0 {
		b.t.Fatalf("the rest: got %+v, %v, want all of it", p, err)
	}
	b.wantDepth("dead", 0)
	seen := make(map[string]int)
	for range b.depth("orders") {
		seen[b.take("orders").MessageId]++
	}
	twice := 0
	for i := range all {
		n := seen[fmt.Sprint(i)]
		if n == 0 {
			b.t.Fatalf("message %d is lost", i)
		}
		twice += n - 1
	}
	if twice > 256 {
		b.t.Errorf("got %d messages twice, want at most 256", twice)
	}
}

func full(b *Bench) {
	b.declare(quorum(), "dead")
	b.declare(amqp091.Table{"x-queue-type": "classic", "x-max-length": int32(1), "x-overflow": "reject-publish"}, "orders")
	for i := range 3 {
		b.publish("", "dead", amqp091.Publishing{MessageId: fmt.Sprint(i)})
	}
	b.wantDepth("dead", 3)
	ctx := b.context()
	p, err := b.admin().ErrorQueue("dead").Replay(ctx, "orders", admin.Options{})
	if err == nil || p.Done+p.Kept != 3 || p.Kept == 0 {
		b.t.Errorf("got %+v, %v, want an error and some kept", p, err)
	}
	b.wantDepth("orders", p.Done)
	b.wantDepth("dead", p.Kept)
}

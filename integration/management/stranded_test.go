package management

import (
	"encoding/json"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/integration/lab"
)

// TestStrandedDeadLetters: dead letters that a queue keeps because nobody takes them are counted apart from its other messages. A queue that drops what it has
// no room for keeps none.
func TestStrandedDeadLetters(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		ch := p.channel()
		_, err := ch.QueueDeclare("careless", true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": "nowhere", "x-dead-letter-strategy": "at-least-once"})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []amqp.Publishing{{Body: []byte("gone"), Expiration: "1"}, {Body: []byte("stays")}} {
			if err := ch.Publish("", "careless", false, false, m); err != nil {
				t.Fatal(err)
			}
		}
		_, err = ch.QueueDeclare("q", true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": "nowhere",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []amqp.Publishing{{Body: []byte("four"), Expiration: "1"}, {Body: []byte("seven.."), Expiration: "1"}, {Body: []byte("stays")}} {
			if err := ch.Publish("", "q", false, false, m); err != nil {
				t.Fatal(err)
			}
		}
		describe := func(queue string) (got map[string]any) {
			if err := json.Unmarshal([]byte(p.must("GET", "/api/queues/"+p.vhost+"/"+queue, "")), &got); err != nil {
				t.Fatal(err)
			}
			return got
		}
		var got map[string]any
		lab.Eventually(t, settle, "the statistics know of two dead letters", func() bool {
			got = describe("q")
			return got["messages_dlx"] == 2.0 && got["messages_ready"] == 1.0
		})
		lab.Eventually(t, settle, "the careless queue has one message", func() bool {
			careless := describe("careless")
			return careless["messages"] == 1.0 && careless["messages_ready"] == 1.0 && careless["messages_dlx"] == 0.0
		})
		want := map[string]float64{"messages": 3, "messages_ready": 1, "messages_unacknowledged": 0, "message_bytes": 16, "message_bytes_ready": 5, "message_bytes_dlx": 11}
		if lab.Release() >= broker.RabbitMQ43 { // which counts properties, too: flags of two bytes, and an expiration of as many
			want["message_bytes"], want["message_bytes_ready"], want["message_bytes_dlx"] = 26, 7, 19
		}
		for key, want := range want {
			if got[key] != want {
				t.Errorf("%s: got %v, want %v", key, got[key], want)
			}
		}
		q, err := ch.QueueDeclarePassive("q", true, false, false, false, nil)
		if err != nil || q.Messages != 1 {
			t.Errorf("the queue tells of %d messages, %v; want 1", q.Messages, err)
		}
	})
}

// TestStrandedForOneQueue: a dead letter for two queues of which one is full goes to the other, and is kept for the full one.
func TestStrandedForOneQueue(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		ch := p.channel()
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		for name, args := range map[string]amqp.Table{
			"q": {"x-queue-type": "quorum", "x-dead-letter-exchange": "amq.fanout", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}, "roomy": nil,
			"full": {"x-max-length": 1, "x-overflow": "reject-publish"},
		} {
			if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"roomy", "full"} {
			if err := ch.QueueBind(name, "", "amq.fanout", false, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range []struct{ queue, expiration string }{{"full", ""}, {"q", "1"}} {
			c, err := ch.PublishWithDeferredConfirm("", m.queue, false, false, amqp.Publishing{Expiration: m.expiration, DeliveryMode: 2})
			if err != nil {
				t.Fatal(err)
			}
			c.Wait()
		}
		lab.Eventually(t, settle, "one queue has the dead letter, and it is kept for the other", func() bool {
			var q map[string]any
			if err := json.Unmarshal([]byte(p.must("GET", "/api/queues/"+p.vhost+"/q", "")), &q); err != nil {
				t.Fatal(err)
			}
			roomy, err := ch.QueueDeclarePassive("roomy", true, false, false, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			return q["messages_dlx"] == 1.0 && q["messages_ready"] == 0.0 && roomy.Messages == 1
		})
	})
}

package rabbit

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// printed is a message with something of everything.
func printed() Message {
	return Message{
		Exchange: "x", RoutingKey: "k", MessageId: "1", CorrelationId: "c", ContentType: "t", ContentEncoding: "e", ReplyTo: "r", Expiration: "9", Type: "y",
		UserId: "u", AppId: "a", DeliveryMode: 2, Priority: 1, Timestamp: time.Unix(7, 0), Body: []byte("body"),
		Headers: amqp.Table{"n": int32(1), "x-death": []any{amqp.Table{"count": int64(1), "queue": "q", "time": time.Unix(8, 0)}}},
	}
}

// The fingerprint is that of the whole message, and of nothing that a delivery adds.
func TestPrintOf(t *testing.T) {
	m := printed()
	want := FingerprintOf(&m)
	for name, change := range map[string]func(*Message){
		"a copy":           func(*Message) {},
		"tag":              func(m *Message) { m.DeliveryTag, m.ConsumerTag, m.Redelivered = 7, "c", true },
		"x-delivery-count": func(m *Message) { m.Headers["x-delivery-count"] = int64(3) },
		"x-acquired-count": func(m *Message) { m.Headers["x-acquired-count"] = int64(3) },
		"zone of the time": func(m *Message) { m.Timestamp = m.Timestamp.UTC() },
	} {
		m := printed()
		if change(&m); FingerprintOf(&m) != want {
			t.Errorf("%s: got another fingerprint, want the same", name)
		}
	}
	seen := map[Fingerprint]string{want: "unchanged"}
	for name, change := range map[string]func(*Message){
		"exchange":       func(m *Message) { m.Exchange = "other" },
		"key":            func(m *Message) { m.RoutingKey = "other" },
		"shifted":        func(m *Message) { m.Exchange, m.RoutingKey = "xk", "" },
		"id":             func(m *Message) { m.MessageId = "2" },
		"correlation":    func(m *Message) { m.CorrelationId = "" },
		"content type":   func(m *Message) { m.ContentType = "" },
		"encoding":       func(m *Message) { m.ContentEncoding = "" },
		"reply to":       func(m *Message) { m.ReplyTo = "" },
		"expiration":     func(m *Message) { m.Expiration = "" },
		"type":           func(m *Message) { m.Type = "" },
		"user":           func(m *Message) { m.UserId = "" },
		"app":            func(m *Message) { m.AppId = "" },
		"mode":           func(m *Message) { m.DeliveryMode = 1 },
		"priority":       func(m *Message) { m.Priority = 2 },
		"time":           func(m *Message) { m.Timestamp = time.Unix(8, 0) },
		"no time":        func(m *Message) { m.Timestamp = time.Time{} },
		"body":           func(m *Message) { m.Body = []byte("bodY") },
		"no body":        func(m *Message) { m.Body = nil },
		"header":         func(m *Message) { m.Headers["n"] = int32(2) },
		"type of header": func(m *Message) { m.Headers["n"] = int64(1) },
		"no header":      func(m *Message) { delete(m.Headers, "n") },
		"more headers":   func(m *Message) { m.Headers["m"] = nil },
		"nested":         func(m *Message) { m.Headers["x-death"].([]any)[0].(amqp.Table)["count"] = int64(2) },
	} {
		m := printed()
		change(&m)
		if other, ok := seen[FingerprintOf(&m)]; ok {
			t.Errorf("%s: got the fingerprint of %q, want another", name, other)
		}
		seen[FingerprintOf(&m)] = name
	}
}

package errorqueues

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
)

func hostileCases() []Case {
	return []Case{{"messages that lie are kept whole, and can be exported and replayed", hostile}}
}

// lies are messages that look like records and are none, or have impossible values.
func lies() []amqp091.Publishing {
	deep := any("end")
	for range 25 {
		deep = amqp091.Table{"in": deep}
	}
	long := strings.Repeat("x", 60_000)
	return []amqp091.Publishing{
		{Headers: amqp091.Table{"x-death": "no list"}},
		{Headers: amqp091.Table{"x-death": []any{"no table", amqp091.Table{"queue": int32(7), "reason": nil, "count": "many", "time": "now", "routing-keys": "k"}}}},
		{Headers: amqp091.Table{"x-death": []any{amqp091.Table{"queue": long, "reason": "rejected", "count": int64(-1)}}}},
		{Headers: amqp091.Table{"x-death": []any{amqp091.Table{"queue": "bad \xff\xfe", "reason": "rejected"}}}},
		{Headers: amqp091.Table{"NServiceBus.FailedQ": "\x00\x1b[31m", "NServiceBus.ExceptionInfo.Message": long}},
		{Headers: amqp091.Table{"MT-Reason": "fault", "MT-Fault-InputAddress": "rabbitmq://h/%zz", "MT-Fault-RetryCount": int64(1) << 62}},
		{Headers: amqp091.Table{"x-original-exchange": long, "x-original-routingKey": "k"}},
		{Headers: amqp091.Table{"rascal": amqp091.Table{"originalQueue": []byte{0xff}, "recovery": amqp091.Table{"\xff": amqp091.Table{}}}, "deep": deep}},
		{Type: "EasyNetQ.SystemMessages.Error", Body: []byte(`{"Message":7}`)},
		{Type: "EasyNetQ.SystemMessages.Error", Body: []byte(`{"Message":"m","Exception":"e","Queue":null,"Exchange":"","RoutingKey":"","BasicProperties":{}}`)},
		{Body: []byte(`{"queue_name":"q","actor_name":"a","args":{},"kwargs":[],"options":7,"message_id":"1","message_timestamp":1}`), ContentType: "application/json"},
		{Type: "EasyNetQ.SystemMessages.Error", Body: []byte(`{"Message":"m","Exception":"e","Queue":"orders","Exchange":"","RoutingKey":"","BasicProperties":{"Headers":` +
			strings.Repeat(`{"in":`, 100) + "1" + strings.Repeat("}", 101) + "}")},
		{Headers: amqp091.Table{"retry_info": "{"}, Body: []byte("\xff\xfe\x00")},
		{Body: bytes.Repeat([]byte{0xff, '{', '"'}, 1<<18), Timestamp: time.Unix(1<<40, 0)},
	}
}

// hostile replays what no record is in, byte for byte.
func hostile(b *Bench) {
	b.declare(nil, "dead", "orders")
	all := lies()
	for i, p := range all {
		p.MessageId = fmt.Sprint(i)
		b.publish("", "dead", p)
	}
	b.wantDepth("dead", len(all))
	a := b.admin()
	q := a.ErrorQueue("dead")
	found, err := q.Messages(b.context(), 100, admin.Filter{})
	b.must(err)
	for i, m := range found {
		if m.Queue != "" || m.Attempts < 0 || len(m.Error) > 4096 || m.Kind == rehop.KindDead {
			b.t.Errorf("message %d: got queue %q, %d attempts, kind %q and an error of %d bytes, want no record that can be used", i, m.Queue, m.Attempts, m.Kind, len(m.Error))
		}
	}
	var lines bytes.Buffer
	if n, err := q.Export(b.context(), &lines, admin.Filter{}); err != nil || n != len(all) {
		b.t.Fatalf("export: got %d messages, %v, want %d", n, err, len(all))
	}
	if p, err := q.Replay(b.context(), "orders", admin.Options{}); err != nil || p.Done != len(all) {
		b.t.Fatalf("replay: got %+v, %v, want %d messages", p, err, len(all))
	}
	for i, p := range all {
		if d := b.take("orders"); d.MessageId != fmt.Sprint(i) || !bytes.Equal(d.Body, p.Body) {
			b.t.Errorf("message %d: got %q with %d bytes, want %d bytes", i, d.MessageId, len(d.Body), len(p.Body))
		}
	}
	if n, err := a.Import(b.context(), &lines); err != nil || n != len(all) {
		b.t.Errorf("import: got %d messages, %v, want %d", n, err, len(all))
	}
}

package mgmt

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/wire"
)

// publish publishes one message and reports whether it was routed to a queue.
func (c *call) publish() (any, error) {
	f := c.fields(maxLargeBody, "routing_key", "properties", "payload", "payload_encoding")
	m := &wire.BasicPublish{Exchange: c.exchangeName("exchange"), RoutingKey: f.text("routing_key", ""), Mandatory: true}
	body, properties := f.payload(), f.properties()
	if f.err != nil {
		return nil, f.err
	}
	if err := c.unblocked(); err != nil {
		return nil, err
	}
	routed := false
	err := c.amqp(func(s *amqpClient) (err error) {
		routed, err = s.publish(m, properties, body)
		return err
	})
	if r, ok := err.(*refusal); ok {
		return nil, badRequest(r.Error()) // RabbitMQ returns the whole text here
	}
	return object{"routed": routed}, err
}

// publish returns when the broker has confirmed a message.
func (s *amqpClient) publish(m *wire.BasicPublish, properties wire.Properties, body []byte) (routed bool, err error) {
	if _, err := s.call(&wire.ConfirmSelect{}); err != nil {
		return false, err
	}
	if err := s.send(channel, m); err != nil {
		return false, err
	}
	if _, err := s.conn.Write(wire.AppendContent(nil, channel, wire.ClassBasic, properties.Append(nil), body, s.max)); err != nil {
		return false, err
	}
	routed = true
	for {
		answer, err := s.next()
		if err != nil {
			return false, err
		}
		switch answer.(type) {
		case *wire.BasicReturn:
			routed = false
			if _, _, _, err := s.content(0); err != nil {
				return false, err
			}
		case *wire.BasicAck:
			return routed, nil
		case *wire.BasicNack:
			return false, badRequest("rejected Unable to publish message. Check queue limits.")
		default:
			return false, fmt.Errorf("the broker answered %s to a message", answer.ID())
		}
	}
}

func (f *fields) payload() []byte {
	text, ok := f.values["payload"].(string)
	if !ok {
		f.fail("payload_not_string")
	}
	switch encoding := f.text("payload_encoding", ""); encoding {
	case "string":
		return []byte(text)
	case "base64":
		body, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			f.fail([]any{"not_base64", "payload"})
		}
		return body
	default:
		f.fail([]any{"unsupported_encoding", encoding})
		return nil
	}
}

// properties reads the properties of a message. Unknown properties are ignored.
func (f *fields) properties() (p wire.Properties) {
	given := fields{values: f.table("properties")}
	var err error
	p.Headers, err = table(given.table("headers"))
	given.failWith(err)
	for _, field := range textProperties(&p) {
		if _, ok := given.values[field.name]; ok {
			*field.value = given.text(field.name, "")
			p.Has |= field.flag
		}
	}
	for _, field := range []struct {
		name string
		top  uint64
		set  func(uint64)
	}{
		{"delivery_mode", math.MaxUint8, func(n uint64) { p.DeliveryMode = uint8(n) }},
		{"priority", math.MaxUint8, func(n uint64) { p.Priority, p.Has = uint8(n), p.Has|wire.HasPriority }},
		{"timestamp", math.MaxInt64, func(n uint64) { p.Timestamp, p.Has = n, p.Has|wire.HasTimestamp }},
	} {
		value, ok := given.values[field.name]
		if !ok {
			continue
		}
		number, _ := value.(json.Number)
		n, err := number.Int64()
		if err != nil || n < 0 || uint64(n) > field.top {
			given.fail([]any{"not_int", field.name})
		}
		field.set(uint64(n))
	}
	given.failWith(p.Check())
	f.failWith(given.err)
	return p
}

// textProperty is a property that is a string.
type textProperty struct {
	name  string
	value *string
	flag  wire.PropertySet
}

func textProperties(p *wire.Properties) []textProperty {
	return []textProperty{
		{"content_type", &p.ContentType, wire.HasContentType}, {"content_encoding", &p.ContentEncoding, wire.HasContentEncoding},
		{"correlation_id", &p.CorrelationID, wire.HasCorrelationID}, {"reply_to", &p.ReplyTo, wire.HasReplyTo},
		{"expiration", &p.Expiration, wire.HasExpiration}, {"message_id", &p.MessageID, wire.HasMessageID}, {"type", &p.Type, wire.HasType},
		{"user_id", &p.UserID, wire.HasUserID}, {"app_id", &p.AppID, wire.HasAppID}, {"cluster_id", &p.ClusterID, wire.HasClusterID},
	}
}

// Bounds of what one request returns, so that it cannot get a whole queue at once.
const (
	maxGot      = 50_000
	maxGotBytes = 64 << 20
)

// getMessages takes messages from a queue, or returns them to the queue after reading them.
func (c *call) getMessages() (any, error) {
	f := c.fields(maxBody, "ackmode", "count", "encoding")
	g := newGetter(c.path("queue"), f)
	if f.err != nil {
		return nil, f.err
	}
	var got []object
	err := c.amqp(func(s *amqpClient) (err error) {
		got, err = g.get(s)
		return err
	})
	if r, ok := err.(*refusal); ok && r.code == wire.NotFound {
		return nil, &failure{http.StatusNotFound, "not_found", r.text}
	}
	return got, err
}

func newGetter(queue string, f *fields) getter {
	g := getter{queue: queue, mode: f.text("ackmode", "")}
	modes := []string{"ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"}
	if !slices.Contains(modes, g.mode) {
		f.fail(fmt.Sprintf("Invalid ackmode value: %s. Valid values are: %s", g.mode, strings.Join(modes, ", ")))
	}
	g.count = f.integer("count", 0)
	encoding := f.text("encoding", "")
	if encoding != "auto" && encoding != "base64" {
		f.fail("Unsupported encoding. Please use auto or base64.")
	}
	g.base64 = encoding == "base64"
	if g.truncate = f.integer("truncate", math.MaxInt); g.truncate < 0 {
		f.fail([]any{"not_integer", "truncate"})
	}
	return g
}

// getter is a request for messages.
type getter struct {
	queue    string
	mode     string
	count    int
	base64   bool
	truncate int
}

func (g *getter) get(s *amqpClient) ([]object, error) {
	got := []object{}
	size := 0
	tag := uint64(0)
	for len(got) < min(g.count, maxGot) && size < maxGotBytes {
		answer, err := s.call(&wire.BasicGet{Queue: g.queue, NoAck: g.mode == "ack_requeue_false"})
		if err != nil {
			return nil, err
		}
		ok, found := answer.(*wire.BasicGetOK)
		if !found {
			break
		}
		properties, body, whole, err := s.content(g.truncate)
		if err != nil {
			return nil, err
		}
		tag = ok.DeliveryTag
		size += len(body)
		o := object{"payload_bytes": whole, "redelivered": ok.Redelivered, "exchange": printable(ok.Exchange), "routing_key": printable(ok.RoutingKey),
			"message_count": ok.MessageCount, "properties": shownProperties(properties)}
		if g.base64 || !utf8.Valid(body) {
			o["payload"], o["payload_encoding"] = base64.StdEncoding.EncodeToString(body), "base64"
		} else {
			o["payload"], o["payload_encoding"] = string(body), "string"
		}
		got = append(got, o)
	}
	return got, g.settle(s, tag)
}

// settle requeues or rejects all messages up to a tag.
func (g *getter) settle(s *amqpClient, tag uint64) error {
	if tag == 0 || g.mode == "ack_requeue_false" {
		return nil
	}
	return s.send(channel, &wire.BasicNack{DeliveryTag: tag, Multiple: true, Requeue: g.mode != "reject_requeue_false"})
}

// shownProperties returns an empty list if there are no properties, as RabbitMQ does.
func shownProperties(p wire.Properties) any {
	o := object{}
	for _, field := range textProperties(&p) {
		if *field.value != "" || p.Has&field.flag != 0 {
			o[field.name] = printable(*field.value)
		}
	}
	if len(p.Headers) > 0 {
		o["headers"] = shown(p.Headers)
	}
	if p.DeliveryMode != 0 || p.Has&wire.HasDeliveryMode != 0 {
		o["delivery_mode"] = p.DeliveryMode
	}
	if p.Priority != 0 || p.Has&wire.HasPriority != 0 {
		o["priority"] = p.Priority
	}
	if p.Timestamp != 0 || p.Has&wire.HasTimestamp != 0 {
		o["timestamp"] = p.Timestamp
	}
	if len(o) == 0 {
		return []any{}
	}
	return o
}

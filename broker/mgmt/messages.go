package mgmt

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/wire"
)

// publish publishes one message and says whether a queue got it.
func (c *call) publish() (any, error) {
	f, err := c.fields(maxLargeBody, "routing_key", "properties", "payload", "payload_encoding")
	if err != nil {
		return nil, err
	}
	m := &wire.BasicPublish{Exchange: c.exchangeName("exchange"), Mandatory: true}
	if m.RoutingKey, err = f.text("routing_key", ""); err != nil {
		return nil, err
	}
	body, err := f.payload()
	if err != nil {
		return nil, err
	}
	properties, err := f.properties()
	if err != nil {
		return nil, err
	}
	if err := c.unblocked(); err != nil {
		return nil, err
	}
	routed := false
	err = c.amqp(func(s *amqpClient) error {
		routed, err = s.publish(m, properties, body)
		return err
	})
	if r, ok := err.(*refusal); ok {
		return nil, badRequest(r.Error()) // RabbitMQ has these as they are
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

func (f fields) payload() ([]byte, error) {
	text, ok := f["payload"].(string)
	if !ok {
		return nil, badRequest("payload_not_string")
	}
	encoding, err := f.text("payload_encoding", "")
	if err != nil {
		return nil, err
	}
	switch encoding {
	case "string":
		return []byte(text), nil
	case "base64":
		body, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, badRequest([]any{"not_base64", "payload"})
		}
		return body, nil
	}
	return nil, badRequest([]any{"unsupported_encoding", encoding})
}

// properties reads the properties of a message. Those that nobody knows are let pass.
func (f fields) properties() (wire.Properties, error) {
	var p wire.Properties
	o, err := f.table("properties")
	if err != nil {
		return p, err
	}
	given := fields(o)
	headers, err := given.table("headers")
	if err != nil {
		return p, err
	}
	if p.Headers, err = table(headers); err != nil {
		return p, err
	}
	for _, field := range textProperties(&p) {
		if _, ok := given[field.name]; !ok {
			continue
		}
		if *field.value, err = given.text(field.name, ""); err != nil {
			return p, err
		}
		p.Has |= field.flag
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
		value, ok := given[field.name]
		if !ok {
			continue
		}
		number, _ := value.(json.Number)
		n, err := number.Int64()
		if err != nil || n < 0 || uint64(n) > field.top {
			return p, badRequest([]any{"not_int", field.name})
		}
		field.set(uint64(n))
	}
	if err := p.Check(); err != nil {
		return p, badRequest(err.Error())
	}
	return p, nil
}

// textProperty is a property that is text.
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

// Bounds of what one request returns, so that it cannot ask for a whole queue at once.
const (
	maxGot      = 50_000
	maxGotBytes = 64 << 20
)

// getMessages takes messages from a queue, or looks at them and gives them back.
func (c *call) getMessages() (any, error) {
	f, err := c.fields(maxBody, "ackmode", "count", "encoding")
	if err != nil {
		return nil, err
	}
	g := getter{queue: c.path("queue")}
	if err := g.read(f); err != nil {
		return nil, err
	}
	var got []object
	err = c.amqp(func(s *amqpClient) error {
		got, err = g.get(s)
		return err
	})
	if r, ok := err.(*refusal); ok && r.code == wire.NotFound {
		return nil, &failure{http.StatusNotFound, "not_found", r.text}
	}
	if err != nil {
		return nil, err
	}
	return got, nil
}

// getter is a request for messages.
type getter struct {
	queue    string
	mode     string
	count    int
	base64   bool
	truncate int
}

func (g *getter) read(f fields) (err error) {
	if g.mode, err = f.text("ackmode", ""); err != nil {
		return err
	}
	modes := []string{"ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"}
	if !slices.Contains(modes, g.mode) {
		return badRequest(fmt.Sprintf("Invalid ackmode value: %s. Valid values are: %s", g.mode, "ack_requeue_true, ack_requeue_false, reject_requeue_true, reject_requeue_false"))
	}
	if g.count, err = f.integer("count", 0); err != nil {
		return err
	}
	encoding, err := f.text("encoding", "")
	if err != nil {
		return err
	}
	if encoding != "auto" && encoding != "base64" {
		return badRequest("Unsupported encoding. Please use auto or base64.")
	}
	g.base64 = encoding == "base64"
	if g.truncate, err = f.integer("truncate", math.MaxInt); err != nil {
		return err
	}
	if g.truncate < 0 {
		return badRequest([]any{"not_integer", "truncate"})
	}
	return nil
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

// settle gives back or rejects all messages up to a tag.
func (g *getter) settle(s *amqpClient, tag uint64) error {
	if tag == 0 || g.mode == "ack_requeue_false" {
		return nil
	}
	return s.send(channel, &wire.BasicNack{DeliveryTag: tag, Multiple: true, Requeue: g.mode != "reject_requeue_false"})
}

// shownProperties has an empty list for no properties, as RabbitMQ has.
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

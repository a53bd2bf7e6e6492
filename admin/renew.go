package admin

import (
	"context"
	"errors"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
)

// maxLooks is how often a message is given back to a queue that may have a delivery limit. RabbitMQ 4 drops a message, unless the queue says
// otherwise, when it was given back more than 20 times; a process that dies while it reads gives back, too.
const maxLooks = 10

// mayDrop reports whether messages of a place may be dropped when they are given back too often. Queues that rehop declares for messages that
// rest have a limit that is never reached.
func (p place) mayDrop() bool {
	_, own := p.layout.(layout.Native)
	return p.open && !own
}

// renew puts messages that were given back often behind the others, as new ones, instead of giving them back once more: the broker then counts
// anew. What cannot be renewed is given back. If the broker has taken the originals back meanwhile, they are removed when they come again.
func (s *sweep) renew(ctx context.Context, h haul, kept []found) error {
	if !s.from.mayDrop() {
		return nil
	}
	var items []rabbit.Item
	var old []found
	for _, f := range kept {
		if !f.moved && looks(f.delivery) >= maxLooks {
			items, old = append(items, rabbit.Item{Key: s.from.source, Message: s.from.renewed(f.delivery)}), append(old, f)
		}
	}
	if len(items) == 0 {
		return nil
	}
	longer, end := rabbit.Grace(ctx, moveGrace)
	defer end()
	var done []found
	for i, err := range s.lease.admin.sender.PublishBatch(longer, items, true) {
		if err == nil {
			done = append(done, old[i])
		}
	}
	err := s.remove(longer, h.batch, done)
	if errors.Is(err, rabbit.ErrHeldTooLong) {
		for _, f := range done {
			if f.message.ID != "" { // without one, another may be alike, and a second copy is better than none
				s.owe(f)
			}
		}
	}
	return err
}

// looks is how often a message was given back.
func looks(d rabbit.Message) int {
	most := 0
	for _, name := range [...]string{"x-delivery-count", "x-acquired-count"} {
		if n, ok := number(d.Headers[name]); ok && d.Redelivered {
			most = max(most, n)
		}
	}
	return most
}

// renewed is a message as it was, without what the broker has counted. It is published to its queue by name, so it has with it where it came from.
func (p place) renewed(d rabbit.Message) *rabbit.Publishing {
	exchange, key := p.origin(d)
	again := &rabbit.Publishing{
		MessageId: d.MessageId, Body: d.Body, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		DeliveryMode: d.DeliveryMode, Priority: d.Priority, Timestamp: d.Timestamp, Expiration: d.Expiration,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Type: d.Type, AppId: d.AppId, Headers: make(rabbit.Table, len(d.Headers)),
	}
	if again.MessageId == "" {
		again.MessageId = rabbit.NewID() // what is sent again can then be told from its copy
	}
	for name, value := range d.Headers {
		switch name {
		case "x-delivery-count", "x-acquired-count":
		case "CC": // it would lead copies to other queues
			again.Headers[envelope.CC] = value
		default:
			again.Headers[name] = value
		}
	}
	if exchange != "" || key != p.source {
		again.Headers[envelope.CameBy], again.Headers[envelope.CameKey] = exchange, key
	}
	return again
}

// origin is the exchange by which a message came to the queue, and its routing key, also if it was renewed since.
func (p place) origin(d rabbit.Message) (exchange, key string) {
	if d.Exchange != "" || d.RoutingKey != p.source { // another way than a renewed message takes
		return d.Exchange, d.RoutingKey
	}
	if key, ok := d.Headers[envelope.CameKey].(string); ok {
		return envelope.Text(d.Headers[envelope.CameBy]), key
	}
	return d.Exchange, d.RoutingKey
}

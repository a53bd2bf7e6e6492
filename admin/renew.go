package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
)

// ErrNotRepublished: messages were returned to their queue so often that it may drop them, and the broker did not accept copies of them.
var ErrNotRepublished = errors.New("messages that were returned often could not be republished")

// renew republishes messages that were returned often to the end of the queue, instead of returning them once more: the broker then counts their
// deliveries from 0. The messages behind a renewed one are renewed, too, so that all stay in their order. If the broker has requeued the originals
// meanwhile, they are removed when they are delivered again.
func (s *sweep) renew(ctx context.Context, b rabbit.Batch, kept []found) error {
	var items []rabbit.Item
	var old []found
	for _, f := range kept {
		tired := s.isTired(f)
		s.renewing = s.renewing || tired && !f.unread
		if !f.moved && (tired || s.renewing && !f.unread && !s.isMine(f)) {
			again := s.from.renewed(f.delivery)
			if !f.unread {
				again.Headers[envelope.RenewedBy] = s.id
			}
			items, old = append(items, rabbit.Item{Key: s.from.source, Message: again}), append(old, f)
		}
	}
	if len(items) == 0 {
		return nil
	}
	longer, end := rabbit.Grace(ctx, moveGrace)
	defer end()
	var done []found
	var refused error
	for i, err := range s.lease.admin.sender.PublishBatch(longer, items, true) {
		if err == nil {
			done = append(done, old[i])
		} else if refused == nil {
			refused = fmt.Errorf("%w: message %s of queue %q, which was returned %d times and may be dropped when it is read again: %w. "+
				"Before you read the queue again, make sure that it accepts messages, or replay or discard all of its messages",
				ErrNotRepublished, items[i].Message.MessageId, s.from.source, returns(old[i].delivery), err)
		}
	}
	err := s.remove(longer, b, done)
	if errors.Is(err, rabbit.ErrHeldTooLong) {
		for _, f := range done {
			if f.message.ID != "" { // without an id it may be another message, and a second copy is better than none
				s.owe(f)
			}
		}
	}
	return errors.Join(err, refused)
}

// isTired reports whether a message was returned often enough to be renewed. A message that this sweep has renewed is behind all others already, and
// would lose its place among those that were renewed with it; so it may be returned once more.
func (s *sweep) isTired(f found) bool {
	from := s.renewFrom
	if s.isMine(f) && from != never {
		from++
	}
	return returns(f.delivery) >= from
}

// isMine reports whether this sweep has renewed a message.
func (s *sweep) isMine(f found) bool { return f.delivery.Headers[envelope.RenewedBy] == s.id }

// renewUnread renews messages that were delivered and not visited, before they are returned: otherwise every sweep would return them once more.
func (s *sweep) renewUnread(ctx context.Context) error {
	if s.renewFrom == never {
		return nil
	}
	b, err := s.reader.Unread(ctx)
	if err != nil {
		return err
	}
	kept := s.again(b)
	for _, d := range b.Messages {
		kept = append(kept, found{tag: d.DeliveryTag, message: s.from.read(d), delivery: d, unread: true})
	}
	for some := range slices.Chunk(kept, sweepBatch) { // if the process is killed, at most a chunk is in the queue twice
		if err := s.renew(ctx, b, some); err != nil {
			return err
		}
	}
	return nil
}

// again are the messages of a batch that the sweep has visited before.
func (s *sweep) again(b rabbit.Batch) (all []found) {
	for _, d := range b.Again {
		all = append(all, found{tag: d.DeliveryTag, message: s.from.read(d), delivery: d})
	}
	return all
}

// returns is how often a message was returned to its queue, as far as that counts toward a delivery limit.
func returns(d rabbit.Message) int {
	n, _ := number(d.Headers["x-delivery-count"])
	if !d.Redelivered { // a publisher has written it
		return 0
	}
	return n
}

// renewed is a copy of a message without the counts of the broker. It is published to its queue by name, so it records where it came from.
func (p place) renewed(d rabbit.Message) *rabbit.Publishing {
	exchange, key := p.origin(d)
	again := copyOf(d)
	for name, value := range d.Headers {
		switch name {
		case "x-delivery-count", "x-acquired-count", envelope.RenewedBy:
		case "CC": // the broker would send copies to other queues
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

// origin is the exchange through which a message came to the queue, and its routing key, also if it was renewed since.
func (p place) origin(d rabbit.Message) (exchange, key string) {
	renewed := d.Exchange == "" && d.RoutingKey == p.source // renewed messages are published like this
	if key, ok := d.Headers[envelope.CameKey].(string); ok && renewed {
		return envelope.Text(d.Headers[envelope.CameBy]), key
	}
	return d.Exchange, d.RoutingKey
}

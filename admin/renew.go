package admin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
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
			if f.message.isDistinct() { // without an id it may be another message, and a second copy is better than none
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
	if p.letters && d.MessageId == "" {
		again.MessageId = anonymousID(d) // operators know it by that
	}
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
	// Renewed messages, and those that were moved from another broker, are published like this.
	renewed := d.Exchange == "" && d.RoutingKey == p.source || d.Exchange == layouts.CarryExchange(p.source)
	if key, ok := d.Headers[envelope.CameKey].(string); ok && renewed {
		return envelope.Text(d.Headers[envelope.CameBy]), key
	}
	return d.Exchange, d.RoutingKey
}

// ErrNoReturns: the queue drops every message that is returned to it, so reading it would lose messages. Nothing was read.
var ErrNoReturns = errors.New("the queue drops every message that is returned to it")

// never is more often than any message is returned.
const never = math.MaxInt

// unknown: the delivery limit of a queue cannot be found. unlimited: it has none.
const unknown, unlimited = -2, -1

// renewFrom is after how many returns a message is republished instead of returned once more. A quorum queue drops a message that was returned more
// often than its delivery limit allows. When a process that reads the queue dies, that is a return, too.
//
// Half of the limit leaves room for processes that die, and for messages that could not be republished. A limit that is not known may be as low as 2.
// With a limit of 1 no message is returned: the one return that it allows is kept for a process that dies.
func renewFrom(limit int, countsReturns bool) int {
	switch {
	case limit == unlimited:
		return never
	case limit == 0, limit == 1 && countsReturns:
		return 0
	case limit == unknown:
		return 1
	}
	return max(1, limit/2)
}

// limits are the limits of a queue, from its arguments, its policies and the broker.
type limits struct {
	deliveries int // how often a message may be returned, or unknown or unlimited
	// The queue rejects messages if it has more messages or bytes than this. 0: it does not, as far as is known.
	length, bytes int
	holds         int // bytes, some seconds ago
	delayed       int // messages that were returned and that the queue delays, some seconds ago
}

// limitsOf are the limits of the queue of a place.
func (a *Admin) limitsOf(ctx context.Context, p place, line *rabbit.Conn) (limits, error) {
	if !p.open {
		// A message in a delay queue must not wait once more. If the queue drops it, it is dead-lettered to where it goes after its delay.
		return limits{deliveries: unlimited}, nil
	}
	asking, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	q, holds, err := a.management.queue(asking, p.source)
	switch {
	case ctx.Err() != nil:
		return limits{}, ctx.Err()
	case err != nil:
		return limits{deliveries: unknown}, nil // as without the API
	case q.Type != quorum:
		return limits{deliveries: unlimited}, nil
	}
	l := limits{deliveries: deliveriesOf(q, line.HasDefaultLimit()), holds: holds, delayed: q.Delayed}
	if setting(q, "overflow") == "reject-publish" {
		l.length, _ = limitOf(q, "max-length")
		l.bytes, _ = limitOf(q, "max-length-bytes")
	}
	return l, nil
}

// deliveriesOf is the delivery limit of a quorum queue.
func deliveriesOf(q topology.LiveQueue, byDefault bool) int {
	set := sets(q, "delivery-limit")
	limit, isNumber := limitOf(q, "delivery-limit")
	switch {
	case !set && byDefault:
		return defaultLimit
	case !set:
		return unlimited
	case !isNumber:
		return unknown
	case limit < 0 && byDefault:
		return unlimited
	}
	return max(limit, 0) // before RabbitMQ 4.0 a negative limit is 0
}

// isFull reports whether a queue with this number of messages may reject others: once it has more than its limit, RabbitMQ accepts none until it has
// less than 80 % of the limit.
func (l limits) isFull(messages int) bool {
	return l.length > 0 && messages*5 > l.length*4 || l.bytes > 0 && l.holds*5 > l.bytes*4
}

// queue reads the arguments of a queue, its settings by policies, and how many bytes it has. The settings that the API shows with the queue are
// some seconds old, so this reads the policies.
func (m *management) queue(ctx context.Context, name string) (queue topology.LiveQueue, bytes int, err error) {
	var q apiQueue
	var live topology.Live
	if err := m.get(ctx, "/api/queues/%s/%s", &q, name); err != nil {
		return queue, 0, err
	}
	if err := m.get(ctx, "/api/policies/%s", &live.Policies); err != nil {
		return queue, 0, err
	}
	if err := m.get(ctx, "/api/operator-policies/%s", &live.OperatorPolicies); err != nil {
		return queue, 0, err
	}
	return foreseen(live, q.live()), q.Bytes, nil
}

// allowsReturns returns an error if the leased queue might drop messages that are returned to it: because it allows no returns, or because messages
// that were returned often could not be republished. It is called before anything is read.
func (l *lease) allowsReturns(ctx context.Context, has limits, messages int) error {
	if has.deliveries == 0 {
		return fmt.Errorf("%w: its delivery limit is 0, the lowest of its x-delivery-limit and its policies. Raise it, "+
			"or replay or discard all of its messages, which returns none", ErrNoReturns)
	}
	if renewFrom(has.deliveries, l.line.CountsReturns()) == never || !l.line.CountsReturns() {
		return nil
	}
	if has.deliveries <= defaultLimit && has.isFull(messages) {
		return fmt.Errorf("%w: nothing was read, because this queue is full and refuses messages, and drops those that are returned too often. "+
			"Raise its delivery limit, max-length or max-length-bytes, or replay or discard all of its messages, which returns none", ErrNotRepublished)
	}
	// The message goes to the queue that is the lease, and is deleted with it.
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	probe := rabbit.Item{Key: l.name, Message: &rabbit.Publishing{MessageId: rabbit.NewID(), DeliveryMode: rabbit.Transient}}
	if err := errors.Join(l.admin.sender.PublishBatch(ctx, []rabbit.Item{probe}, true)...); err != nil {
		return fmt.Errorf("%w: nothing was read, because this queue may drop messages that are returned too often, "+
			"and this user cannot publish now: %w. If its delivery limit is high, configure the management API, so that rehop can see it", ErrNotRepublished, err)
	}
	return nil
}

const (
	// askLimit is how long the management API may take to describe a queue.
	askLimit = 5 * time.Second
	// probeLimit is how long the broker may take to confirm one message.
	probeLimit = 10 * time.Second
)

package admin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

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
func (a *Admin) limitsOf(ctx context.Context, p place, line *rabbit.Line) (limits, error) {
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

package admin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// ErrNoReturns: a queue drops every message that is returned to it, so it cannot be read without losing messages.
var ErrNoReturns = errors.New("the queue drops every message that is returned to it")

// never is more often than any message is returned.
const never = math.MaxInt

// unknown says that nothing tells the delivery limit of a queue, and unlimited that it has none.
const unknown, unlimited = -2, -1

// renewFrom is from how many returns on a message is published anew instead of being returned once more. A quorum queue drops a message that was
// returned more often than its delivery limit says, and the death of a process that reads it is a return, too.
//
// Half of the limit leaves room for processes that die, and for messages that could not be published anew. A limit that is not known may be as low as
// 2. With a limit of 1 no message is returned, so that the one return that it allows is left for a process that dies.
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

// limits are those of a queue: its own, and those of its policies and the broker.
type limits struct {
	deliveries int // how often a message may be returned, or unknown or unlimited
	// It refuses messages if it has more, or more bytes. 0: it does not, as far as is known.
	length, bytes int
	holds         int // bytes, some seconds ago
	delayed       int // messages that came back and that the queue holds back, some seconds ago
}

// limitsOf are the limits of the queue of a place.
func (a *Admin) limitsOf(ctx context.Context, p place, line *rabbit.Conn) (limits, error) {
	if !p.open {
		return limits{deliveries: unlimited}, nil // what waits must not wait once more; if it is dropped, it goes where it goes after its wait
	}
	asking, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	q, holds, err := a.management.queue(asking, p.source)
	switch {
	case ctx.Err() != nil:
		return limits{}, ctx.Err()
	case err != nil:
		return limits{deliveries: unknown}, nil // the worst is assumed, as without the API
	case q.Type != string(layout.Quorum):
		return limits{deliveries: unlimited}, nil
	}
	l := limits{deliveries: deliveriesOf(q, line.HasDefaultLimit()), holds: holds, delayed: q.Delayed}
	if how, _ := q.Effective("overflow"); how == "reject-publish" {
		length, _ := q.Effective("max-length")
		bytes, _ := q.Effective("max-length-bytes")
		l.length, _ = number(length)
		l.bytes, _ = number(bytes)
	}
	return l, nil
}

// deliveriesOf is the delivery limit of a quorum queue.
func deliveriesOf(q topology.LiveQueue, byDefault bool) int {
	v, set := q.Effective("delivery-limit")
	limit, isNumber := number(v)
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

// isFull reports whether a queue with so many messages may refuse others: RabbitMQ accepts none from when it has more than its limit until it has
// less than 80 % of it.
func (l limits) isFull(messages int) bool {
	return l.length > 0 && messages*5 > l.length*4 || l.bytes > 0 && l.holds*5 > l.bytes*4
}

// queue reads the arguments of a queue, what its policies come to, and how many bytes it has. What the API says of the latter with the queue is some seconds old, so the
// policies are read themselves.
func (m *management) queue(ctx context.Context, name string) (queue topology.LiveQueue, bytes int, err error) {
	var q struct {
		apiLiveQueue
		Bytes int `json:"message_bytes"`
	}
	if err := m.call(ctx, http.MethodGet, "/api/queues/"+url.PathEscape(m.vhost)+"/"+url.PathEscape(name), nil, &q); err != nil {
		return topology.LiveQueue{}, 0, err
	}
	var live topology.Live
	if err := m.get(ctx, "/api/policies/%s", &live.Policies); err != nil {
		return topology.LiveQueue{}, 0, err
	}
	if err := m.get(ctx, "/api/operator-policies/%s", &live.OperatorPolicies); err != nil {
		return topology.LiveQueue{}, 0, err
	}
	live.Queues = []topology.LiveQueue{q.live()}
	live.ApplyPolicies()
	return live.Queues[0], q.Bytes, nil
}

// allowsReturns is an error if messages of the leased queue, which has these limits and so many messages, cannot be returned without the risk that
// they are dropped: none may be returned, or those that were returned often could not be published anew. Nothing has been read by then.
func (l *lease) allowsReturns(ctx context.Context, has limits, messages int) error {
	if has.deliveries == 0 {
		return fmt.Errorf("%w: its delivery limit is 0, the lowest of its x-delivery-limit and its policies. Raise it, "+
			"or replay or drop all of its messages, which returns none", ErrNoReturns)
	}
	if renewFrom(has.deliveries, l.line.CountsReturns()) == never || !l.line.CountsReturns() {
		return nil
	}
	if has.deliveries <= defaultLimit && has.isFull(messages) {
		return fmt.Errorf("%w: nothing was read, because this queue is full and refuses messages, and drops those that are returned too often. "+
			"Raise its delivery limit, max-length or max-length-bytes, or replay or drop all of its messages, which returns none", ErrNotRenewed)
	}
	// The queue that is the lease gets a message, and is deleted with it.
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	probe := rabbit.Item{Key: l.name, Message: &rabbit.Publishing{MessageId: rabbit.NewID(), DeliveryMode: rabbit.Transient}}
	if err := errors.Join(l.admin.sender.PublishBatch(ctx, []rabbit.Item{probe}, true)...); err != nil {
		return fmt.Errorf("%w: nothing was read, because this queue may drop messages that are returned too often, "+
			"and this user cannot publish now: %w. If its delivery limit is high, configure the management API, so that rehop can see it", ErrNotRenewed, err)
	}
	return nil
}

const (
	// askLimit is how long the management API may take to tell what it knows of a queue.
	askLimit = 5 * time.Second
	// probeLimit is how long the broker may take to confirm one message.
	probeLimit = 10 * time.Second
)

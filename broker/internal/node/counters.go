package node

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rehop/rehop/broker/internal/queue"
)

// Churn is what has come and gone since the broker began. Its numbers never go back.
type Churn struct {
	ConnectionsOpened, ConnectionsClosed         uint64
	ChannelsOpened, ChannelsClosed               uint64
	QueuesDeclared, QueuesCreated, QueuesDeleted uint64
}

// MessageCounts is what has happened to messages since the broker began, also in queues and virtual hosts that are gone meanwhile. Its numbers never go back.
type MessageCounts struct {
	Traffic     Traffic
	Queues      map[queue.Type]queue.Totals
	DeadLetters map[DeadLetters]uint64
	// DeadLettersMoved dead letters are those of queues that keep them until another has them, and another has.
	DeadLettersMoved uint64
}

// DeadLetters are messages that have died in one kind of queue, for one reason.
type DeadLetters struct {
	Type     queue.Type
	Strategy Strategy
	Reason   queue.Reason
}

// Strategy is what a queue does with its dead letters, in RabbitMQ's words.
type Strategy string

// The strategies.
const (
	Disabled    Strategy = "disabled" // nothing
	AtMostOnce  Strategy = "at_most_once"
	AtLeastOnce Strategy = "at_least_once"
)

// counters counts that.
type counters struct {
	ConnectionsOpened, ConnectionsClosed         atomic.Uint64
	ChannelsOpened, ChannelsClosed               atomic.Uint64
	queuesDeclared, queuesCreated, queuesDeleted atomic.Uint64
	deadLettersMoved                             atomic.Uint64

	mu      sync.Mutex
	letters map[DeadLetters]uint64

	// Of virtual hosts that are gone; the node's lock guards these.
	traffic Traffic
	queues  map[queue.Type]queue.Totals
}

// countDeadLetters counts dead letters of a queue.
func (n *Node) countDeadLetters(q *Queue, lot []queue.Death) {
	t, kind, s := &n.Counters, q.Core.Type, q.Core.Settings()
	strategy := AtMostOnce
	switch {
	case s.KeepsDeadLetters(kind):
		strategy = AtLeastOnce
	case !s.HasDeadLetter || q.Vhost.Exchange(s.DeadLetter) == nil:
		strategy = Disabled
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.letters == nil {
		t.letters = make(map[DeadLetters]uint64)
	}
	for _, d := range lot {
		t.letters[DeadLetters{kind, strategy, d.Reason}]++
	}
}

// Churn returns what has come and gone. What has gone is looked at first, so that never more seems to be gone than has come.
func (n *Node) Churn() Churn {
	t := &n.Counters
	c := Churn{ConnectionsClosed: t.ConnectionsClosed.Load(), ChannelsClosed: t.ChannelsClosed.Load(), QueuesDeleted: t.queuesDeleted.Load()}
	c.ConnectionsOpened, c.ChannelsOpened = t.ConnectionsOpened.Load(), t.ChannelsOpened.Load()
	c.QueuesCreated = t.queuesCreated.Load()
	c.QueuesDeclared = t.queuesDeclared.Load()
	return c
}

// MessageCounts returns what has happened to messages.
func (n *Node) MessageCounts() MessageCounts {
	t := &n.Counters
	sum := MessageCounts{DeadLettersMoved: t.deadLettersMoved.Load(), Queues: make(map[queue.Type]queue.Totals)}
	t.mu.Lock()
	sum.DeadLetters = maps.Clone(t.letters)
	t.mu.Unlock()
	n.mu.Lock()
	sum.Traffic = t.traffic
	addTotals(sum.Queues, t.queues)
	vhosts := slices.Collect(maps.Values(n.vhosts))
	n.mu.Unlock()
	// One that goes meanwhile is counted by itself here, and among those that are gone the next time.
	for _, v := range vhosts {
		sum.Traffic = sum.Traffic.plus(v.Traffic())
		addTotals(sum.Queues, v.Totals())
	}
	return sum
}

// keepCounts adds what was counted in a virtual host that goes. The node is locked, so that each number is in one place.
func (n *Node) keepCounts(v *Vhost) {
	t := &n.Counters
	t.traffic = t.traffic.plus(v.Traffic())
	if t.queues == nil {
		t.queues = make(map[queue.Type]queue.Totals)
	}
	addTotals(t.queues, v.Totals())
}

// Totals returns what has happened in all queues of a virtual host, also in those that are gone.
func (v *Vhost) Totals() map[queue.Type]queue.Totals {
	v.mu.RLock()
	defer v.mu.RUnlock()
	sum := make(map[queue.Type]queue.Totals)
	addTotals(sum, v.former)
	for _, q := range v.queues {
		sum[q.Core.Type] = sum[q.Core.Type].Plus(q.Core.Totals())
	}
	return sum
}

// keepCounts adds the numbers of a queue that goes to those of all before. The virtual host is locked, so that each number is in one place.
func (v *Vhost) keepCounts(q *Queue) {
	if v.former == nil {
		v.former = make(map[queue.Type]queue.Totals)
	}
	v.former[q.Core.Type] = v.former[q.Core.Type].Plus(q.Core.Totals())
}

func addTotals(sum, more map[queue.Type]queue.Totals) {
	for kind, t := range more {
		sum[kind] = sum[kind].Plus(t)
	}
}

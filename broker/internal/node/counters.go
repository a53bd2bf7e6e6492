package node

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rehop/rehop/broker/internal/queue"
)

// Churn counts what was opened, closed, created and deleted since the broker started. The counters never decrease.
type Churn struct {
	ConnectionsOpened, ConnectionsClosed         uint64
	ChannelsOpened, ChannelsClosed               uint64
	QueuesDeclared, QueuesCreated, QueuesDeleted uint64
}

// MessageCounts counts what has happened to messages since the broker started, also in queues and virtual hosts that were
// deleted. The counters never decrease.
type MessageCounts struct {
	Traffic     Traffic
	Queues      map[queue.Type]queue.Totals
	DeadLetters map[DeadLetters]uint64
	// DeadLettersMoved is how many dead letters of queues with the strategy at-least-once have reached another queue.
	DeadLettersMoved uint64
}

// DeadLetters are messages that were dead-lettered by one kind of queue, for one reason.
type DeadLetters struct {
	Type     queue.Type
	Strategy Strategy
	Reason   queue.Reason
}

// Strategy is what a queue does with dead letters, in RabbitMQ's words.
type Strategy string

// The strategies.
const (
	Disabled    Strategy = "disabled" // nothing
	AtMostOnce  Strategy = "at_most_once"
	AtLeastOnce Strategy = "at_least_once"
)

// counters has the counters of Churn and MessageCounts.
type counters struct {
	ConnectionsOpened, ConnectionsClosed         atomic.Uint64
	ChannelsOpened, ChannelsClosed               atomic.Uint64
	queuesDeclared, queuesCreated, queuesDeleted atomic.Uint64
	deadLettersMoved                             atomic.Uint64

	mu      sync.Mutex
	letters map[DeadLetters]uint64

	// Of deleted virtual hosts. The node's lock guards these.
	traffic Traffic
	queues  map[queue.Type]queue.Totals
}

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

	for _, d := range lot {
		t.letters[DeadLetters{kind, strategy, d.Reason}]++
	}
}

// Churn returns the counters. It reads closed and deleted first, so that they are never larger than opened and created.
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
	// One that is deleted meanwhile is counted here, and the next time among the deleted ones.
	for _, v := range vhosts {
		sum.Traffic = sum.Traffic.plus(v.Traffic())
		addTotals(sum.Queues, v.Totals())
	}
	return sum
}

// keepCounts keeps the counters of a virtual host that is deleted. The node is locked, so that each number is in one place.
func (n *Node) keepCounts(v *Vhost) {
	t := &n.Counters
	t.traffic = t.traffic.plus(v.Traffic())
	addTotals(t.queues, v.Totals())
}

// Totals returns what has happened in all queues of a virtual host, including deleted ones.
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

// keepCounts keeps the counters of a queue that is deleted. The virtual host is locked, so that each number is in one place.
func (v *Vhost) keepCounts(q *Queue) {
	v.former[q.Core.Type] = v.former[q.Core.Type].Plus(q.Core.Totals())
}

func addTotals(sum, more map[queue.Type]queue.Totals) {
	for kind, t := range more {
		sum[kind] = sum[kind].Plus(t)
	}
}

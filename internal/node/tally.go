package node

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/rehop/rehop/internal/node/queue"
)

// Tally is what has happened since the broker began, also to what is gone meanwhile. Its numbers never go back.
type Tally struct {
	ConnectionsOpened, ConnectionsClosed         uint64
	ChannelsOpened, ChannelsClosed               uint64
	QueuesDeclared, QueuesCreated, QueuesDeleted uint64

	Traffic     Traffic
	Queues      map[queue.Type]queue.Totals
	DeadLetters map[DeadLetters]uint64
	// Rehoused dead letters are those of queues that keep them until another has them, and another has.
	Rehoused uint64
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

// tally counts that.
type tally struct {
	connectionsOpened, connectionsClosed         atomic.Uint64
	channelsOpened, channelsClosed               atomic.Uint64
	queuesDeclared, queuesCreated, queuesDeleted atomic.Uint64
	rehoused                                     atomic.Uint64

	mu      sync.Mutex
	letters map[DeadLetters]uint64

	// Of virtual hosts that are gone; the node's lock guards these.
	traffic Traffic
	queues  map[queue.Type]queue.Totals
}

// mourn counts dead letters of a queue.
func (t *tally) mourn(kind queue.Type, s queue.Settings, lot []queue.Death) {
	strategy := AtMostOnce
	switch {
	case !s.HasDeadLetter:
		strategy = Disabled
	case s.KeepsDeadLetters(kind):
		strategy = AtLeastOnce
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

// Tally returns all that was counted.
func (n *Node) Tally() Tally {
	t := &n.tally
	sum := Tally{
		ConnectionsOpened: t.connectionsOpened.Load(), ChannelsOpened: t.channelsOpened.Load(),
		QueuesDeclared: t.queuesDeclared.Load(), QueuesCreated: t.queuesCreated.Load(),
		Rehoused: t.rehoused.Load(), Queues: make(map[queue.Type]queue.Totals),
	}
	// After those that were opened, so that never more seem to be closed.
	sum.ConnectionsClosed, sum.ChannelsClosed, sum.QueuesDeleted = t.connectionsClosed.Load(), t.channelsClosed.Load(), t.queuesDeleted.Load()
	t.mu.Lock()
	sum.DeadLetters = maps.Clone(t.letters)
	t.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	sum.Traffic = t.traffic
	addTotals(sum.Queues, t.queues)
	for _, v := range n.vhosts {
		sum.Traffic = sum.Traffic.plus(v.Traffic())
		addTotals(sum.Queues, v.Totals())
	}
	return sum
}

// bequeath adds what was counted in a virtual host that goes. The node is locked, so that each number is in one place.
func (n *Node) bequeath(v *Vhost) {
	t := &n.tally
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
		sum[q.core.Type] = sum[q.core.Type].Plus(q.core.Totals())
	}
	return sum
}

// outlives adds the numbers of a queue that goes to those of all before. The virtual host is locked, so that each number is in one place.
func (v *Vhost) outlives(q *Queue) {
	if v.former == nil {
		v.former = make(map[queue.Type]queue.Totals)
	}
	v.former[q.core.Type] = v.former[q.core.Type].Plus(q.core.Totals())
}

func addTotals(sum, more map[queue.Type]queue.Totals) {
	for kind, t := range more {
		sum[kind] = sum[kind].Plus(t)
	}
}

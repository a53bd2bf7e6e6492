package node

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// Owner is the connection of an exclusive queue.
type Owner interface {
	// Owns is called when the queue is created and when it is deleted.
	Owns(q *Queue, yes bool)
}

// QueueSpec is what a client declares.
type QueueSpec struct {
	Name       string
	Durable    bool
	Exclusive  bool
	AutoDelete bool
	Arguments  wire.Table
	Owner      Owner // of an exclusive queue
	Limited    bool  // a client declares it, for whom the limits of the virtual host hold
}

// Queue is a queue with all that clients know of it.
type Queue struct {
	QueueSpec
	Vhost *Vhost
	Core  *queue.Queue

	// Under the lock of the virtual host.
	sources        map[*Exchange]struct{}
	policy         string
	operatorPolicy string

	HadConsumer        atomic.Bool
	CountedAsConsumers atomic.Int64 // see CountAsConsumers
	waiting            waitingDeadLetters
}

// newQueue returns a queue that nobody can see yet. The virtual host is locked.
func newQueue(v *Vhost, spec QueueSpec, id store.QueueID) *Queue {
	n := v.node
	q := &Queue{QueueSpec: spec, Vhost: v, sources: make(map[*Exchange]struct{})}
	n.MemoryUse.topology.Add(q.weight())
	q.Core = queue.New(queue.Config{
		ID: id, Type: queueType(q.Arguments), Clock: n.Clock, Budget: &n.budget,
		MaxPriority: maxPriority(q.Arguments), SingleActive: SingleActive(q.Arguments), Rules: n.Config.Compat.queueRules(queueType(q.Arguments)),
		Wake: func() { n.tick(q) },
	}, v.settingsFor(q))
	return q
}

// kept reports whether the queue is on disk.
func (q *Queue) kept() bool { return q.Durable && !q.Exclusive && q.Vhost.node.Store != nil }

func (q *Queue) String() string { return Resource("queue", q.Name, q.Vhost.Name) }

// DeclareQueue makes a queue, or sees whether the one that is there is the same.
func (v *Vhost) DeclareQueue(spec QueueSpec) (*Queue, error) {
	q, err := v.findOrMake(spec)
	if q != nil { // also if it is not the same
		v.node.Counters.queuesDeclared.Add(1)
	}
	return q, err
}

func (v *Vhost) findOrMake(spec QueueSpec) (*Queue, error) {
	n := v.node
	if q := v.Queue(spec.Name); q != nil {
		return q, q.sameAs(spec)
	}
	if err := checkQueueArguments(n.Config.Compat, spec.Name, v.Name, spec.Durable, spec.Exclusive, spec.AutoDelete, spec.Arguments); err != nil {
		return nil, err
	}
	v.mu.Lock()
	if q := v.queues[spec.Name]; q != nil {
		v.mu.Unlock()
		return q, q.sameAs(spec)
	}
	if v.deleted {
		v.mu.Unlock()
		return nil, Refuse(wire.NotFound, "no vhost '%s'", v.Name)
	}
	err := n.checkTopologyMemory(Resource("queue", spec.Name, v.Name))
	if err == nil && spec.Limited {
		err = v.queueRoom(spec.Name)
	}
	if err != nil {
		v.mu.Unlock()
		return nil, err
	}
	q := newQueue(v, spec, n.NewQueueID())
	v.queues[q.Name] = q
	n.Counters.queuesCreated.Add(1)
	v.changed()
	var mark store.Mark
	if q.kept() {
		mark = n.define(put(queueKey(v.Name, q.Name), q.definition()))
	}
	v.mu.Unlock()
	if q.Owner != nil {
		q.Owner.Owns(q, true)
	}
	n.CheckMemory()
	q.Core.Touch()
	return q, n.kept(mark)
}

// Reachable refuses a queue that belongs to another connection.
func (q *Queue) Reachable(by Owner) error {
	if q.Owner != nil && q.Owner != by {
		return Refuse(wire.ResourceLocked, "cannot obtain exclusive access to locked %s. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.", q)
	}
	return nil
}

// sameAs reports what differs from a declaration, in RabbitMQ's words.
func (q *Queue) sameAs(want QueueSpec) error {
	if err := q.Reachable(want.Owner); err != nil {
		return err
	}
	if q.Exclusive != want.Exclusive {
		return Refuse(wire.ResourceLocked, "cannot obtain exclusive access to locked %s. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.", q)
	}
	compat := q.Vhost.node.Config.Compat
	if err := sameArguments(q.String(), compat.withType(q.Arguments), compat.withType(want.Arguments), compat.queueArguments(q.Core.Type)); err != nil {
		return err // RabbitMQ compares them first
	}
	for _, f := range []struct {
		name       string
		want, have bool
	}{{"durable", want.Durable, q.Durable}, {"auto_delete", want.AutoDelete, q.AutoDelete}} {
		if f.want != f.have {
			return inequivalent(f.name, q.String(), quoted(fmt.Sprint(f.want)), quoted(fmt.Sprint(f.have)))
		}
	}
	return nil
}

// Delete ends a queue if the conditions hold, tells its consumers, and returns how many messages it had.
func (q *Queue) Delete(ifUnused, ifEmpty bool) (messages int, err error) {
	messages, consumers, err := q.Remove(ifUnused, ifEmpty)
	CancelAll(consumers)
	return messages, err
}

// canceller is a consumer that learns that its queue is gone.
type canceller interface{ CancelledByServer() }

// CancelAll tells consumers that their queue is gone.
func CancelAll(consumers []*queue.Consumer) {
	for _, c := range consumers {
		c.Sink.(canceller).CancelledByServer()
	}
}

// Remove is delete for who tells the consumers itself: the one who asked for the end has to be answered first.
func (q *Queue) Remove(ifUnused, ifEmpty bool) (messages int, consumers []*queue.Consumer, err error) {
	v, n := q.Vhost, q.Vhost.node
	messages, consumers, ok := q.Core.Delete(ifUnused, ifEmpty)
	if !ok {
		if _, used := q.Core.Counts(); ifUnused && used > 0 {
			return 0, nil, Refuse(wire.PreconditionFailed, "%s in use", q)
		}
		return 0, nil, Refuse(wire.PreconditionFailed, "%s not empty", q)
	}
	q.Core.DeadLettersDone(q.waiting.stop())
	if q.Owner != nil {
		q.Owner.Owns(q, false)
	}
	v.mu.Lock()
	var removed []string
	if v.queues[q.Name] == q {
		delete(v.queues, q.Name)
		v.keepCounts(q)
		n.Counters.queuesDeleted.Add(1)
		n.MemoryUse.topology.Add(-q.weight())
		if q.kept() {
			removed = append(removed, queueKey(v.Name, q.Name))
		}
		removed = append(removed, v.unbindAll(Destination{Queue: q})...)
		v.changed()
	}
	mark := n.define(change{removed: removed})
	v.mu.Unlock()
	n.CheckMemory()
	err = n.kept(mark)
	if q.kept() {
		n.Store.DropQueue(q.Core.ID)
	}
	return messages, consumers, err
}

// RefuseCondition refuses what quorum queues cannot do.
func (q *Queue) RefuseCondition(ifUnused, ifEmpty bool) error {
	flag := ""
	switch {
	case q.Core.Type != queue.Quorum:
		return nil
	case ifUnused:
		flag = "if-unused"
	case ifEmpty:
		flag = "if-empty"
	default:
		return nil
	}
	return Refuse(wire.NotImplemented, "cannot delete %s. queue.delete operations with %s flag set are not supported by quorum queues", q, flag)
}

// Purge removes what is ready and returns how much that was. Much of it is noted in the log in steps, between which others have their turn.
func (q *Queue) Purge() int {
	n := q.Vhost.node
	purged := q.Core.Purge()
	messages := purged.Len()
	for lot := purged.Next(); len(lot) > 0; lot = purged.Next() {
		n.settled(q, lot)
		n.Throttle()
	}
	n.CheckMemory()
	return messages
}

// Stop ends the queue's timers.
func (q *Queue) Stop() {
	q.Core.Stop()
	_ = q.waiting.stop()
}

// ConsumerGone notes that a consumer has gone, and deletes the queue if it was to go with its last one.
func (q *Queue) ConsumerGone() {
	if q.AutoDelete && q.HadConsumer.Load() {
		_, _ = q.Delete(true, false)
	}
}

// Status describes the queue at a moment.
func (q *Queue) Status() queue.Status {
	s := q.Core.Status()
	s.CountedAsConsumers = int(q.CountedAsConsumers.Load())
	return s
}

// AckTimeout is how long a client may hold a delivery of the queue, given the arguments of its consumer; 0: without limit.
func (q *Queue) AckTimeout(args wire.Table) time.Duration {
	c := q.Vhost.node.Config
	if c.Compat.QueuesTimeOut() {
		if q.Core.Type != queue.Quorum {
			return 0
		}
		if given, ok := (ruleSources{args: args}).byArgument("consumer-timeout"); ok {
			return milliseconds(given)
		}
	}
	if own := q.Core.Settings().ConsumerTimeout; own >= 0 {
		return own
	}
	return c.ConsumerTimeout
}

// Type returns whether the queue is classic or quorum.
func (q *Queue) Type() queue.Type { return q.Core.Type }

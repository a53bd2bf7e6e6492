package node

import (
	"cmp"
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
	Limited    bool  // the limits of the virtual host apply, because a client declares it
}

// Queue is a queue with its definition and what clients know of it.
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

// newQueue returns a queue that is not visible yet. The virtual host is locked.
func newQueue(v *Vhost, spec QueueSpec, id store.QueueID) *Queue {
	n := v.node
	q := &Queue{QueueSpec: spec, Vhost: v, sources: make(map[*Exchange]struct{})}
	n.MemoryUse.topology.Add(q.weight())
	q.Core = queue.New(queue.Config{
		ID: id, Type: queueType(q.Arguments), Clock: n.Clock, Budget: &n.budget,
		MaxPriority: maxPriority(q.Arguments), SingleActive: SingleActive(q.Arguments), Rules: n.Config.Compat.queueRules(queueType(q.Arguments)),
		Wake: func() { n.Tasks.Run(func() { n.tick(q) }) },
	}, v.settingsFor(q))
	return q
}

// kept reports whether the queue is on disk.
func (q *Queue) kept() bool { return q.Durable && !q.Exclusive && q.Vhost.node.Store != nil }

func (q *Queue) String() string { return Resource("queue", q.Name, q.Vhost.Name) }

// DeclareQueue creates a queue, or checks that the existing one is the same.
func (v *Vhost) DeclareQueue(spec QueueSpec) (*Queue, error) {
	q, err := v.findOrCreate(spec)
	if q != nil { // even if it differs
		v.node.Counters.queuesDeclared.Add(1)
	}
	return q, err
}

func (v *Vhost) findOrCreate(spec QueueSpec) (*Queue, error) {
	n := v.node
	if q := v.Queue(spec.Name); q != nil {
		return q, q.sameAs(spec)
	}
	if err := checkQueueArguments(n.Config.Compat, v.Name, spec); err != nil {
		return nil, err
	}
	q, created := (*Queue)(nil), false
	err := v.update(func() (mark store.Mark, err error) {
		if q = v.queues[spec.Name]; q != nil {
			return 0, q.sameAs(spec)
		}
		if v.deleted {
			return 0, v.noVhost()
		}
		err = n.checkTopologyMemory(Resource("queue", spec.Name, v.Name))
		if err == nil && spec.Limited {
			err = v.queueRoom(spec.Name)
		}
		if err != nil {
			return 0, err
		}
		q, created = newQueue(v, spec, n.NewQueueID()), true
		v.queues[q.Name] = q
		n.Counters.queuesCreated.Add(1)
		v.changed()
		if q.kept() {
			mark = n.define(put(queueKey(v.Name, q.Name), q.definition()))
		}
		return mark, nil
	})
	if created && q.Owner != nil {
		q.Owner.Owns(q, true)
	}
	if created {
		q.Core.Touch()
	}
	return q, err
}

// Reachable refuses a queue that belongs to another connection.
func (q *Queue) Reachable(by Owner) error {
	if q.Owner != nil && q.Owner != by {
		return q.locked()
	}
	return nil
}

func (q *Queue) locked() error {
	return Refuse(wire.ResourceLocked, "cannot obtain exclusive access to locked %s. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.", q)
}

// sameAs reports a difference from a declaration, in RabbitMQ's words.
func (q *Queue) sameAs(want QueueSpec) error {
	if err := q.Reachable(want.Owner); err != nil {
		return err
	}
	if q.Exclusive != want.Exclusive {
		return q.locked()
	}
	compat := q.Vhost.node.Config.Compat
	return cmp.Or(sameArguments(q.String(), compat.withType(q.Arguments), compat.withType(want.Arguments), compat.queueArguments(q.Core.Type)),
		sameFlag("durable", q.String(), want.Durable, q.Durable), sameFlag("auto_delete", q.String(), want.AutoDelete, q.AutoDelete))
}

// Delete deletes a queue if the conditions are met, notifies its consumers, and returns how many messages it had.
func (q *Queue) Delete(ifUnused, ifEmpty bool) (messages int, err error) {
	messages, consumers, err := q.Remove(ifUnused, ifEmpty)
	CancelAll(consumers)
	return messages, err
}

// canceller is a consumer that is notified when its queue is deleted.
type canceller interface{ CancelledByServer() }

// CancelAll notifies consumers that their queue was deleted.
func CancelAll(consumers []*queue.Consumer) {
	for _, c := range consumers {
		c.Sink.(canceller).CancelledByServer()
	}
}

// Remove is Delete without CancelAll: the client that deletes the queue has to be answered before.
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

// RefuseCondition refuses conditions that quorum queues do not support.
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

// Purge removes the ready messages and returns their number. It logs many of them in steps, so that others can write in between.
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

// ConsumerGone deletes an auto-delete queue after its last consumer.
func (q *Queue) ConsumerGone() {
	if q.AutoDelete && q.HadConsumer.Load() {
		_, _ = q.Delete(true, false)
	}
}

// Status returns the current state of the queue.
func (q *Queue) Status() queue.Status {
	s := q.Core.Status()
	s.CountedAsConsumers = int(q.CountedAsConsumers.Load())
	return s
}

// AckTimeout is how long a delivery of the queue may be unacked, given the arguments of the consumer; 0: no limit.
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

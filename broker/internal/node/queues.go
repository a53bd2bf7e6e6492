package node

import (
	"fmt"
	"sync/atomic"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// QueueSpec is what a client declares.
type QueueSpec struct {
	Name       string
	Durable    bool
	Exclusive  bool
	AutoDelete bool
	Arguments  wire.Table
	owner      *Connection // of an exclusive queue
	limited    bool        // a client declares it, for whom the limits of the virtual host hold
}

// Queue is a queue with all that clients know of it.
type Queue struct {
	QueueSpec
	vhost *Vhost
	core  *queue.Queue

	// Under the lock of the virtual host.
	sources        map[*Exchange]struct{}
	policy         string
	operatorPolicy string

	wasConsumed atomic.Bool
	borrowed    atomic.Int64 // of a quorum queue, messages that were taken by basic.get and not answered, and cancelled consumers that linger: each is a consumer for RabbitMQ
	strandedBox stranded
}

// newQueue returns a queue that nobody can see yet. The virtual host is locked.
func newQueue(v *Vhost, spec QueueSpec, id store.QueueID) *Queue {
	n := v.node
	q := &Queue{QueueSpec: spec, vhost: v, sources: make(map[*Exchange]struct{})}
	n.memory.topology.Add(q.weight())
	q.core = queue.New(queue.Config{
		ID: id, Type: queueType(q.Arguments), Clock: n.clock, Budget: &n.budget,
		MaxPriority: maxPriority(q.Arguments), SingleActive: singleActive(q.Arguments), Rules: n.config.Compat.queueRules(queueType(q.Arguments)),
		Wake: func() { n.tick(q) },
	}, v.settingsFor(q))
	return q
}

// kept reports whether the queue is on disk.
func (q *Queue) kept() bool { return q.Durable && !q.Exclusive && q.vhost.node.store != nil }

func (q *Queue) String() string { return resource("queue", q.Name, q.vhost.Name) }

// DeclareQueue makes a queue, or sees whether the one that is there is the same.
func (v *Vhost) DeclareQueue(spec QueueSpec) (*Queue, error) {
	q, err := v.findOrMake(spec)
	if q != nil { // also if it is not the same
		v.node.tally.queuesDeclared.Add(1)
	}
	return q, err
}

func (v *Vhost) findOrMake(spec QueueSpec) (*Queue, error) {
	n := v.node
	if q := v.Queue(spec.Name); q != nil {
		return q, q.sameAs(spec)
	}
	if err := checkQueueArguments(n.config.Compat, spec.Name, v.Name, spec.Durable, spec.Exclusive, spec.AutoDelete, spec.Arguments); err != nil {
		return nil, err
	}
	v.mu.Lock()
	if q := v.queues[spec.Name]; q != nil {
		v.mu.Unlock()
		return q, q.sameAs(spec)
	}
	if v.deleted {
		v.mu.Unlock()
		return nil, refuse(wire.NotFound, "no vhost '%s'", v.Name)
	}
	err := n.crowded(resource("queue", spec.Name, v.Name))
	if err == nil && spec.limited {
		err = v.queueRoom(spec.Name)
	}
	if err != nil {
		v.mu.Unlock()
		return nil, err
	}
	q := newQueue(v, spec, n.newQueueID())
	v.queues[q.Name] = q
	n.tally.queuesCreated.Add(1)
	v.changed()
	var mark store.Mark
	if q.kept() {
		mark = n.define(put(queueKey(v.Name, q.Name), q.definition()))
	}
	v.mu.Unlock()
	if q.owner != nil {
		q.owner.owns(q, true)
	}
	n.checkMemory()
	q.core.Touch()
	return q, n.kept(mark)
}

// reachable refuses a queue that belongs to another connection.
func (q *Queue) reachable(c *Connection) error {
	if q.owner != nil && q.owner != c {
		return refuse(wire.ResourceLocked, "cannot obtain exclusive access to locked %s. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.", q)
	}
	return nil
}

// sameAs reports what differs from a declaration, in RabbitMQ's words.
func (q *Queue) sameAs(want QueueSpec) error {
	if err := q.reachable(want.owner); err != nil {
		return err
	}
	if q.Exclusive != want.Exclusive {
		return refuse(wire.ResourceLocked, "cannot obtain exclusive access to locked %s. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.", q)
	}
	compat := q.vhost.node.config.Compat
	if err := sameArguments(q.String(), compat.withType(q.Arguments), compat.withType(want.Arguments), compat.queueArguments(q.core.Type)); err != nil {
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

// delete ends a queue if the conditions hold, tells its consumers, and returns how many messages it had.
func (q *Queue) delete(ifUnused, ifEmpty bool) (messages int, err error) {
	messages, consumers, err := q.end(ifUnused, ifEmpty)
	cancelAll(consumers)
	return messages, err
}

// cancelAll tells consumers that their queue is gone.
func cancelAll(consumers []*queue.Consumer) {
	for _, c := range consumers {
		c.Sink.(*consumer).cancelledByServer()
	}
}

// end is delete for who tells the consumers itself: the one who asked for the end has to be answered first.
func (q *Queue) end(ifUnused, ifEmpty bool) (messages int, consumers []*queue.Consumer, err error) {
	v, n := q.vhost, q.vhost.node
	messages, consumers, ok := q.core.Delete(ifUnused, ifEmpty)
	if !ok {
		if _, used := q.core.Counts(); ifUnused && used > 0 {
			return 0, nil, refuse(wire.PreconditionFailed, "%s in use", q)
		}
		return 0, nil, refuse(wire.PreconditionFailed, "%s not empty", q)
	}
	q.core.Buried(q.strandedBox.stop())
	if q.owner != nil {
		q.owner.owns(q, false)
	}
	v.mu.Lock()
	var removed []string
	if v.queues[q.Name] == q {
		delete(v.queues, q.Name)
		v.outlives(q)
		n.tally.queuesDeleted.Add(1)
		n.memory.topology.Add(-q.weight())
		if q.kept() {
			removed = append(removed, queueKey(v.Name, q.Name))
		}
		removed = append(removed, v.unbindAll(destination{queue: q})...)
		v.changed()
	}
	mark := n.define(change{removed: removed})
	v.mu.Unlock()
	n.checkMemory()
	err = n.kept(mark)
	if q.kept() {
		n.store.DropQueue(q.core.ID)
	}
	return messages, consumers, err
}

// refuseCondition refuses what quorum queues cannot do.
func (q *Queue) refuseCondition(ifUnused, ifEmpty bool) error {
	flag := ""
	switch {
	case q.core.Type != queue.Quorum:
		return nil
	case ifUnused:
		flag = "if-unused"
	case ifEmpty:
		flag = "if-empty"
	default:
		return nil
	}
	return refuse(wire.NotImplemented, "cannot delete %s. queue.delete operations with %s flag set are not supported by quorum queues", q, flag)
}

// Delete ends a queue, for people.
func (q *Queue) Delete(ifUnused, ifEmpty bool) (int, error) { return q.delete(ifUnused, ifEmpty) }

// Purge removes what is ready and returns how much that was. Much of it is noted in the log in steps, between which others have their turn.
func (q *Queue) Purge() int {
	n := q.vhost.node
	purged := q.core.Purge()
	messages := purged.Len()
	for lot := purged.Next(); len(lot) > 0; lot = purged.Next() {
		n.settled(q, lot)
		n.throttle()
	}
	n.checkMemory()
	return messages
}

// Stop ends the queue's timers.
func (q *Queue) Stop() {
	q.core.Stop()
	_ = q.strandedBox.stop()
}

// consumed notes that a consumer has gone, and deletes the queue if it was to go with its last one.
func (q *Queue) consumed() {
	if q.AutoDelete && q.wasConsumed.Load() {
		_, _ = q.delete(true, false)
	}
}

// Status describes the queue at a moment.
func (q *Queue) Status() queue.Status {
	s := q.core.Status()
	s.Borrowers = int(q.borrowed.Load())
	return s
}

// Type returns whether the queue is classic or quorum.
func (q *Queue) Type() queue.Type { return q.core.Type }

// Policy returns the name of the policy that applies, or "".
func (q *Queue) Policy() string {
	q.vhost.mu.RLock()
	defer q.vhost.mu.RUnlock()
	return q.policy
}

// OperatorPolicy returns the name of the operators' policy that applies, or "".
func (q *Queue) OperatorPolicy() string {
	q.vhost.mu.RLock()
	defer q.vhost.mu.RUnlock()
	return q.operatorPolicy
}

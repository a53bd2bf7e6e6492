package session

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// consumer delivers messages of a queue to a channel.
type consumer struct {
	queue.Consumer
	channel   *Channel
	queue     *node.Queue
	arguments wire.Table

	// The lock of the channel guards these.
	prefetch int           // 0: unlimited
	timeout  time.Duration // for its deliveries; 0: none
	unacked  int
	lastTag  uint64 // tag of the last delivery

	counted  atomic.Bool // its memory is counted
	timedOut bool        // it was cancelled because a message was unacked for too long; only the reader uses it
}

// countMemory counts the memory of a consumer that was added or removed, once.
func (c *consumer) countMemory(here bool) {
	if !c.counted.CompareAndSwap(!here, here) {
		return
	}
	n := node.ConsumerWeight(c.Tag, c.arguments)
	if !here {
		n = -n
	}
	c.channel.node.MemoryUse.Consumers.Add(n)
}

// Deliver writes a message to the client if the client accepts one more. The queue is locked.
func (c *consumer) Deliver(it queue.Item, content *store.Content) bool {
	ch := c.channel
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.over {
		return false
	}
	if !c.NoAck && (c.prefetch > 0 && c.unacked >= c.prefetch || ch.shared > 0 && ch.unacked >= ch.shared) {
		ch.full = append(ch.full, c)
		return false
	}
	buf, ok := ch.conn.out.lockFor(c)
	if !ok {
		return false
	}
	ch.nextTag++
	tag := ch.nextTag
	if !c.NoAck {
		ch.hold(delivery{tag: tag, item: it, queue: c.queue, consumer: c}, c.timeout)
		c.unacked++
		ch.unacked++
	}
	c.lastTag = tag
	buf = wire.AppendDeliver(buf, ch.Number, c.Tag, tag, it.Redelivered, content.Exchange, content.Key)
	buf = wire.AppendContent(buf, ch.Number, wire.ClassBasic, c.queue.Properties(it, content), content.Body, ch.conn.FrameMax)
	ch.conn.out.unlock(buf)
	return true
}

// CancelledByServer notifies the client that its queue was deleted.
func (c *consumer) CancelledByServer() {
	known := c.channel.forgetConsumer(c)
	c.countMemory(false)
	if known && c.channel.conn.hasCapability("consumer_cancel_notify") {
		_ = c.channel.send(&wire.BasicCancel{ConsumerTag: c.Tag, NoWait: true})
	}
}

// forgetConsumer frees the tag of a consumer, and reports whether the consumer had it.
func (ch *Channel) forgetConsumer(c *consumer) (known bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if known = ch.consumers[c.Tag] == c; known {
		delete(ch.consumers, c.Tag)
	}
	return known
}

func (ch *Channel) qos(m *wire.BasicQos) error {
	if m.PrefetchSize != 0 {
		return node.Refuse(wire.NotImplemented, "prefetch_size!=0 (%d)", m.PrefetchSize)
	}
	switch {
	case !m.Global:
		ch.prefetch = int(m.PrefetchCount)
		ch.share(0)
	case ch.node.Config.Compat.IgnoresGlobalQos():
		ch.prefetch = int(m.PrefetchCount)
	default:
		ch.share(int(m.PrefetchCount))
	}
	return ch.send(&wire.BasicQosOK{})
}

// share sets the prefetch of all consumers together.
func (ch *Channel) share(prefetch int) {
	ch.mu.Lock()
	ch.shared = prefetch
	full := ch.takeFull()
	ch.mu.Unlock()
	ch.resume(full)
}

// takeFull returns the consumers that refused a message and may accept one again. The one that has waited longest is
// first, so that none of them uses up the shared prefetch. The channel is locked.
func (ch *Channel) takeFull() []*consumer {
	full := ch.full
	ch.full = nil
	if len(full) > 1 {
		slices.SortFunc(full, func(a, b *consumer) int { return cmp.Compare(a.lastTag, b.lastTag) })
	}
	return full
}

func (ch *Channel) resume(consumers []*consumer) {
	for _, c := range consumers {
		ch.conn.resume(c)
	}
}

// queueName returns the name of a queue, or that of the last declared one if it is empty.
func (ch *Channel) queueName(name string) (string, error) {
	if name = cmp.Or(name, ch.lastQueue); name == "" {
		return "", node.Refuse(wire.NotFound, "no previously declared queue")
	}
	return name, nil
}

// permittedQueue returns a queue if the user has a right to it, and no other connection owns it.
func (ch *Channel) permittedQueue(name string, want node.Right) (*node.Queue, error) {
	name, err := ch.queueName(name)
	if err != nil {
		return nil, err
	}
	if err := ch.conn.access.Check(want, "queue", name); err != nil {
		return nil, err
	}
	q := ch.conn.vhost.Queue(name)
	if q == nil {
		return nil, ch.conn.vhost.NoQueue(name)
	}
	return q, q.Reachable(ch.conn)
}

func (ch *Channel) consume(m *wire.BasicConsume) error {
	tag := m.ConsumerTag
	if ch.consuming(tag) {
		return node.Refuse(wire.NotAllowed, "attempt to reuse consumer tag '%s'", tag)
	}
	if tag == "" {
		tag = randomName("amq.ctag-")
	}
	if m.Queue == replyQueue {
		return ch.consumeReplies(m, tag)
	}
	q, err := ch.permittedQueue(m.Queue, node.Read)
	if err != nil {
		return err
	}
	priority, err := node.CheckConsumerArguments(ch.node.Config.Compat, q.Name, q.Vhost.Name, q.Core.Type, m.Arguments)
	if err != nil {
		return err
	}
	c := &consumer{channel: ch, queue: q, arguments: m.Arguments, prefetch: ch.prefetch, timeout: q.AckTimeout(m.Arguments)}
	c.Consumer = queue.Consumer{Sink: c, Tag: tag, NoAck: m.NoAck, Exclusive: m.Exclusive, Priority: priority, Prefetch: int(ch.prefetch)}
	if err := ch.node.CheckConsumerMemory(q, node.ConsumerWeight(tag, m.Arguments)); err != nil {
		return err
	}
	c.countMemory(true)
	ch.mu.Lock()
	ch.consumers[tag] = c
	c.takeOver()
	shared := ch.shared
	ch.mu.Unlock()
	if shared > 0 && q.Core.Type == queue.Quorum {
		ch.drop(c)
		return node.Refuse(wire.NotImplemented, "%s does not support global qos", q)
	}
	if !q.Core.Subscribe(&c.Consumer) {
		ch.drop(c)
		if q.Core.Deleted() {
			return q.Vhost.NoQueue(q.Name)
		}
		return node.Refuse(wire.AccessRefused, "%s in exclusive use", q)
	}
	q.HadConsumer.Store(true)
	// The answer is sent before the first message.
	_ = ch.reply(m.NoWait, &wire.BasicConsumeOK{ConsumerTag: tag})
	ch.conn.resume(c)
	return nil
}

func (ch *Channel) consuming(tag string) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.consumers[tag] != nil || ch.replies != nil && ch.replies.tag == tag
}

func (ch *Channel) drop(c *consumer) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	delete(ch.consumers, c.Tag)
	c.keepCounted()
	c.countMemory(false)
}

// cancel cancels a consumer. It is no error if there is none.
func (ch *Channel) cancel(m *wire.BasicCancel) error {
	ch.mu.Lock()
	c := ch.consumers[m.ConsumerTag]
	ch.mu.Unlock()
	if ch.replies != nil && ch.replies.tag == m.ConsumerTag {
		ch.endReplies()
	}
	answer := func() { _ = ch.reply(m.NoWait, &wire.BasicCancelOK{ConsumerTag: m.ConsumerTag}) }
	if c == nil {
		answer()
	} else {
		ch.endConsumer(c, answer)
	}
	return nil
}

// endConsumer removes a consumer from its queue. It calls notify before the queue, which may be auto-delete, is deleted.
// A consumer that has ended before is not known, and notify is not called.
func (ch *Channel) endConsumer(c *consumer, notify func()) (known bool) {
	if !ch.forgetConsumer(c) {
		return false
	}
	c.countMemory(false)
	fx, _, ok := c.queue.Core.Unsubscribe(&c.Consumer)
	ch.mu.Lock()
	c.keepCounted()
	ch.mu.Unlock()
	notify()
	ch.node.Apply(c.queue, fx)
	if ok {
		c.queue.ConsumerGone()
	}
	return true
}

// hold adds a delivery that the client has to answer. The channel is locked.
func (ch *Channel) hold(d delivery, timeout time.Duration) {
	d.since = ch.node.Clock()
	if timeout > 0 {
		d.due = d.since + timeout
		ch.acks.expect(ch, d.due)
	}
	ch.unackedList.add(d)
}

// keepCounted counts a cancelled consumer of a quorum queue until it has no unacked messages. The channel is locked.
func (c *consumer) keepCounted() {
	if c.unacked == 0 || c.queue.Core.Type != queue.Quorum {
		return
	}
	c.channel.cancelled[c.Tag] = c
	c.queue.CountAsConsumers(1)
}

// stopCounting ends that if nothing is unacked. The channel is locked.
func (c *consumer) stopCounting() {
	if c.unacked == 0 && c.channel.cancelled[c.Tag] == c {
		delete(c.channel.cancelled, c.Tag)
		c.queue.CountAsConsumers(-1)
	}
}

// takeOver takes over the unacked messages of a cancelled consumer with the same tag: for a quorum queue they are one
// consumer, with one prefetch. The channel is locked.
func (c *consumer) takeOver() {
	old := c.channel.cancelled[c.Tag]
	if old == nil || old.queue != c.queue {
		return
	}
	n := c.channel.unackedList.reassign(old, c)
	old.unacked -= n
	c.unacked += n
	old.stopCounting()
}

// answered counts the answer to a delivery. The channel is locked.
func (c *consumer) answered() {
	c.unacked--
	c.channel.unacked--
	c.stopCounting()
}

func (ch *Channel) get(m *wire.BasicGet) error {
	q, err := ch.permittedQueue(m.Queue, node.Read)
	if err != nil {
		return err
	}
	if node.SingleActive(q.Arguments) && q.Core.Type == queue.Quorum {
		return node.Refuse(wire.ResourceLocked, "cannot obtain access to locked %s. basic.get operations are not supported by %s queues with single active consumer", q, ch.node.Config.Compat.QuorumInGet())
	}
	it, content, left, fx := q.Core.Get(m.NoAck)
	for content == nil && fx.Load {
		ch.node.Apply(q, fx)
		it, content, left, fx = q.Core.Get(m.NoAck)
	}
	if content == nil {
		ch.node.Apply(q, fx)
		return ch.send(&wire.BasicGetEmpty{})
	}
	properties := node.WithoutFlags(content.Properties)
	if q.Core.Type == queue.Quorum {
		properties = q.Properties(it, content)
		if ch.node.Config.Compat.CountsGets() {
			properties = q.PropertiesWithCount(it, content)
		}
	}
	timeout := q.AckTimeout(nil)
	ch.mu.Lock()
	ch.nextTag++
	tag := ch.nextTag
	if !m.NoAck {
		q.CountAsConsumers(1)
		ch.hold(delivery{tag: tag, item: it, queue: q}, timeout)
	}
	ch.mu.Unlock()
	o := ch.conn.out
	buf := wire.AppendMethod(o.lock(), ch.Number, &wire.BasicGetOK{DeliveryTag: tag, Redelivered: it.Redelivered, Exchange: content.Exchange, RoutingKey: content.Key, MessageCount: uint32(left)})
	o.unlock(wire.AppendContent(buf, ch.Number, wire.ClassBasic, properties, content.Body, ch.conn.FrameMax))
	ch.node.Apply(q, fx)
	return nil
}

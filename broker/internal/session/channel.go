package session

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// Channel is a channel of a connection.
type Channel struct {
	Number uint16
	conn   *Connection
	node   *Server

	// Only the reader uses these.
	closed     bool // by the broker, and the client has not answered yet
	incoming   incoming
	lastQueue  string // declared last; "" stands for it
	confirming bool
	published  uint64
	tx         *transaction // nil: not transactional
	prefetch   int          // of new consumers
	dirty      bool         // in the connection's list
	taken      []delivery   // reused
	items      []queue.Item // reused

	replies *replies // nil: the channel does not consume direct replies

	confirms confirms
	traffic  node.TrafficCounter

	mu          sync.Mutex
	over        bool // nothing more is delivered
	nextTag     uint64
	unackedList unackedList
	shared      int // prefetch of all consumers together; 0: unlimited
	unacked     int // deliveries to consumers that are not settled; in a transaction they are settled by the commit
	consumers   map[string]*consumer
	cancelled   map[string]*consumer // of quorum queues, with unacked messages: RabbitMQ counts them as consumers
	full        []*consumer          // have refused a message since the last one was settled
	acks        ackTimer
}

func newChannel(c *Connection, number uint16) *Channel {
	return &Channel{Number: number, conn: c, node: c.node, consumers: make(map[string]*consumer), cancelled: make(map[string]*consumer)}
}

func (ch *Channel) handleFrame(f wire.Frame) error {
	if ch.closed {
		return ch.handleFrameClosed(f)
	}
	switch f.Type {
	case wire.FrameMethod:
		if ch.incoming.expects != nothing {
			return ch.incoming.interrupted()
		}
		id, ok := wire.PeekMethod(f.Payload)
		if !ok {
			_, err := wire.ParseMethod(f.Payload)
			return err
		}
		return withMethod(ch.handleMethod(id, f.Payload), id)
	case wire.FrameHeader:
		done, err := ch.incoming.header(f, ch.node.Config.MaxMessage, ch.node.Config.Compat)
		if err == nil {
			ch.incoming.charge, err = ch.conn.reserve(ch.incoming.cost())
		}
		return ch.received(done, err)
	case wire.FrameBody:
		done, err := ch.incoming.body(f)
		if h := ch.incoming.charge.large; h != nil {
			h.received()
		}
		return ch.received(done, err)
	}
	return f.Unexpected()
}

// withMethod adds the method to an exception that has none.
func withMethod(err error, id wire.MethodID) error {
	if x, ok := err.(*node.Exception); ok && x.Method == 0 {
		x.Method = id
	}
	return err
}

// received publishes a message that is complete.
func (ch *Channel) received(done bool, err error) error {
	if done && err == nil {
		err = ch.publish()
	}
	return withMethod(err, wire.IDBasicPublish)
}

// handleFrameClosed waits until the client agrees to the end of a channel, and ignores everything else.
func (ch *Channel) handleFrameClosed(f wire.Frame) error {
	switch {
	case isMethod(f, wire.IDChannelCloseOK):
		ch.forget()
	case isMethod(f, wire.IDChannelClose):
		ch.send(&wire.ChannelCloseOK{})
	}
	return nil
}

// forget allows the client to use the number again.
func (ch *Channel) forget() {
	ch.conn.mu.Lock()
	defer ch.conn.mu.Unlock()
	delete(ch.conn.channels, ch.Number)
}

// handleMethod executes a method. The frequent ones are not parsed completely.
func (ch *Channel) handleMethod(id wire.MethodID, payload []byte) error {
	switch id {
	case wire.IDBasicPublish:
		args, err := wire.ParsePublish(payload)
		if err != nil {
			return err
		}
		return ch.beginPublish(args)
	case wire.IDBasicAck:
		args, err := wire.ParseAck(payload)
		if err != nil {
			return err
		}
		return ch.settle(args.Tag, args.Multiple, node.Acked)
	}
	m, err := wire.ParseMethod(payload)
	if err != nil {
		return err
	}
	ch.conn.working.Store(true)
	defer ch.conn.working.Store(false)
	return ch.execute(m)
}

// execute executes the less frequent methods.
func (ch *Channel) execute(m wire.Method) error {
	switch m := m.(type) {
	case *wire.ChannelOpen:
		return node.Refuse(wire.ChannelError, "second 'channel.open' seen")
	case *wire.ChannelClose:
		ch.close()
		ch.forget()
		return ch.send(&wire.ChannelCloseOK{})
	case *wire.ChannelCloseOK:
		return nil
	case *wire.ChannelFlow:
		if !m.Active {
			return node.Refuse(wire.NotImplemented, "active=false")
		}
		return ch.send(&wire.ChannelFlowOK{Active: true})
	case *wire.AccessRequest:
		return ch.send(&wire.AccessRequestOK{Ticket: 1})
	case *wire.ExchangeDeclare:
		return ch.declareExchange(m)
	case *wire.ExchangeDelete:
		return ch.deleteExchange(m)
	case *wire.ExchangeBind:
		return ch.bindExchange(m)
	case *wire.ExchangeUnbind:
		return ch.unbindExchange(m)
	case *wire.QueueDeclare:
		return ch.declareQueue(m)
	case *wire.QueueBind:
		return ch.bindQueue(m)
	case *wire.QueueUnbind:
		return ch.unbindQueue(m)
	case *wire.QueuePurge:
		return ch.purgeQueue(m)
	case *wire.QueueDelete:
		return ch.deleteQueue(m)
	case *wire.BasicQos:
		return ch.qos(m)
	case *wire.BasicConsume:
		return ch.consume(m)
	case *wire.BasicCancel:
		return ch.cancel(m)
	case *wire.BasicGet:
		return ch.get(m)
	case *wire.BasicNack:
		if m.Requeue {
			return ch.settle(m.DeliveryTag, m.Multiple, node.NackedBack)
		}
		return ch.settle(m.DeliveryTag, m.Multiple, node.Nacked)
	case *wire.BasicReject:
		if m.Requeue {
			return ch.settle(m.DeliveryTag, false, node.RejectedBack)
		}
		return ch.settle(m.DeliveryTag, false, node.Rejected)
	case *wire.BasicRecover:
		if err := ch.recover(m.Requeue); err != nil {
			return err
		}
		return ch.send(&wire.BasicRecoverOK{})
	case *wire.BasicRecoverAsync:
		return ch.recover(m.Requeue)
	case *wire.ConfirmSelect:
		return ch.selectConfirms(m)
	case *wire.TxSelect, *wire.TxCommit, *wire.TxRollback:
		return ch.transact(m)
	}
	return node.Refuse(wire.CommandInvalid, "unimplemented method")
}

// send sends a method. It returns nil, so that the handler of a method can end with it.
func (ch *Channel) send(m wire.Method) error {
	ch.conn.out.send(ch.Number, m)
	return nil
}

// reply is send unless the client has set no-wait.
func (ch *Channel) reply(noWait bool, m wire.Method) error {
	if noWait {
		return nil
	}
	return ch.send(m)
}

// closeFor closes the channel for an error. If its text is too long for the client, it returns one that closes the connection.
func (ch *Channel) closeFor(x *node.Exception) error {
	text, fits := ch.node.Config.Compat.ReplyText(x)
	if !fits {
		return node.Refuse(wire.InternalError, "")
	}
	ch.close()
	ch.closed = true
	level := slog.LevelInfo
	if x.Code == wire.NotFound { // clients use it to check whether something exists
		level = slog.LevelDebug
	}
	ch.node.Log.Log(context.Background(), level, "channel closed with an error", "connection", ch.conn.Name, "channel", ch.Number, "error", x)
	return ch.send(&wire.ChannelClose{ReplyCode: x.Code, ReplyText: text, ClassID: x.Method.Class(), MethodID: x.Method.Method()})
}

// close ends consuming and returns unacked messages to their queues.
func (ch *Channel) close() { closeAll([]*Channel{ch}) }

// closeAll closes channels of one client. No channel may receive what another one returns.
func closeAll(channels []*Channel) {
	left := make([]remainder, len(channels))
	for i, ch := range channels {
		left[i] = ch.stopConsuming()
	}
	for i, ch := range channels {
		ch.finish(left[i].deliveries, node.Lost)
	}
	for i, ch := range channels {
		for _, c := range left[i].consumers {
			ch.node.Apply(c.queue, c.queue.Core.Activate(&c.Consumer))
			c.queue.ConsumerGone()
		}
	}
}

// remainder is what is left of a channel when it ends.
type remainder struct {
	deliveries []delivery  // unacked, by their tags
	consumers  []*consumer // not cancelled
}

// stopConsuming ends consuming.
func (ch *Channel) stopConsuming() (left remainder) {
	ch.mu.Lock()
	if ch.over {
		ch.mu.Unlock()
		return left
	}
	ch.over = true
	ch.node.Counters.ChannelsClosed.Add(1)
	ch.node.registry.leaveChannel(ch.conn)
	ch.acks.stop()
	left.consumers = slices.Collect(maps.Values(ch.consumers))
	clear(ch.consumers)
	left.deliveries, _ = ch.unackedList.take(0, true, nil)
	ch.mu.Unlock()
	ch.conn.release(ch.incoming.charge)
	ch.incoming.reset()
	if ch.tx != nil {
		ch.conn.release(ch.tx.charge)
		left.deliveries = append(left.deliveries, ch.tx.deliveries()...)
		sortByTag(left.deliveries)
	}
	ch.endReplies()
	ch.confirms.end()
	for _, c := range left.consumers {
		c.countMemory(false)
		c.queue.Core.Leave(&c.Consumer)
	}
	return left
}

// selectConfirms turns on confirms for the messages that follow.
func (ch *Channel) selectConfirms(m *wire.ConfirmSelect) error {
	if ch.tx != nil {
		return node.Refuse(wire.PreconditionFailed, "cannot switch from tx to confirm mode")
	}
	ch.confirming = true
	return ch.reply(m.NoWait, &wire.ConfirmSelectOK{})
}

// addConfirm adds the confirm of a message, which is sent when the message is on disk.
func (ch *Channel) addConfirm(p publication, out node.Outcome) {
	ch.published++
	if ch.confirms.add(pendingConfirm{tag: ch.published, mark: out.Mark, refused: out.Refused, held: ch.node.faults.hold.matches(p.content)}) {
		ch.node.commits.list(ch)
	}
	if out.Mark > ch.node.Durable() {
		ch.conn.needsFlush, ch.conn.awaited = true, out.Mark
	} else if !ch.dirty {
		ch.dirty = true
		ch.conn.dirty = append(ch.conn.dirty, ch)
	}
}

// Traffic returns the traffic of the channel.
func (ch *Channel) Traffic() node.Traffic { return ch.traffic.Sum() }

// counters are the counters that a message of the channel counts for.
func (ch *Channel) counters() [2]*node.TrafficCounter {
	return [...]*node.TrafficCounter{&ch.traffic, &ch.conn.vhost.Publishing}
}

// releaseConfirms sends the confirms of messages that are on disk at a mark, and reports whether some are left.
func (ch *Channel) releaseConfirms(mark store.Mark, unlock func(*socketWriter, []byte)) (left bool) {
	if ch.node.faults.holdAll.Load() {
		return true
	}
	buf := ch.conn.out.lock()
	buf, confirmed, left := ch.confirms.release(ch.Number, mark, buf)
	for _, t := range ch.counters() {
		t.Confirmed.Add(confirmed)
	}
	unlock(ch.conn.out, buf)
	return left
}

package session

import (
	"context"
	"log/slog"
	"sync"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// Channel is a client's line of commands and deliveries.
type Channel struct {
	Number uint16
	conn   *Connection
	node   *Server

	// The reader's own.
	closed     bool // by us; the client has not agreed yet
	incoming   incoming
	lastQueue  string // declared last, which stands for ""
	confirming bool
	published  uint64
	tx         *transaction // nil: not transactional
	prefetch   int          // of consumers to come
	dirty      bool         // listed with the connection
	taken      []delivery   // kept for the next time
	items      []queue.Item

	replies *replies // nil: does not wait for direct replies

	confirms confirms
	traffic  node.TrafficCounter

	mu          sync.Mutex
	over        bool // nothing is delivered any more
	nextTag     uint64
	unackedList unackedList
	shared      int // prefetch of all consumers together; 0: unlimited
	unacked     int // deliveries to consumers that are not settled; what was answered in a transaction is when that commits
	consumers   map[string]*consumer
	cancelled   map[string]*consumer // of quorum queues, with unacked messages: RabbitMQ counts them as consumers
	full        []*consumer          // have turned a message down since something was last settled
	acks        ackTimer
}

func newChannel(c *Connection, number uint16) *Channel {
	ch := &Channel{Number: number, conn: c, node: c.node, consumers: make(map[string]*consumer), cancelled: make(map[string]*consumer)}
	return ch
}

// handleFrame does what a frame says.
func (ch *Channel) handleFrame(f wire.Frame) error {
	if ch.closed {
		return ch.handleFrameClosed(f)
	}
	switch f.Type {
	case wire.FrameMethod:
		if ch.incoming.expects != nothing {
			return ch.incoming.interrupted(f)
		}
		id, ok := wire.PeekMethod(f.Payload)
		if !ok {
			_, err := wire.ParseMethod(f.Payload)
			return err
		}
		err := ch.handleMethod(id, f.Payload)
		if x, ok := err.(*node.Exception); ok && x.Method == 0 {
			x.Method = id
		}
		return err
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

// received publishes a message that has come whole.
func (ch *Channel) received(done bool, err error) error {
	if done && err == nil {
		err = ch.publish()
	}
	if x, ok := err.(*node.Exception); ok && x.Method == 0 {
		x.Method = wire.IDBasicPublish
	}
	return err
}

// handleFrameClosed waits for the client to agree to the end of a channel, and hears nothing else.
func (ch *Channel) handleFrameClosed(f wire.Frame) error {
	if f.Type != wire.FrameMethod {
		return nil
	}
	switch id, _ := wire.PeekMethod(f.Payload); id {
	case wire.IDChannelCloseOK:
		ch.forget()
	case wire.IDChannelClose:
		ch.conn.out.send(ch.Number, &wire.ChannelCloseOK{})
	}
	return nil
}

// forget lets the number be used again.
func (ch *Channel) forget() {
	ch.conn.mu.Lock()
	defer ch.conn.mu.Unlock()
	delete(ch.conn.channels, ch.Number)
}

// handleMethod does what a method says. The frequent ones are not taken apart in full.
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

// execute does what the rarer methods say.
func (ch *Channel) execute(m wire.Method) error {
	switch m := m.(type) {
	case *wire.ChannelOpen:
		return node.Refuse(wire.ChannelError, "second 'channel.open' seen")
	case *wire.ChannelClose:
		ch.close()
		ch.forget()
		ch.send(&wire.ChannelCloseOK{})
		return nil
	case *wire.ChannelCloseOK:
		return nil
	case *wire.ChannelFlow:
		if !m.Active {
			return node.Refuse(wire.NotImplemented, "active=false")
		}
		ch.send(&wire.ChannelFlowOK{Active: true})
		return nil
	case *wire.AccessRequest:
		ch.send(&wire.AccessRequestOK{Ticket: 1})
		return nil
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
		ch.send(&wire.BasicRecoverOK{})
		return nil
	case *wire.BasicRecoverAsync:
		return ch.recover(m.Requeue)
	case *wire.ConfirmSelect:
		return ch.selectConfirms(m)
	case *wire.TxSelect, *wire.TxCommit, *wire.TxRollback:
		return ch.transact(m)
	}
	return node.Refuse(wire.CommandInvalid, "unimplemented method")
}

func (ch *Channel) send(m wire.Method) { ch.conn.out.send(ch.Number, m) }

// reply answers unless the client has asked for silence.
func (ch *Channel) reply(noWait bool, m wire.Method) {
	if !noWait {
		ch.send(m)
	}
}

// closeFor closes the channel for an error.
func (ch *Channel) closeFor(x *node.Exception) {
	ch.close()
	ch.closed = true
	level := slog.LevelInfo
	if x.Code == wire.NotFound { // how a client asks whether something is there
		level = slog.LevelDebug
	}
	ch.node.Log.Log(context.Background(), level, "channel closed with an error", "connection", ch.conn.Name, "channel", ch.Number, "error", x)
	ch.send(&wire.ChannelClose{ReplyCode: x.Code, ReplyText: wire.ReplyText(x.Code, x.Text), ClassID: x.Method.Class(), MethodID: x.Method.Method()})
}

// close ends consuming and gives back what was not acknowledged.
func (ch *Channel) close() { closeAll([]*Channel{ch}) }

// closeAll closes channels of one client. None of them may be handed what another gives back.
func closeAll(channels []*Channel) {
	left := make([]remainder, len(channels))
	for i, ch := range channels {
		left[i] = ch.stopConsuming()
	}
	for i, ch := range channels {
		ch.finish(left[i].deliveries, node.Lost)
		for _, c := range left[i].consumers {
			c.queue.ConsumerGone()
		}
	}
}

// remainder are what a channel leaves behind when it ends.
type remainder struct {
	deliveries []delivery  // not acknowledged, by their tags
	consumers  []*consumer // that were still there
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
	for _, c := range ch.consumers {
		left.consumers = append(left.consumers, c)
	}
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
		fx, _, _ := c.queue.Core.Unsubscribe(&c.Consumer)
		ch.node.Apply(c.queue, fx)
	}
	return left
}

// selectConfirms has every message confirmed from now on.
func (ch *Channel) selectConfirms(m *wire.ConfirmSelect) error {
	if ch.tx != nil {
		return node.Refuse(wire.PreconditionFailed, "cannot switch from tx to confirm mode")
	}
	ch.confirming = true
	ch.reply(m.NoWait, &wire.ConfirmSelectOK{})
	return nil
}

// addConfirm notes what is to be told of a message, and when.
func (ch *Channel) addConfirm(p publication, out node.Outcome) {
	ch.published++
	held := ch.node.faults.holds(ch.conn.vhost.Name, p.content.Exchange, p.content.Key)
	list := ch.confirms.add(pendingConfirm{tag: ch.published, mark: out.Mark, refused: out.Refused, held: held})
	if list {
		ch.node.commits.list(ch)
	}
	if out.Mark > ch.node.Durable() {
		ch.conn.needsFlush, ch.conn.awaited = true, out.Mark
	} else if !ch.dirty {
		ch.dirty = true
		ch.conn.dirty = append(ch.conn.dirty, ch)
	}
}

// Traffic returns what was published on a channel.
func (ch *Channel) Traffic() node.Traffic { return ch.traffic.Sum() }

// counters are those of the traffic that a channel is a part of.
func (ch *Channel) counters() [2]*node.TrafficCounter {
	return [...]*node.TrafficCounter{&ch.traffic, &ch.conn.vhost.Publishing}
}

// releaseConfirms tells the client what is safe at a mark, and reports whether something is left to tell.
func (ch *Channel) releaseConfirms(mark store.Mark, shut func(*socketWriter, []byte)) (left bool) {
	if ch.node.faults.hold.Load() {
		return true
	}
	buf := ch.conn.out.lock()
	buf, confirmed, left := ch.confirms.release(ch.Number, mark, buf)
	for _, t := range ch.counters() {
		t.Confirmed.Add(confirmed)
	}
	shut(ch.conn.out, buf)
	return left
}

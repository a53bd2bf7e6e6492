package session

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"slices"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// Subscription describes a consumer.
type Subscription struct {
	Tag       string
	Queue     *node.Queue
	Channel   *Channel
	NoAck     bool
	Exclusive bool
	Active    bool // false: it waits until the active consumer is gone
	Prefetch  int
	Arguments wire.Table
}

// Subscriptions returns the consumers of a queue, in the order in which they subscribed.
func Subscriptions(q *node.Queue) []Subscription {
	status := q.Status()
	all := make([]Subscription, 0, len(status.Consumers))
	for _, subscribed := range status.Consumers {
		c, ok := subscribed.Sink.(*consumer)
		if !ok {
			continue
		}
		all = append(all, Subscription{Tag: c.Tag, Queue: q, Channel: c.channel, NoAck: c.NoAck, Exclusive: c.Exclusive,
			Active: status.Active == nil || status.Active == subscribed, Prefetch: c.prefetch, Arguments: c.arguments})
	}
	return all
}

// Inside reports whether the client is in this process.
func (c *Connection) Inside() bool {
	_, pipe := c.conn.(*pipeConn)
	return pipe
}

// Addresses returns the client's address and the broker's.
func (c *Connection) Addresses() (remote, local net.Addr) {
	return c.conn.RemoteAddr(), c.conn.LocalAddr()
}

// TLS returns how the connection is encrypted; false: it is not.
func (c *Connection) TLS() (tls.ConnectionState, bool) {
	encrypted, ok := c.conn.(tlsConn)
	if !ok {
		return tls.ConnectionState{}, false
	}
	return encrypted.ConnectionState(), true
}

// Received returns how many frames the client has sent.
func (c *Connection) Received() uint64 { return c.received.Load() }

// ReceivedBytes returns how many bytes the client has sent.
func (c *Connection) ReceivedBytes() uint64 { return c.poller.bytes.Load() }

// Sent returns how many bytes were written to the client.
func (c *Connection) Sent() uint64 { return c.out.sent() }

// Connection returns the connection that the channel belongs to.
func (ch *Channel) Connection() *Connection { return ch.conn }

// ChannelStatus describes a channel.
type ChannelStatus struct {
	Channel                 *Channel
	Confirming              bool
	Transactional           bool
	Prefetch                int // of new consumers
	SharedPrefetch          int // of all consumers together
	Unacked, Consumers      int
	Unconfirmed             int
	UncommittedMessages     int
	UncommittedAcknowledges int
	Traffic                 node.Traffic
}

// ChannelStatuses describes the channels of connections. Only a connection's reader knows everything. If a reader does
// not answer before the context ends, because its client is blocked, the description is incomplete.
func ChannelStatuses(ctx context.Context, connections []*Connection) []ChannelStatus {
	answers := make([]chan []ChannelStatus, len(connections))
	for i, c := range connections {
		answer := make(chan []ChannelStatus, 1)
		answers[i] = answer
		c.ask(func() { answer <- c.channelStatuses(true) })
	}
	var all []ChannelStatus
	for i, c := range connections {
		select {
		case statuses := <-answers[i]:
			all = append(all, statuses...)
		case <-c.out.ended:
			// The connection has ended meanwhile.
		case <-ctx.Done():
			all = append(all, c.channelStatuses(false)...)
		}
	}
	slices.SortStableFunc(all, func(a, b ChannelStatus) int {
		return cmp.Or(cmp.Compare(a.Channel.conn.Name, b.Channel.conn.Name), cmp.Compare(a.Channel.Number, b.Channel.Number))
	})
	return all
}

// channelStatuses describes the channels completely only if the reader calls it.
func (c *Connection) channelStatuses(byReader bool) []ChannelStatus {
	channels := c.Channels()
	all := make([]ChannelStatus, 0, len(channels))
	for _, ch := range channels {
		s := ChannelStatus{Channel: ch, Traffic: ch.traffic.Sum()}
		ch.mu.Lock()
		s.Unacked, s.Consumers, s.SharedPrefetch = ch.unackedList.open, len(ch.consumers), ch.shared
		ch.mu.Unlock()
		ch.confirms.mu.Lock()
		s.Unconfirmed = len(ch.confirms.pending) - ch.confirms.first
		ch.confirms.mu.Unlock()
		if byReader {
			s.Confirming, s.Prefetch = ch.confirming, ch.prefetch
			if ch.tx != nil {
				s.Transactional = true
				s.UncommittedMessages, s.UncommittedAcknowledges = len(ch.tx.publishes), len(ch.tx.deliveries())
			}
		}
		all = append(all, s)
	}
	return all
}

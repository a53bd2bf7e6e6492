package node

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/wire"
)

// What follows is for those who look after a node: they see copies, and change things by whole steps.

// Name is the name of the node and of its cluster.
func (n *Node) Name() string { return n.config.Name }

// Version is the release that clients are told.
func (n *Node) Version() string { return n.config.Version }

// Compat is the release whose rules hold.
func (n *Node) Compat() Compat { return n.config.Compat }

// Began is when the node was opened.
func (n *Node) Began() time.Time { return n.began }

// Memory returns how much memory messages and topology take, and with how much publishers are blocked.
func (n *Node) Memory() (used, limit int64) { return n.used(), n.config.MemoryLimit }

// DiskReserve is how many bytes of the disk stay free; 0: nothing is kept on disk.
func (n *Node) DiskReserve() int64 {
	if n.store == nil {
		return 0
	}
	return n.config.Store.DiskReserve
}

// DiskFree is how many bytes can yet be written; not ok: nothing is kept on disk, or nobody can tell.
func (n *Node) DiskFree() (free int64, ok bool) {
	if n.store == nil {
		return 0, false
	}
	free, err := n.store.Free()
	return free, err == nil
}

// Login returns the user if the password is right, else nil. It takes as long for users that are not there.
func (n *Node) Login(name, password string) *User {
	u := n.User(name)
	if u == nil {
		nobody := User{Hash: strings.Repeat("A", base64.StdEncoding.EncodedLen(4+sha256.Size))}
		nobody.knows(password)
		return nil
	}
	if !u.knows(password) {
		return nil
	}
	return u
}

// In returns what the user may do in a virtual host; false: it may not even enter.
func (u *User) In(vhost string) (Permission, bool) { return u.permission(vhost) }

// EditUser changes a user in one step, or makes one if there is none and create is set. edit must not call the node.
func (n *Node) EditUser(name string, create bool, edit func(*User)) (created bool, err error) {
	n.mu.Lock()
	old := n.users[name]
	if old == nil && !create {
		n.mu.Unlock()
		return false, fmt.Errorf("no user %q", name)
	}
	u := &User{Name: name}
	if old != nil {
		u = old.clone()
	}
	if u.Permissions == nil {
		u.Permissions = make(map[string]Permission)
	}
	edit(u)
	if u.Password != "" {
		u.Hash, u.Password = HashPassword(u.Password), ""
	}
	if err := u.checkPermissions(); err != nil {
		n.mu.Unlock()
		return false, err
	}
	n.users[name] = u
	mark := n.defineUser(u)
	n.mu.Unlock()
	n.permissionsChanged()
	return old == nil, n.kept(mark)
}

func (u *User) checkPermissions() error {
	for vhost, p := range u.Permissions {
		for _, pattern := range []string{p.Configure, p.Write, p.Read} {
			if _, err := compilePermission(pattern); err != nil {
				return fmt.Errorf("permission of user %q in virtual host %q: %w", u.Name, vhost, err)
			}
		}
	}
	return u.checkTopics()
}

// BindNamed binds what is there by name.
func (v *Vhost) BindNamed(b Binding) error {
	source := v.Exchange(b.Source)
	if source == nil {
		return v.noExchange(b.Source)
	}
	if b.Kind == "exchange" {
		to := v.Exchange(b.Destination)
		if to == nil {
			return v.noExchange(b.Destination)
		}
		return v.Bind(source, destination{exchange: to}, b.Key, b.Arguments)
	}
	to := v.Queue(b.Destination)
	if to == nil {
		return v.noQueue(b.Destination)
	}
	return v.Bind(source, destination{queue: to}, b.Key, b.Arguments)
}

// Policy returns the name of the policy that applies to the exchange, or "".
func (x *Exchange) Policy() string {
	x.vhost.mu.RLock()
	defer x.vhost.mu.RUnlock()
	return x.policy
}

// Policy returns a policy of users by its name.
func (v *Vhost) Policy(name string) (Policy, bool) { return v.findPolicy(name, false) }

// OperatorPolicy returns a policy of operators by its name.
func (v *Vhost) OperatorPolicy(name string) (Policy, bool) { return v.findPolicy(name, true) }

// EffectivePolicy returns what the policies that apply to the queue say together.
func (q *Queue) EffectivePolicy() map[string]any {
	v := q.vhost
	v.mu.RLock()
	defer v.mu.RUnlock()
	return maps.Clone(merged(v.policies[q.policy].Definition, v.operators[q.operatorPolicy].Definition))
}

func (v *Vhost) findPolicy(name string, operator bool) (Policy, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	p, ok := v.rank(operator)[name]
	p.Definition = maps.Clone(p.Definition)
	return p, ok
}

// Owner returns the connection that alone may use the queue, or nil.
func (q *Queue) Owner() *Connection { return q.owner }

// Subscription is a consumer as people see it.
type Subscription struct {
	Tag       string
	Queue     *Queue
	Channel   *Channel
	NoAck     bool
	Exclusive bool
	Active    bool // false: it waits for the one that is served to go
	Prefetch  int
	Arguments wire.Table
}

// Subscriptions returns the consumers of the queue, in the order of their coming.
func (q *Queue) Subscriptions() []Subscription {
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

// ShownTimeout is how long a client may hold a delivery of the queue, as RabbitMQ's API shows it for all its consumers: without what the consumer
// itself asked for, and also where it does not hold. 0: without limit.
func (q *Queue) ShownTimeout() time.Duration {
	if own := q.core.Settings().ConsumerTimeout; own >= 0 {
		return own
	}
	return q.vhost.node.config.ConsumerTimeout
}

// ShownArguments are the arguments of the queue as clients see them: from 4.0 on they have its type even if the declaration had none.
func (q *Queue) ShownArguments() wire.Table { return q.vhost.node.config.Compat.withType(q.Arguments) }

// VhostName returns the name of the queue's virtual host.
func (q *Queue) VhostName() string { return q.vhost.Name }

// SingleActive reports whether one consumer at a time is served.
func (q *Queue) SingleActive() bool { return singleActive(q.Arguments) }

// Own reports whether the connection is one of the broker's own, by which it does what somebody asks for elsewhere.
func (c *Connection) Own() bool { return c.own }

// Inside reports whether the client is in this process.
func (c *Connection) Inside() bool {
	_, pipe := c.conn.(*pipeConn)
	return pipe
}

// Addresses returns the client's address and ours.
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
func (c *Connection) ReceivedBytes() uint64 { return c.meter.bytes.Load() }

// Sent returns how many bytes were written to the client.
func (c *Connection) Sent() uint64 {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	return c.out.written
}

// Connection returns the connection that the channel belongs to.
func (ch *Channel) Connection() *Connection { return ch.conn }

// ChannelStatus is how a channel is at a moment.
type ChannelStatus struct {
	Channel                 *Channel
	Confirming              bool
	Transactional           bool
	Prefetch                int // of consumers to come
	SharedPrefetch          int // of all consumers together
	Unacked, Consumers      int
	Unconfirmed             int
	UncommittedMessages     int
	UncommittedAcknowledges int
	Traffic                 Traffic
}

// ChannelStatuses describes the channels of connections. Much of it only a connection's reader knows: one that does not answer before
// the context ends, because its client is blocked, is described without that.
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
			// The connection has gone meanwhile.
		case <-ctx.Done():
			all = append(all, c.channelStatuses(false)...)
		}
	}
	slices.SortStableFunc(all, func(a, b ChannelStatus) int {
		return cmp.Or(cmp.Compare(a.Channel.conn.Name, b.Channel.conn.Name), cmp.Compare(a.Channel.Number, b.Channel.Number))
	})
	return all
}

// channelStatuses may be called by the reader alone if it is to tell what is the reader's.
func (c *Connection) channelStatuses(byReader bool) []ChannelStatus {
	channels := c.Channels()
	all := make([]ChannelStatus, 0, len(channels))
	for _, ch := range channels {
		s := ChannelStatus{Channel: ch, Traffic: ch.traffic.sum()}
		ch.mu.Lock()
		s.Unacked, s.Consumers, s.SharedPrefetch = ch.ledger.open, len(ch.consumers), ch.shared
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

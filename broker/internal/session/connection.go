package session

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// Connection is a client. One goroutine reads and does what the client says, one writes.
type Connection struct {
	node   *Server
	conn   net.Conn
	meter  meter
	poller *pollingReader
	reader *wire.Reader
	out    *socketWriter
	// Name is the client's address and ours.
	Name  string
	Since time.Time

	// Set by the handshake.
	User       string
	Mechanism  string
	Properties wire.Table // of the client
	FrameMax   int
	ChannelMax int
	Heartbeat  time.Duration
	vhost      *node.Vhost
	access     *node.Access
	own        bool // the broker's, not a client's

	stage       stage
	opened      atomic.Bool                    // the handshake is over
	closing     atomic.Bool                    // one side has sent connection.close
	closeReason atomic.Pointer[node.Exception] // why we are to close it
	published   atomic.Bool
	blocked     atomic.Bool
	received    atomic.Uint64 // frames
	working     atomic.Bool   // the reader works, and may be waiting for the disk: the client is not to blame for its silence
	heartbeats  heartbeatTimer

	mu        sync.Mutex
	channels  map[uint16]*Channel      // only the reader changes it, and so reads it without the lock
	exclusive map[*node.Queue]struct{} // queues of this connection alone
	asked     []func()                 // what others want the reader to do
	// The reader's own.
	dirty           []*Channel // have confirms that can be sent at once
	needsFlush      bool       // a publisher waits for the log
	flushedMark     store.Mark // of the log when that was last so
	awaited         store.Mark // that of the last message whose publisher waits
	routes          routeCache
	smallIncomplete int   // bytes of messages that are not complete or not committed, which are not counted
	largeIncomplete int64 // the others; changes with the mutex of incompleteMessages held
}

func newConnection(n *Server, conn net.Conn) *Connection {
	c := &Connection{node: n, conn: conn, out: newSocketWriter(conn), poller: newPollingReader(conn), channels: make(map[uint16]*Channel), Since: time.Now()}
	c.meter.source = c.poller
	c.reader = wire.NewReader(&c.meter, n.Config.Compat.SmallestFrame())
	c.routes = newRouteCache()
	c.Name = fmt.Sprintf("%s -> %s", conn.RemoteAddr(), conn.LocalAddr())
	return c
}

// serve serves the client until it goes.
func (c *Connection) serve() {
	n := c.node
	defer func() { _ = c.conn.Close() }()
	if err := n.join(c); err != nil {
		n.Log.Info("connection refused", "connection", c.Name, "reason", err)
		return
	}
	defer n.part(c)
	go c.out.write(c.resume, n.wakeReaders)
	_ = c.conn.SetDeadline(time.Now().Add(n.Config.HandshakeLimit))
	err := c.handshake()
	if err == nil {
		_ = c.conn.SetDeadline(time.Time{})
		c.opened.Store(true)
		n.Counters.ConnectionsOpened.Add(1)
		defer n.Counters.ConnectionsClosed.Add(1)
		// The connection is listed and counted before its client knows that it is open.
		c.out.send(0, &wire.ConnectionOpenOK{})
		switch {
		case n.Tasks.Ended():
			c.shutdown("broker shut down")
		case n.Vhost(c.vhost.Name) != c.vhost:
			c.shutdown(fmt.Sprintf("vhost '%s' is deleted", c.vhost.Name))
		}
		c.heartbeats.start(c)
		err = c.readLoop()
		c.heartbeats.stop()
	}
	c.log(err)
	c.releaseAll()
	_ = c.conn.SetWriteDeadline(time.Now().Add(node.CloseLimit))
	c.out.end()
	<-c.out.ended
	if err == nil {
		c.awaitHangup()
	}
}

// awaitHangup waits for a client that has closed the connection to close the transport too, and discards what it still sends: other goroutines of a client
// may publish until they learn of the end. To close a socket on which unread bytes arrive is to reset it, and then the client may lose close-ok. A
// client that stays is left after a while.
func (c *Connection) awaitHangup() {
	c.opened.Store(false) // it is not shown any more, and the end of the node does not wait for it
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // for clients that wait for the broker to hang up first
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(node.CloseLimit))
	if c.node.Closed() {
		return
	}
	_, _ = io.Copy(io.Discard, c.conn)
}

func (c *Connection) log(err error) {
	var x *node.Exception
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return
	case errors.As(err, &x) && x.Code == wire.ConnectionForced:
		c.node.Log.Info("connection closed", "connection", c.Name, "user", c.User, "reason", x.Text)
	case errors.As(err, &x):
		c.node.Log.Warn("connection closed with an error", "connection", c.Name, "user", c.User, "error", err)
	default:
		c.node.Log.Info("connection lost", "connection", c.Name, "user", c.User, "error", err)
	}
}

// readLoop does what the client says until it goes, or has to.
func (c *Connection) readLoop() error {
	for {
		if !c.reader.Ready() {
			c.flushConfirms()
		}
		if !c.out.awaitRoom(c.isClosing) {
			return net.ErrClosed
		}
		c.awaitUnblocked()
		if why := c.closeReason.Load(); why != nil {
			return c.closeFor(why)
		}
		frame, err := c.reader.Next()
		if errors.Is(err, os.ErrDeadlineExceeded) && c.answer() {
			continue
		}
		if err == nil {
			c.received.Add(1)
			err = c.handleFrame(frame)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, errClosedByClient) {
			return nil
		}
		return c.closeFor(err)
	}
}

// ask has the reader do something soon, because much of a connection is the reader's own. It interrupts its reading.
func (c *Connection) ask(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, f)
	if !c.closing.Load() {
		_ = c.conn.SetReadDeadline(time.Now())
	}
}

// answer does what others have asked for, and reports whether reading goes on.
func (c *Connection) answer() bool {
	c.mu.Lock()
	asked := c.asked
	c.asked = nil
	if len(asked) > 0 && !c.closing.Load() {
		_ = c.conn.SetReadDeadline(time.Time{})
	}
	c.mu.Unlock()
	for _, f := range asked {
		f()
	}
	return len(asked) > 0
}

// errClosedByClient: the client has closed the connection, or has agreed that we do.
var errClosedByClient = errors.New("the connection is closed")

// closeFor closes a connection for an error, if the client can still be told.
func (c *Connection) closeFor(err error) error {
	x, told := asException(err)
	var broken *wire.FrameError
	if errors.As(err, &broken) && broken.Code == wire.NotImplemented {
		return err // RabbitMQ hangs up on who sends methods that do not exist
	}
	if !told || c.closing.Load() || !c.stage.tells(x.Code) {
		return err
	}
	c.mu.Lock() // so that nobody interrupts the reader any more
	c.closing.Store(true)
	c.mu.Unlock()
	// What was the client's is free before it knows, so that it can begin anew at once.
	c.releaseAll()
	_ = c.conn.SetWriteDeadline(time.Now().Add(node.CloseLimit))
	c.out.send(0, &wire.ConnectionClose{ReplyCode: x.Code, ReplyText: wire.ReplyText(x.Code, x.Text), ClassID: x.Method.Class(), MethodID: x.Method.Method()})
	_ = c.conn.SetReadDeadline(time.Now().Add(node.CloseLimit))
	if broken != nil && broken.Code == wire.FrameFault {
		// Nobody knows where the next frame begins.
		_, _ = io.Copy(io.Discard, c.conn)
		return err
	}
	for {
		frame, failed := c.reader.Next()
		switch {
		case failed != nil:
			return err
		case frame.Type != wire.FrameMethod || frame.Channel != 0:
		case isMethod(frame, wire.IDConnectionCloseOK):
			return err
		case isMethod(frame, wire.IDConnectionClose): // at the same time as ours
			c.out.send(0, &wire.ConnectionCloseOK{})
		}
	}
}

func isMethod(f wire.Frame, id wire.MethodID) bool {
	got, ok := wire.PeekMethod(f.Payload)
	return ok && got == id
}

// asException finds what a client is to be told of an error.
func asException(err error) (*node.Exception, bool) {
	var x *node.Exception
	if errors.As(err, &x) {
		return x, true
	}
	var broken *wire.FrameError
	if errors.As(err, &broken) {
		return &node.Exception{Code: broken.Code, Text: broken.Text, Method: broken.Method}, true
	}
	return nil, false
}

// handleFrame does what one frame says.
func (c *Connection) handleFrame(f wire.Frame) error {
	switch {
	case f.Type == wire.FrameHeartbeat:
		if f.Channel != 0 {
			return f.Unexpected()
		}
		return nil
	case f.Channel == 0:
		if f.Type != wire.FrameMethod {
			return f.Unexpected()
		}
		return c.control(f)
	case c.closing.Load():
		return nil
	}
	ch := c.channels[f.Channel]
	if ch == nil {
		return c.openChannel(f)
	}
	err := ch.handleFrame(f)
	x, ok := err.(*node.Exception)
	if !ok || wire.ClosesConnection(x.Code) {
		return err
	}
	ch.closeFor(x)
	return nil
}

// openChannel takes the first frame of a channel, which must open it.
func (c *Connection) openChannel(f wire.Frame) error {
	if f.Type != wire.FrameMethod {
		return f.Unexpected()
	}
	if _, err := wire.ParseMethod(f.Payload); err != nil {
		return err
	}
	id, _ := wire.PeekMethod(f.Payload)
	switch {
	case id == wire.IDChannelCloseOK:
		return nil
	case id != wire.IDChannelOpen:
		return &node.Exception{Code: wire.ChannelError, Text: "expected 'channel.open'", Method: id}
	}
	// Only the reader adds channels.
	if open := len(c.channels); open >= c.ChannelMax {
		return node.Refuse(wire.NotAllowed, "number of channels opened (%d) has reached the negotiated channel_max (%d)", open, c.ChannelMax)
	}
	if err := c.node.enterChannel(c); err != nil {
		return err
	}
	ch := newChannel(c, f.Channel)
	c.mu.Lock()
	c.channels[f.Channel] = ch
	c.mu.Unlock()
	c.node.Counters.ChannelsOpened.Add(1)
	c.out.send(f.Channel, &wire.ChannelOpenOK{})
	return nil
}

// control does what a method on channel 0 says.
func (c *Connection) control(f wire.Frame) error {
	m, err := wire.ParseMethod(f.Payload)
	if err != nil {
		return err
	}
	switch m.(type) {
	case *wire.ConnectionClose:
		c.mu.Lock() // so that nobody interrupts the reader any more
		c.closing.Store(true)
		c.mu.Unlock()
		c.releaseAll()
		c.out.send(0, &wire.ConnectionCloseOK{})
		return errClosedByClient
	case *wire.ConnectionCloseOK:
		if c.closing.Load() {
			return errClosedByClient
		}
	case *wire.ConnectionUpdateSecret:
		// It is for users that somebody else vouches for for a while, which none of ours is.
		if c.closing.Load() {
			return nil
		}
		c.out.send(0, &wire.ConnectionUpdateSecretOK{})
		return nil
	}
	if c.closing.Load() {
		return nil
	}
	return &node.Exception{Code: wire.ChannelError, Text: "unexpected method in connection state running", Method: m.ID()}
}

// shutdown has the reader close the connection from our side.
func (c *Connection) shutdown(reason string) {
	if !c.opened.Load() {
		_ = c.conn.Close()
		return
	}
	c.requestClose(&node.Exception{Code: wire.ConnectionForced, Text: reason})
	c.node.incomplete.wake()
}

// requestClose has the reader close the connection for an error. Whoever waits for room for messages has to be woken, too.
func (c *Connection) requestClose(why *node.Exception) {
	c.closeReason.CompareAndSwap(nil, why)
	c.out.wake()
	c.node.ResourceAlarms.Wake()
	c.ask(func() {})
}

// wakeReaders has readers that wait look again.
func (n *Server) wakeReaders() {
	n.ResourceAlarms.Wake()
	n.incomplete.wake()
}

// Close closes the connection for a reason that the client receives.
func (c *Connection) Close(reason string) { c.shutdown(reason) }

func (c *Connection) isClosing() bool { return c.closing.Load() || c.closeReason.Load() != nil }

// hasCapability reports whether the client has a capability.
func (c *Connection) hasCapability(capability string) bool {
	v, _ := c.Properties.Get("capabilities")
	capabilities, _ := v.(wire.Table)
	able, _ := capabilities.Get(capability)
	yes, _ := able.(bool)
	return yes
}

// resume serves a consumer again when what was written to its client has left.
func (c *Connection) resume(waiting *consumer) {
	c.node.Apply(waiting.queue, waiting.queue.Core.Resume(&waiting.Consumer))
}

// flushConfirms confirms what can be confirmed and has the rest made safe, before the reader waits for the client.
func (c *Connection) flushConfirms() {
	if c.needsFlush {
		c.needsFlush = false
		c.working.Store(true)
		c.node.Store.Flush()
		c.working.Store(false)
		c.pollNext()
	}
	for _, ch := range c.dirty {
		ch.dirty = false
		ch.releaseConfirms(c.node.Durable(), (*socketWriter).flush)
	}
	c.dirty = c.dirty[:0]
}

// pollNext has the reader look for the next message if since last time nothing was committed but one of this connection's, and that is safe: then its publisher is
// alone, and was told.
func (c *Connection) pollNext() {
	safe := c.node.Durable()
	c.poller.expects = safe == c.flushedMark+1 && safe == c.awaited
	c.flushedMark = safe
}

// releaseAll ends all channels and deletes the queues that are this connection's own.
func (c *Connection) releaseAll() {
	closeAll(c.Channels())
	c.mu.Lock()
	exclusive := c.exclusive
	c.exclusive = nil
	c.mu.Unlock()
	for q := range exclusive {
		_, _ = q.Delete(false, false)
	}
	c.node.registry.leave(c)
}

// Owns notes that an exclusive queue was made or deleted.
func (c *Connection) Owns(q *node.Queue, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !yes {
		delete(c.exclusive, q)
		return
	}
	if c.exclusive == nil {
		c.exclusive = make(map[*node.Queue]struct{})
	}
	c.exclusive[q] = struct{}{}
}

// Vhost returns the connection's virtual host.
func (c *Connection) Vhost() string { return c.vhost.Name }

// Blocked reports whether the connection waits for an alarm to be cleared.
func (c *Connection) Blocked() bool { return c.blocked.Load() }

// Channels returns the open channels by number.
func (c *Connection) Channels() []*Channel {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Collect(maps.Values(c.channels))
	slices.SortFunc(all, func(a, b *Channel) int { return int(a.Number) - int(b.Number) })
	return all
}

// Connections returns those that are open and not being closed.
func (n *Server) Connections() []*Connection {
	return slices.DeleteFunc(n.openConnections(), func(c *Connection) bool { return c.closing.Load() })
}

// openConnections includes those that are being closed and may still have unacked messages.
func (n *Server) openConnections() (open []*Connection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.connections {
		if c.opened.Load() {
			open = append(open, c)
		}
	}
	return open
}

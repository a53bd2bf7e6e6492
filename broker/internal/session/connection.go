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

// Connection is the connection of a client. One goroutine reads and executes methods, one writes.
type Connection struct {
	node   *Server
	conn   net.Conn
	poller *pollingReader
	reader *wire.Reader
	out    *socketWriter
	// Name is the client's address and the broker's.
	Name  string
	Since time.Time

	// Set by the handshake:

	User       string
	Mechanism  string
	Properties wire.Table // of the client
	FrameMax   int
	ChannelMax int
	Heartbeat  time.Duration
	vhost      *node.Vhost
	access     *node.Access
	own        bool // used by the broker itself
	peer       node.Peer
	unlogged   bool        // its end is not logged
	crowdedOut atomic.Bool // its handshake was ended in favor of newer ones

	stage       stage
	opened      atomic.Bool                    // the handshake is over
	closing     atomic.Bool                    // one side has sent connection.close
	closeReason atomic.Pointer[node.Exception] // why the reader has to close it
	published   atomic.Bool
	blocked     atomic.Bool
	received    atomic.Uint64 // frames
	working     atomic.Bool   // the reader executes a method, and reads no heartbeats meanwhile
	heartbeats  heartbeatTimer

	mu        sync.Mutex
	channels  map[uint16]*Channel      // only the reader changes it, and so it reads without the lock
	exclusive map[*node.Queue]struct{} // the exclusive queues
	asked     []func()                 // what other goroutines want the reader to do
	// Only the reader uses these.
	dirty           []*Channel // have confirms that can be sent at once
	needsFlush      bool       // a publisher waits for the log
	flushedMark     store.Mark // of the log at the last flush
	awaited         store.Mark // of the last message whose publisher waits
	routes          routeCache
	smallIncomplete int   // bytes of small messages that are not complete or not committed; they are not limited
	largeIncomplete int64 // bytes of the others; changes with the mutex of incompleteMessages held
}

func newConnection(n *Server, conn net.Conn) *Connection {
	c := &Connection{node: n, conn: conn, out: newSocketWriter(conn), poller: newPollingReader(conn), channels: make(map[uint16]*Channel), Since: time.Now()}
	c.reader = wire.NewReader(c.poller, n.Config.Compat.SmallestFrame())
	c.routes = newRouteCache(n.Node)
	c.Name = fmt.Sprintf("%s -> %s", conn.RemoteAddr(), conn.LocalAddr())
	c.peer = node.PeerOf(conn.RemoteAddr())
	return c
}

// serve serves the client until the connection ends.
func (c *Connection) serve() {
	n := c.node
	defer func() { _ = c.conn.Close() }()
	if err := n.join(c); err != nil {
		n.Log.Info("connection refused", "connection", c.Name, "reason", err)
		return
	}
	defer n.part(c)
	n.admission.begin(c, n.Config.MaxHandshakes)
	defer n.admission.leave(c)
	go c.out.write(c.resume, n.wakeReaders)
	_ = c.conn.SetDeadline(time.Now().Add(handshakeTimeout))
	err := c.handshake()
	n.admission.endHandshake(c)
	if err != nil && c.crowdedOut.Load() {
		err = errCrowdedOut(n.Config.MaxHandshakes)
	}
	if err == nil {
		_ = c.conn.SetDeadline(time.Time{})
		c.opened.Store(true)
		n.Counters.ConnectionsOpened.Add(1)
		defer n.Counters.ConnectionsClosed.Add(1)
		// The connection is listed and counted before the client is notified that it is open.
		c.out.send(0, &wire.ConnectionOpenOK{})
		switch {
		case n.Tasks.Ended():
			c.Close("broker shut down")
		case n.Vhost(c.vhost.Name) != c.vhost:
			c.Close(fmt.Sprintf("vhost '%s' is deleted", c.vhost.Name))
		}
		c.heartbeats.start(c)
		err = c.readLoop()
		c.heartbeats.stop()
	}
	c.log(err)
	c.releaseAll()
	c.routes.clear()
	_ = c.conn.SetWriteDeadline(time.Now().Add(node.CloseLimit))
	c.out.end()
	<-c.out.ended
	if err == nil {
		c.awaitHangup()
	}
}

// awaitHangup waits until a client that has closed the connection also closes the socket, and discards what it still
// sends: other goroutines of the client may publish until they notice the end. Closing a socket while unread bytes
// arrive resets it, and then the client may lose close-ok. After CloseLimit it waits no longer.
func (c *Connection) awaitHangup() {
	c.opened.Store(false) // it is not listed any more, and the end of the node does not wait for it
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // for clients that wait for the broker to close first
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
	case err == nil, c.unlogged, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return
	case errors.As(err, &x) && x.Code == wire.ConnectionForced:
		c.node.Log.Info("connection closed", "connection", c.Name, "user", c.User, "reason", x.Text)
	case errors.As(err, &x):
		c.node.Log.Warn("connection closed with an error", "connection", c.Name, "user", c.User, "error", err)
	default:
		c.node.Log.Info("connection lost", "connection", c.Name, "user", c.User, "error", err)
	}
}

// readLoop executes what the client sends until the connection ends.
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

// ask makes the reader call a function soon, because only the reader may use much of a connection. It interrupts reading.
func (c *Connection) ask(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, f)
	if !c.closing.Load() {
		_ = c.conn.SetReadDeadline(time.Now())
	}
}

// answer calls what was asked for, and reports whether reading continues.
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

// errClosedByClient: the client has closed the connection, or has agreed that the broker does.
var errClosedByClient = errors.New("the connection is closed")

// closeFor closes a connection because of an error. It sends the error if the client can still receive it.
func (c *Connection) closeFor(err error) error {
	x, ok := asException(err)
	var broken *wire.FrameError
	if errors.As(err, &broken) && broken.Code == wire.NotImplemented {
		return err // RabbitMQ closes the socket if a client sends unknown methods
	}
	if !ok || c.closing.Load() || !c.stage.sends(x.Code) {
		return err
	}
	text, fits := c.node.Config.Compat.ReplyText(x)
	if !fits {
		return err // RabbitMQ closes the socket
	}
	c.setClosing()
	// What belongs to the client is free before the client is notified, so that it can start again at once.
	c.releaseAll()
	_ = c.conn.SetWriteDeadline(time.Now().Add(node.CloseLimit))
	c.out.send(0, &wire.ConnectionClose{ReplyCode: x.Code, ReplyText: text, ClassID: x.Method.Class(), MethodID: x.Method.Method()})
	_ = c.conn.SetReadDeadline(time.Now().Add(node.CloseLimit))
	if broken != nil && broken.Code == wire.FrameFault {
		_, _ = io.Copy(io.Discard, c.conn) // where the next frame begins is unknown
		return err
	}
	for {
		frame, failed := c.reader.Next()
		switch {
		case failed != nil:
			return err
		case frame.Channel != 0:
		case isMethod(frame, wire.IDConnectionCloseOK):
			return err
		case isMethod(frame, wire.IDConnectionClose): // both sides close at the same time
			c.out.send(0, &wire.ConnectionCloseOK{})
		}
	}
}

// setClosing locks, so that nothing interrupts the reader any more.
func (c *Connection) setClosing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing.Store(true)
}

func isMethod(f wire.Frame, id wire.MethodID) bool {
	got, ok := wire.PeekMethod(f.Payload)
	return f.Type == wire.FrameMethod && ok && got == id
}

// asException returns what a client receives for an error.
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

func (c *Connection) handleFrame(f wire.Frame) error {
	switch {
	case f.Channel == 0 && f.Type == wire.FrameMethod:
		return c.control(f)
	case f.Channel == 0 && f.Type == wire.FrameHeartbeat:
		return nil
	case f.Channel == 0, f.Type == wire.FrameHeartbeat:
		return f.Unexpected()
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
	return ch.closeFor(x)
}

// openChannel handles the first frame of a channel, which must open it.
func (c *Connection) openChannel(f wire.Frame) error {
	if f.Type != wire.FrameMethod {
		return f.Unexpected()
	}
	m, err := wire.ParseMethod(f.Payload)
	if err != nil {
		return err
	}
	switch m.(type) {
	case *wire.ChannelCloseOK:
		return nil
	case *wire.ChannelOpen:
	default:
		return &node.Exception{Code: wire.ChannelError, Text: "expected 'channel.open'", Method: m.ID()}
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
	return ch.send(&wire.ChannelOpenOK{})
}

// control executes a method on channel 0.
func (c *Connection) control(f wire.Frame) error {
	m, err := wire.ParseMethod(f.Payload)
	if err != nil {
		return err
	}
	closing := c.closing.Load()
	switch m.(type) {
	case *wire.ConnectionClose:
		c.setClosing()
		c.releaseAll()
		c.out.send(0, &wire.ConnectionCloseOK{})
		return errClosedByClient
	case *wire.ConnectionCloseOK:
		if closing {
			return errClosedByClient
		}
	case *wire.ConnectionUpdateSecret:
		// It is for users with temporary credentials, which this broker does not have.
		if !closing {
			c.out.send(0, &wire.ConnectionUpdateSecretOK{})
		}
		return nil
	}
	if closing {
		return nil
	}
	return unexpected(m, "running")
}

// requestClose makes the reader close the connection for an error. The caller also has to wake a reader that waits for
// room for messages.
func (c *Connection) requestClose(why *node.Exception) {
	c.closeReason.CompareAndSwap(nil, why)
	c.out.wake()
	c.node.ResourceAlarms.Wake()
	c.ask(func() {})
}

// wakeReaders makes waiting readers check whether they still have to wait.
func (n *Server) wakeReaders() {
	n.ResourceAlarms.Wake()
	n.incomplete.wake()
}

// Close makes the reader close the connection for a reason that the client receives.
func (c *Connection) Close(reason string) {
	if !c.opened.Load() {
		_ = c.conn.Close()
		return
	}
	c.requestClose(&node.Exception{Code: wire.ConnectionForced, Text: reason})
	c.node.incomplete.wake()
}

func (c *Connection) isClosing() bool { return c.closing.Load() || c.closeReason.Load() != nil }

// hasCapability reports whether the client has a capability.
func (c *Connection) hasCapability(capability string) bool {
	v, _ := c.Properties.Get("capabilities")
	capabilities, _ := v.(wire.Table)
	able, _ := capabilities.Get(capability)
	yes, _ := able.(bool)
	return yes
}

// resume delivers to a consumer again after its client has read.
func (c *Connection) resume(waiting *consumer) {
	c.node.Apply(waiting.queue, waiting.queue.Core.Resume(&waiting.Consumer))
}

// flushConfirms sends the confirms that can be sent and flushes the log for the others, before the reader waits for the
// client.
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

// pollNext makes the reader poll for the next message if one message of this connection is all that was committed since
// the last time, and it is on disk: then its publisher is the only one, and has its confirm.
func (c *Connection) pollNext() {
	durable := c.node.Durable()
	c.poller.expects = durable == c.flushedMark+1 && durable == c.awaited
	c.flushedMark = durable
}

// releaseAll ends all channels and deletes the exclusive queues.
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

// Owns adds or removes an exclusive queue.
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

// Blocked reports whether the connection waits until an alarm is cleared.
func (c *Connection) Blocked() bool { return c.blocked.Load() }

// Channels returns the open channels by number.
func (c *Connection) Channels() []*Channel {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Collect(maps.Values(c.channels))
	slices.SortFunc(all, func(a, b *Channel) int { return int(a.Number) - int(b.Number) })
	return all
}

// Connections returns the connections that are open and not being closed.
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

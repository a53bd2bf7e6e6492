// Package session serves the clients of a node: their connections, channels, consumers, publishes and confirms.
package session

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/queue"
)

// Server is a node with its connected clients.
type Server struct {
	*node.Node
	incomplete incompleteMessages
	commits    confirmWaiters
	faults     faults
	registry   connectionRegistry
	admission  admission
	pipes      atomic.Uint64 // number of those created so far

	mu          sync.Mutex
	connections map[*Connection]struct{}
	replies     map[string]*replies
	listeners   []net.Listener
	closing     bool
	failed      error
}

// Open starts a server with the data in its directory.
func Open(c node.Config) (*Server, error) {
	s := &Server{connections: make(map[*Connection]struct{}), replies: make(map[string]*replies)}
	s.registry.init()
	s.admission.init()
	_, err := node.Open(c, func(n *node.Node) node.Clients {
		s.Node = n
		s.incomplete.init(s)
		return s
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Close closes all connections and returns when everything has ended and is on disk.
func (n *Server) Close() error {
	err := n.Node.Close()
	n.incomplete.stop()
	return err
}

// Shutdown closes all connections, and accepts no more.
func (n *Server) Shutdown(reason string) {
	n.mu.Lock()
	n.closing = true
	n.mu.Unlock()
	n.closeAllConnections(reason)
}

// DiskFailed closes all connections and listeners, and accepts no more connections.
func (n *Server) DiskFailed(err error) {
	n.mu.Lock()
	n.failed = err
	n.mu.Unlock()
	for _, ln := range n.Listeners() {
		_ = ln.Close()
	}
	n.closeAllConnections("the broker's disk has failed")
}

func (n *Server) closeAllConnections(reason string) {
	n.mu.Lock()
	connections := slices.Collect(maps.Keys(n.connections))
	n.mu.Unlock()
	for _, c := range connections {
		c.Close(reason)
	}
}

// CloseConnections closes the open connections for which chosen returns true.
func (n *Server) CloseConnections(reason string, chosen func(user string, v *node.Vhost) bool) {
	for _, c := range n.openConnections() {
		if chosen(c.User, c.vhost) {
			c.Close(reason)
		}
	}
}

// AlarmChanged notifies the clients that have published that they are blocked or unblocked.
func (n *Server) AlarmChanged(which node.Alarm, raised bool) {
	for _, c := range n.openConnections() {
		c.alarmChanged(which, raised)
	}
}

// MemoryShort watches incomplete messages while the alarm for memory is raised.
func (n *Server) MemoryShort() { n.incomplete.watch() }

// Serve accepts connections from a listener until it is closed, the context ends or the disk fails.
func (n *Server) Serve(ctx context.Context, ln net.Listener) error {
	if !n.Tasks.Enter() {
		return net.ErrClosed
	}
	defer n.Tasks.Leave()
	n.mu.Lock()
	n.listeners = append(n.listeners, ln)
	failed := n.failed
	n.mu.Unlock()
	if failed != nil {
		_ = ln.Close()
	}
	defer n.forgetListener(ln)
	for _, end := range []context.Context{ctx, n.Stopping} {
		defer context.AfterFunc(end, func() { _ = ln.Close() })()
	}
	pause := 5 * time.Millisecond
	for {
		conn, err := ln.Accept()
		var temporary interface{ Temporary() bool }
		switch {
		case err == nil:
			n.Handle(conn)
			pause = 5 * time.Millisecond
		case ctx.Err() != nil:
			return ctx.Err()
		case n.Closed():
			return net.ErrClosed
		case n.Failed() != nil:
			return n.Failed()
		case errors.As(err, &temporary) && temporary.Temporary():
			// Usually there are no file descriptors left, until a client disconnects.
			n.Log.Warn("accept a connection", "error", err, "retry in", pause)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			case <-n.Stopping.Done():
			}
			pause = min(2*pause, time.Second)
		default:
			return fmt.Errorf("accept on %s: %w", ln.Addr(), err)
		}
	}
}

func (n *Server) forgetListener(ln net.Listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners = slices.DeleteFunc(n.listeners, func(l net.Listener) bool { return l == ln })
}

// Listeners returns the listeners that are served.
func (n *Server) Listeners() []net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.listeners)
}

// Handle serves a connection in the background.
func (n *Server) Handle(conn net.Conn) { n.handle(conn, false) }

// Dial connects within the process. The broker's own connections, which serve requests of the HTTP API, are marked: no
// limit applies to them.
func (n *Server) Dial(own bool) net.Conn {
	client, server := newPipe(n.pipes.Add(1))
	n.handle(server, own)
	return client
}

func (n *Server) handle(conn net.Conn, own bool) {
	if !n.Tasks.Enter() {
		_ = conn.Close()
		return
	}
	go func() {
		defer n.Tasks.Leave()
		c := newConnection(n, conn)
		c.own = own
		c.serve()
	}()
}

func (n *Server) join(c *Connection) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closing:
		return errors.New("the broker is closing")
	case n.failed != nil:
		return n.failed
	}
	n.connections[c] = struct{}{}
	return nil
}

func (n *Server) part(c *Connection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.connections, c)
}

// randomName returns a name like those of RabbitMQ: a prefix and 22 characters that cannot be guessed.
func randomName(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// EachUnacked visits the unacked deliveries. The channel of a delivery is locked meanwhile.
func (n *Server) EachUnacked(visit func(*node.Queue, queue.Item)) {
	n.eachChannel(func(ch *Channel) {
		ch.mu.Lock()
		defer ch.mu.Unlock()
		for _, d := range ch.unackedList.entries[ch.unackedList.first:] {
			if !d.settled {
				visit(d.queue, d.item)
			}
		}
	})
}

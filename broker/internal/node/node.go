// Package node is an AMQP 0-9-1 broker in one process: virtual hosts, users, connections, channels, and how messages
// go from exchanges to queues, to consumers, and when they die to other exchanges.
package node

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
)

// Config is how a node behaves. Every field has a value.
type Config struct {
	// Dir is where durable things are kept; empty: nowhere.
	Dir    string
	Store  store.Options
	Compat Compat
	// Name of the node and of its cluster, in the server properties.
	Name    string
	Version string
	// Users that exist beside those that were added while running and are kept in Dir.
	Users []User
	// FrameMax and ChannelMax are offered to clients.
	FrameMax   int
	ChannelMax int
	// Heartbeat is offered to clients; 0: none.
	Heartbeat time.Duration
	// HandshakeLimit bounds the time until a connection is open.
	HandshakeLimit time.Duration
	// MaxMessage is the largest body that is taken.
	MaxMessage int
	// MemoryLimit is how much memory messages, queues, exchanges, bindings and consumers may take before publishers are blocked. Messages that are not
	// complete or not committed may take about half of it, or as much as one of MaxMessage.
	MemoryLimit int64
	// Resident is how many bytes of messages that are on disk are also kept in memory.
	Resident int64
	// ConsumerTimeout closes a channel that has held a delivery for so long; 0: never.
	ConsumerTimeout time.Duration
	// MaxConnections bounds the connections; 0: as many as there is room for.
	MaxConnections int
	// Failed is called once if the disk fails: nothing is confirmed any more, and Close is all that is left to do. Nil: nobody is told.
	Failed func(error)
	Logger *slog.Logger
	// wall is the wall clock, which tests set. Nil: that of the system.
	wall func() time.Time
}

// Node is a running broker.
type Node struct {
	config      Config
	log         *slog.Logger
	store       *store.Store // nil: nothing is durable
	budget      queue.Budget
	memory      memory
	hoards      hoards
	calendar    calendar // of the log
	began       time.Time
	opened      atomic.Bool     // before that nobody waits for the disk
	stopping    chan struct{}   // closed when Close begins
	life        context.Context // ends when Close begins, or when the log fails
	end         context.CancelFunc
	tasks       tasks
	alarms      alarms
	faults      faults
	commits     commits
	tally       tally
	queues      atomic.Uint64 // made so far, if there is no log to number them
	batches     sync.Pool
	recent      recent
	latest      atomic.Uint64 // mark of the log
	steps       atomic.Uint64 // of dead letters
	permissions atomic.Uint64 // changes of what users may do
	pipes       atomic.Uint64 // made so far
	census      census

	mu          sync.Mutex
	vhosts      map[string]*Vhost
	users       map[string]*User
	connections map[*Connection]struct{}
	replies     map[string]*replies
	globals     map[string]json.RawMessage // global parameters
	listeners   []net.Listener
	closing     bool
	closed      sync.Once
	closeError  error
	failed      error
}

// Open starts a node, with what it finds in its directory.
func Open(c Config) (*Node, error) {
	n := &Node{config: c, log: c.Logger, began: time.Now(), vhosts: make(map[string]*Vhost), users: make(map[string]*User),
		connections: make(map[*Connection]struct{}), replies: make(map[string]*replies), globals: make(map[string]json.RawMessage)}
	n.census.init()
	n.budget.Limit = c.Resident
	n.memory.percent = heapPercent()
	n.life, n.end = context.WithCancel(context.Background())
	n.batches.New = func() any { return new(store.Batch) }
	n.stopping = make(chan struct{})
	n.tasks.init()
	n.alarms.init(n)
	n.hoards.init(n)
	if c.Dir != "" {
		if err := n.openStore(); err != nil {
			return nil, err
		}
	}
	if err := n.seed(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	n.opened.Store(true)
	if n.store != nil {
		n.calendar.watch()
	}
	return n, nil
}

// seed makes what every broker has.
func (n *Node) seed() error {
	for _, u := range n.config.Users {
		// Those that are given are never on disk, and go before those that are: who changes or removes them here has done so.
		ready, err := u.ready()
		if err != nil {
			return err
		}
		ready.given = true
		n.mu.Lock()
		n.users[u.Name] = ready
		n.mu.Unlock()
	}
	if n.Vhost("/") == nil {
		if err := n.AddVhost("/"); err != nil {
			return err
		}
	}
	return nil
}

// clock tells the time since the node began. It never goes back.
func (n *Node) clock() time.Duration { return time.Since(n.began) + 1 }

// Serve takes connections from a listener until it is closed, the context ends or the disk fails.
func (n *Node) Serve(ctx context.Context, ln net.Listener) error {
	if !n.tasks.enter() {
		return net.ErrClosed
	}
	defer n.tasks.leave()
	n.mu.Lock()
	n.listeners = append(n.listeners, ln)
	failed := n.failed
	n.mu.Unlock()
	if failed != nil {
		_ = ln.Close()
	}
	defer n.forgetListener(ln)
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	ended := n.tasks.atEnd(func() { _ = ln.Close() })
	defer ended()
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
		case n.tasks.ended():
			return net.ErrClosed
		case n.Failed() != nil:
			return n.Failed()
		case errors.As(err, &temporary) && temporary.Temporary():
			// Out of file descriptors, most often: it passes when somebody goes.
			n.log.Warn("accept a connection", "error", err, "again in", pause)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			case <-n.stopping:
			}
			pause = min(2*pause, time.Second)
		default:
			return fmt.Errorf("accept on %s: %w", ln.Addr(), err)
		}
	}
}

func (n *Node) forgetListener(ln net.Listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners = slices.DeleteFunc(n.listeners, func(l net.Listener) bool { return l == ln })
}

// Listeners returns those that are served.
func (n *Node) Listeners() []net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.listeners)
}

// Handle serves a connection in the background.
func (n *Node) Handle(conn net.Conn) { n.handle(conn, false) }

// Dial connects within the process. The broker's own connections, by which it does what somebody asks for elsewhere, are told apart from those of clients
// and count for no limit.
func (n *Node) Dial(own bool) net.Conn {
	client, server := newPipe(n.pipes.Add(1))
	n.handle(server, own)
	return client
}

func (n *Node) handle(conn net.Conn, own bool) {
	if !n.tasks.enter() {
		_ = conn.Close()
		return
	}
	go func() {
		defer n.tasks.leave()
		c := newConnection(n, conn)
		c.own = own
		c.serve()
	}()
}

// Close ends all connections and waits until everything has ended and is on disk.
func (n *Node) Close() error {
	n.closed.Do(func() { n.closeError = n.close() })
	return n.closeError
}

func (n *Node) close() error {
	n.mu.Lock()
	n.closing = true
	connections := slices.Collect(maps.Keys(n.connections))
	n.mu.Unlock()
	close(n.stopping)
	for _, c := range connections {
		c.shutdown("broker shut down")
	}
	patience := time.AfterFunc(closeLimit, n.end) // for those who wait for a disk that is full
	n.tasks.end()
	patience.Stop()
	n.end()
	n.alarms.stop()
	n.hoards.stop()
	for _, v := range n.Vhosts() {
		for _, q := range v.Queues() {
			q.Stop()
		}
	}
	if n.store != nil {
		n.calendar.end()
		return n.store.Close()
	}
	return nil
}

// fail ends the node's work when its disk has failed: nothing can be confirmed any more.
func (n *Node) fail(err error) {
	err = fmt.Errorf("the log in %s cannot be written, and nothing is confirmed any more: %w; see to the disk and start the broker again", n.config.Dir, err)
	n.mu.Lock()
	first := n.failed == nil
	if first {
		n.failed = err
	}
	connections := slices.Collect(maps.Keys(n.connections))
	listeners := slices.Clone(n.listeners)
	n.mu.Unlock()
	if !first {
		return
	}
	n.log.Error("the broker has failed", "error", err)
	if n.config.Failed != nil {
		n.config.Failed(err)
	}
	n.end()
	n.SetAlarm(FailedAlarm, true)
	for _, ln := range listeners {
		_ = ln.Close()
	}
	for _, c := range connections {
		c.shutdown("the broker's disk has failed")
	}
}

// Failed returns why the node has stopped working, or nil.
func (n *Node) Failed() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed
}

func (n *Node) join(c *Connection) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closing:
		return errors.New("the broker is closing")
	case n.failed != nil:
		return n.failed
	case n.config.MaxConnections > 0 && len(n.connections) >= n.config.MaxConnections:
		return fmt.Errorf("the broker has %d connections, which is its limit", len(n.connections))
	}
	n.connections[c] = struct{}{}
	return nil
}

func (n *Node) part(c *Connection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.connections, c)
}

// randomName makes names as RabbitMQ does: a prefix and 22 characters that nobody can guess.
func randomName(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// Closed reports whether Close was called.
func (n *Node) Closed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closing
}

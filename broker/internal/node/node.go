// Package node is the state of a broker: virtual hosts, exchanges, queues, policies, users, the log, and how messages
// go from exchanges to queues and, when they are dead-lettered, to other exchanges.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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
	// ConsumerTimeout closes a channel that has held a delivery for this long; 0: never.
	ConsumerTimeout time.Duration
	// MaxConnections bounds the connections; 0: as many as there is room for.
	MaxConnections int
	// Failed is called once if the disk fails: nothing is confirmed any more, and Close is all that is left to do. Nil: it is only logged.
	Failed func(error)
	Logger *slog.Logger
	// wall is the wall clock, which tests set. Nil: that of the system.
	wall func() time.Time
}

// CloseLimit is how long a connection that is being closed is waited for: for connection.close-ok, for the client to
// read what was last written, and for it to close the socket.
const CloseLimit = 5 * time.Second

// Node is a running broker.
type Node struct {
	Config         Config
	Log            *slog.Logger
	Store          *store.Store // nil: nothing is durable
	budget         queue.Budget
	MemoryUse      memoryUse
	logClock       logClock // of the log
	began          time.Time
	opened         atomic.Bool     // before that nobody waits for the disk
	Stopping       chan struct{}   // closed when Close begins
	Context        context.Context // ends when Close begins, or when the log fails
	end            context.CancelFunc
	Tasks          tasks
	ResourceAlarms resourceAlarms
	Counters       counters
	queues         atomic.Uint64 // made so far, if there is no log to number them
	batches        sync.Pool
	contentCache   contentCache
	Latest         atomic.Uint64 // mark of the log
	steps          atomic.Uint64 // of dead letters
	permissions    atomic.Uint64 // changes of what users may do
	clients        Clients

	mu         sync.Mutex
	vhosts     map[string]*Vhost
	users      map[string]*User
	globals    map[string]json.RawMessage // global parameters
	closing    bool
	closed     sync.Once
	closeError error
	failed     error
}

// Clients is what a node knows of the clients that are connected to it.
type Clients interface {
	// Shutdown closes all connections for good.
	Shutdown(reason string)
	// DiskFailed closes all connections for good because the log cannot be written.
	DiskFailed(err error)
	// CloseConnections closes those that are chosen.
	CloseConnections(reason string, chosen func(user string, v *Vhost) bool)
	// AlarmChanged is called when publishers are to be blocked, or no longer.
	AlarmChanged(which Alarm, raised bool)
	// MemoryShort is called when the alarm for memory is raised.
	MemoryShort()
	// Synced is called when the log is on disk up to a mark.
	Synced(mark store.Mark)
	// EachUnacked visits the deliveries that clients have not settled.
	EachUnacked(visit func(*Queue, queue.Item))
}

// Open starts a node, with what it finds in its directory. Its clients are attached before anything happens.
func Open(c Config, attach func(*Node) Clients) (*Node, error) {
	n := &Node{Config: c, Log: c.Logger, began: time.Now(), vhosts: make(map[string]*Vhost), users: make(map[string]*User),
		globals: make(map[string]json.RawMessage)}
	n.budget.Limit = c.Resident
	n.MemoryUse.percent = heapPercent()
	n.Context, n.end = context.WithCancel(context.Background())
	n.batches.New = func() any { return new(store.Batch) }
	n.Stopping = make(chan struct{})
	n.Tasks.init()
	n.ResourceAlarms.init(n)
	n.clients = attach(n)
	if c.Dir != "" {
		if err := n.openStore(); err != nil {
			return nil, err
		}
	}
	if err := n.seed(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	n.opened.Store(true)
	if n.Store != nil {
		n.logClock.watch()
	}
	return n, nil
}

// seed makes what every broker has.
func (n *Node) seed() error {
	for _, u := range n.Config.Users {
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

// Clock tells the time since the node began. It never goes back.
func (n *Node) Clock() time.Duration { return time.Since(n.began) + 1 }

// Close ends all connections and waits until everything has ended and is on disk.
func (n *Node) Close() error {
	n.closed.Do(func() { n.closeError = n.close() })
	return n.closeError
}

func (n *Node) close() error {
	n.mu.Lock()
	n.closing = true
	n.mu.Unlock()
	close(n.Stopping)
	n.clients.Shutdown("broker shut down")
	patience := time.AfterFunc(CloseLimit, n.end) // for those who wait for a disk that is full
	n.Tasks.end()
	patience.Stop()
	n.end()
	n.ResourceAlarms.stop()
	for _, v := range n.Vhosts() {
		for _, q := range v.Queues() {
			q.Stop()
		}
	}
	if n.Store != nil {
		n.logClock.end()
		return n.Store.Close()
	}
	return nil
}

// fail ends the node's work when its disk has failed: nothing can be confirmed any more.
func (n *Node) fail(err error) {
	err = fmt.Errorf("the log in %s cannot be written, and nothing is confirmed any more: %w; fix the disk and restart the broker", n.Config.Dir, err)
	n.mu.Lock()
	first := n.failed == nil
	if first {
		n.failed = err
	}
	n.mu.Unlock()
	if !first {
		return
	}
	n.Log.Error("broker failed", "error", err)
	if n.Config.Failed != nil {
		n.Config.Failed(err)
	}
	n.end()
	n.SetAlarm(FailedAlarm, true)
	n.clients.DiskFailed(err)
}

// Failed returns why the node has stopped working, or nil.
func (n *Node) Failed() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed
}

// FailDisk has the log fail, as it does when a write or a sync has failed. A node without a log goes on.
func (n *Node) FailDisk(err error) {
	if n.Store != nil {
		n.Store.Fail(err)
	}
}

// Closed reports whether Close was called.
func (n *Node) Closed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closing
}

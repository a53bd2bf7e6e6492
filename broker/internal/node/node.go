// Package node is the state of a broker: virtual hosts, exchanges, queues, policies, users and the log. It routes
// messages from exchanges to queues and, when they are dead-lettered, to other exchanges.
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
	"github.com/rehop/rehop/internal/throttle"
)

// DefaultChannelMax is how many channels a connection can have by default, as in RabbitMQ.
const DefaultChannelMax = 2047

// Config is the configuration of a node. Every field has a value.
type Config struct {
	// Dir is the directory for durable data; empty: nothing is durable.
	Dir    string
	Store  store.Options
	Compat Compat
	// Name of the node and of its cluster, in the server properties.
	Name    string
	Version string
	// Users in addition to those that were added while running and are kept in Dir.
	Users []User
	// DefaultUser exists until somebody changes or deletes it. Nil: there is none.
	DefaultUser *User
	// FrameMax and ChannelMax are offered to clients.
	FrameMax   int
	ChannelMax int
	// Heartbeat is offered to clients; 0: none.
	Heartbeat time.Duration
	// MaxMessage is the largest accepted body.
	MaxMessage int
	// MemoryLimit is how much memory messages, queues, exchanges, bindings and consumers may use before publishers are
	// blocked. Messages that are not complete or not committed may use about half of it, or one MaxMessage.
	MemoryLimit int64
	// MessageCache is how many bytes of messages that are on disk are also kept in memory.
	MessageCache int64
	// ConsumerTimeout is how long a delivery may be unacked; 0: no limit.
	ConsumerTimeout time.Duration
	// MaxConnections is the limit of connections that have logged in; 0: no limit.
	MaxConnections int
	// MaxHandshakes is the limit of those that have not; 0: no limit.
	MaxHandshakes int
	// Failed is called once if the disk fails. Nothing is confirmed any more, and the node can only be closed.
	// Nil: the error is only logged.
	Failed func(error)
	Logger *slog.Logger
	// wall is the wall clock, for tests. Nil: that of the system.
	wall func() time.Time
}

// CloseLimit is how long the broker waits for a client while it closes a connection: for connection.close-ok, until the
// client has read the last bytes, and until it has closed the socket.
const CloseLimit = 5 * time.Second

// Node is a running broker.
type Node struct {
	Config         Config
	Log            *slog.Logger
	Store          *store.Store // nil: nothing is durable
	budget         queue.Budget
	MemoryUse      memoryUse
	logClock       logClock
	began          time.Time
	opened         atomic.Bool     // before that, nothing waits for the disk
	Stopping       context.Context // ends when Close begins
	stop           context.CancelFunc
	Context        context.Context // ends when all connections are closed, or when the log fails
	end            context.CancelFunc
	Tasks          tasks
	ResourceAlarms resourceAlarms
	Counters       counters
	queues         atomic.Uint64 // created so far, if there is no log to number them
	batches        sync.Pool
	contentCache   contentCache
	Latest         atomic.Uint64 // mark of the log
	steps          atomic.Uint64 // of dead letters
	permissions    atomic.Uint64 // number of changes of permissions
	clients        Clients
	logins         *throttle.Logins
	throttled      sparseLog

	mu         sync.Mutex
	vhosts     map[string]*Vhost
	users      map[string]*User
	globals    map[string]json.RawMessage // global parameters
	closing    bool
	closed     sync.Once
	closeError error
	failed     error
}

// Clients are the connected clients of a node.
type Clients interface {
	// Shutdown closes all connections and accepts no more.
	Shutdown(reason string)
	// DiskFailed closes all connections and accepts no more because the log cannot be written.
	DiskFailed(err error)
	// CloseConnections closes the chosen connections.
	CloseConnections(reason string, chosen func(user string, v *Vhost) bool)
	// AlarmChanged is called when publishers become blocked or unblocked.
	AlarmChanged(which Alarm, raised bool)
	// MemoryShort is called when the alarm for memory is raised.
	MemoryShort()
	// Synced is called when the log is on disk up to a mark.
	Synced(mark store.Mark)
	// EachUnacked visits the deliveries that clients have not settled.
	EachUnacked(visit func(*Queue, queue.Item))
}

// Open starts a node with the data in its directory. It calls attach before anything happens.
func Open(c Config, attach func(*Node) Clients) (*Node, error) {
	n := &Node{Config: c, Log: c.Logger, began: time.Now(), vhosts: make(map[string]*Vhost), users: make(map[string]*User),
		globals: make(map[string]json.RawMessage), logins: throttle.New()}
	n.Counters.letters, n.Counters.queues = make(map[DeadLetters]uint64), make(map[queue.Type]queue.Totals)
	n.budget.Limit = c.MessageCache
	n.MemoryUse.percent = heapPercent()
	n.Stopping, n.stop = context.WithCancel(context.Background())
	n.Context, n.end = context.WithCancel(context.Background())
	n.batches.New = func() any { return new(store.Batch) }
	n.Tasks.idle.L = &n.Tasks.mu
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

// seed creates what every broker has.
func (n *Node) seed() error {
	for _, u := range n.Config.Users {
		if err := n.seedUser(u, false); err != nil {
			return err
		}
	}
	if err := n.seedDefault(); err != nil {
		return err
	}
	return n.AddVhost("/")
}

// Clock returns the time since the node began. It never goes back.
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
	n.stop()
	n.clients.Shutdown("broker shut down")
	timeout := time.AfterFunc(CloseLimit, n.end) // for tasks that wait for a full disk
	n.Tasks.end()
	timeout.Stop()
	n.end()
	n.ResourceAlarms.stop()
	for q := range n.Queues() {
		q.Stop()
	}
	if n.Store != nil {
		n.logClock.end()
		return n.Store.Close()
	}
	return nil
}

// fail stops the node when its disk has failed: nothing can be confirmed any more.
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

// FailDisk makes the log fail as if a write or a sync had failed. A node without a log is not affected.
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

// Package broker is an AMQP 0-9-1 broker with RabbitMQ's semantics for one process: for a first try, one small machine, and tests.
package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/internal/node"
	"github.com/rehop/rehop/internal/node/store"
)

// Server is a broker. Its zero value works: everything is in memory, and the user guest with the password guest may do
// everything, from this machine alone. The fields must not change once it is used.
type Server struct {
	// Dir is the directory for durable queues and their messages; one process at a time can use it.
	// Default: nothing is kept.
	Dir string
	// Sync says when a message is safe and confirmed. Default: SyncAlways.
	Sync Sync
	// DiskReserve is how many bytes of the disk stay free: with less, publishers are blocked; negative: none. Default: 64 MiB.
	DiskReserve int64
	// Compat is the release of RabbitMQ whose rules apply where releases differ. Default: DefaultCompat.
	Compat Compat
	// Users who may log in, beside those that were added while running and are kept in Dir.
	// Default: guest, as above.
	Users []User
	// TLS makes Serve speak TLS; versions below 1.2 are never used. Clients with a certificate that it verifies may
	// log in by it (EXTERNAL). Default: plain TCP.
	TLS *tls.Config
	// Name is shown to clients as the name of the cluster. Default: "rehop".
	Name string
	// FrameMax is the largest frame that is offered. Default: 128 KiB.
	FrameMax int
	// ChannelMax is how many channels a connection may have. Default: 2047.
	ChannelMax int
	// Heartbeat is offered to clients; negative: none. Default: 60 s.
	Heartbeat time.Duration
	// MaxMessage is the largest body that is taken. Default: 16 MiB, as in RabbitMQ 4.
	MaxMessage int
	// MaxConnections bounds the connections. Default: unbounded.
	MaxConnections int
	// MemoryLimit is how much memory messages, queues, exchanges, bindings and consumers may take, with what the garbage collector needs on top; with
	// more, publishers are blocked. With half of it in use by queues, exchanges and bindings, nothing more can be declared or bound. With a quarter in use by
	// consumers, only a queue that has none gets one more. Messages that are not complete and transactions that are not committed may take half of it
	// together, or as much as one message of MaxMessage; a publisher that finds no room waits for others, and one that does not complete its message
	// while others wait is closed.
	// Default: two fifths of the memory of the machine, of its control group or of GOMEMLIMIT, whatever is least; 1 GiB where that is unknown.
	MemoryLimit int64
	// Resident is how many bytes of messages that are on disk stay in memory too, so that consumers get them without reading the disk. When memory is
	// short they leave it, before publishers are blocked. Default: 32 MiB, or an eighth of MemoryLimit if that is less.
	Resident int64
	// ConsumerTimeout is how long a consumer may hold a delivery without an answer. Then the delivery returns to its queue: RabbitMQ 4.3
	// cancels consumers of quorum queues, earlier releases close the channel. Negative: without limit. Default: 30 min.
	ConsumerTimeout time.Duration
	// Logger gets what nobody can be told otherwise. Default: slog.Default().
	Logger *slog.Logger

	once sync.Once
	node atomic.Pointer[node.Node] // for those who look before it was opened
	err  error
	end  ending
}

// ErrClosed is what Err returns after Close.
var ErrClosed = errors.New("the server is closed")

// Sync says when a message is safe.
type Sync = store.SyncMode

const (
	// SyncAlways confirms a message when it is on disk; it survives a power cut.
	SyncAlways = store.SyncAlways
	// SyncNever confirms a message when it is with the operating system: it survives the end of the process, also by
	// kill -9, but the last seconds before a power cut are lost.
	SyncNever = store.SyncNever
)

// Compat is a release of RabbitMQ.
type Compat = node.Compat

// The releases between which rules have changed.
const (
	RabbitMQ310 = node.RabbitMQ310
	RabbitMQ313 = node.RabbitMQ313
	RabbitMQ40  = node.RabbitMQ40
	RabbitMQ43  = node.RabbitMQ43
)

// DefaultCompat is the release that a Server follows unless Compat says otherwise.
const DefaultCompat = RabbitMQ43

// ParseCompat reads the name of a release, such as 4.3.
func ParseCompat(name string) (Compat, error) { return node.ParseCompat(name) }

// User may log in.
type User = node.User

// Permission is what a user may do in a virtual host, as patterns of names.
type Permission = node.Permission

// TopicPermission is with which routing keys a user may publish to a topic exchange, and bind to it.
type TopicPermission = node.TopicPermission

// Limits bound what a user may have at a time: max-connections and max-channels.
type Limits = node.Limits

// Start opens the directory. Serve and Dial do it when it was not called.
func (s *Server) Start() error {
	s.once.Do(func() {
		n, err := s.open()
		if err != nil {
			s.err = err
			s.end.come(err)
			return
		}
		s.node.Store(n)
	})
	return s.err
}

func (s *Server) open() (*node.Node, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	config.Failed = s.end.come
	return node.Open(config)
}

// Done returns a channel that is closed when the server no longer works: it could not be started, its disk has failed, or it was
// closed. Err says which. A program that has nothing else to do when its broker has failed ends with that error, and is started again by what
// supervises it:
//
//	select {
//	case <-server.Done():
//		return server.Err()
//	case <-ctx.Done():
//		return server.Close()
//	}
func (s *Server) Done() <-chan struct{} { return s.end.done() }

// Err returns why the server no longer works, or nil as long as it does. After a write or a sync has failed, nothing is confirmed, all
// connections are closed and none is taken: Close the server, and start another when the disk is well. After Close without such a failure it
// is ErrClosed.
func (s *Server) Err() error { return s.end.why() }

// ending is when and why a server has stopped working.
type ending struct {
	mu   sync.Mutex
	over chan struct{}
	err  error
}

func (e *ending) done() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.channel()
}

// channel makes the channel when it is first needed, because a Server has no constructor. The mutex is held.
func (e *ending) channel() chan struct{} {
	if e.over == nil {
		e.over = make(chan struct{})
	}
	return e.over
}

// come notes the end. Only the first reason counts.
func (e *ending) come(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = why
		close(e.channel())
	}
}

func (e *ending) why() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// config fills in the defaults and reports all faults at once.
func (s *Server) config() (node.Config, error) {
	var faults []error
	compat := cmp.Or(s.Compat, DefaultCompat)
	if !compat.Known() {
		return node.Config{}, fmt.Errorf("the Compat %d is none of the releases", int(s.Compat))
	}
	for _, f := range []struct {
		name     string
		value    int
		low, top int
	}{{"FrameMax", cmp.Or(s.FrameMax, 128<<10), compat.SmallestFrame(), 1 << 30}, {"ChannelMax", cmp.Or(s.ChannelMax, 2047), 1, 65535},
		{"MaxMessage", cmp.Or(s.MaxMessage, 16<<20), 1, 512 << 20}, {"MaxConnections", s.MaxConnections, 0, 1 << 30}} {
		if f.value < f.low || f.value > f.top {
			faults = append(faults, fmt.Errorf("%s %d must be from %d to %d", f.name, f.value, f.low, f.top))
		}
	}
	if s.Sync != SyncAlways && s.Sync != SyncNever {
		faults = append(faults, fmt.Errorf("the Sync %d is neither SyncAlways nor SyncNever", int(s.Sync)))
	}
	if s.Heartbeat > 65535*time.Second {
		faults = append(faults, fmt.Errorf("the Heartbeat %v must be at most 65535 s", s.Heartbeat))
	}
	if s.MemoryLimit < 0 || s.Resident < 0 {
		faults = append(faults, errors.New("MemoryLimit and Resident must not be negative"))
	}
	memoryLimit := cmp.Or(s.MemoryLimit, node.DefaultMemoryLimit())
	users := s.Users
	if len(users) == 0 {
		users = []User{{Name: "guest", Password: "guest", Tags: []string{"administrator"}, LoopbackOnly: true,
			Permissions: map[string]Permission{"*": node.Everything()}}}
	}
	logger := s.Logger
	if logger == nil {
		logger = slog.Default()
	}
	return node.Config{
		Dir: s.Dir, Store: store.Options{Sync: s.Sync, DiskReserve: s.DiskReserve}, Compat: compat,
		Name: cmp.Or(s.Name, "rehop"), Version: compat.Release(), Users: users,
		FrameMax: cmp.Or(s.FrameMax, 128<<10), ChannelMax: cmp.Or(s.ChannelMax, 2047), Heartbeat: max(cmp.Or(s.Heartbeat, time.Minute), 0),
		HandshakeLimit: 10 * time.Second, MaxMessage: cmp.Or(s.MaxMessage, 16<<20), MaxConnections: s.MaxConnections,
		MemoryLimit: memoryLimit, Resident: cmp.Or(s.Resident, min(32<<20, memoryLimit/8)),
		ConsumerTimeout: max(cmp.Or(s.ConsumerTimeout, 30*time.Minute), 0), Logger: logger,
	}, errors.Join(faults...)
}

// Serve takes connections from a listener until the context ends, the server is closed or its disk fails. It closes the listener.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if err := s.Start(); err != nil {
		_ = ln.Close()
		return err
	}
	if s.TLS != nil {
		config := s.TLS.Clone()
		config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
		ln = tls.NewListener(ln, config)
	}
	return s.node.Load().Serve(ctx, ln)
}

// Dial connects to the server inside this process. Its form is that of rehop's Config.Dial; network and address
// do not matter.
func (s *Server) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := s.Start(); err != nil {
		return nil, err
	}
	return s.node.Load().Dial(false), ctx.Err()
}

// Close ends all connections, after telling the clients, and returns when everything that the server has started has ended
// and everything is on disk.
func (s *Server) Close() error {
	s.once.Do(func() { s.err = ErrClosed })
	defer s.end.come(ErrClosed)
	if n := s.node.Load(); n != nil {
		return n.Close()
	}
	return nil
}

// Node is the engine, for packages of this module.
func (s *Server) Node() (*node.Node, error) {
	if err := s.Start(); err != nil {
		return nil, err
	}
	return s.node.Load(), nil
}

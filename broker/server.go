// Package broker is an AMQP 0-9-1 broker with RabbitMQ's semantics that runs inside a Go process: for development, for
// one small machine, and for tests.
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

	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/session"
	"github.com/rehop/rehop/broker/internal/store"
)

// Server is a broker. Its zero value works: everything is in memory, and the user guest with the password guest may do
// everything, from this machine only. The fields must not change once the server is used.
type Server struct {
	// Dir is the directory for durable queues and their messages. Only one process at a time can use it.
	// Default: nothing is kept.
	Dir string
	// Sync is when a message is confirmed. Default: SyncAlways.
	Sync Sync
	// DiskReserve is how many bytes of the disk stay free: with less, publishers are blocked; negative: none.
	// Default: 64 MiB.
	DiskReserve int64
	// Compat is the release of RabbitMQ whose rules apply where releases differ. Default: DefaultCompat.
	Compat Compat
	// Users who may log in, in addition to those that were added while running and are kept in Dir.
	// Default: guest, as above.
	Users []User
	// TLS makes Serve use TLS; versions below 1.2 are never used. Clients with a certificate that it verifies can log
	// in with it (EXTERNAL). Default: plain TCP.
	TLS *tls.Config
	// Name is shown to clients as the name of the cluster. Default: "rehop".
	Name string
	// FrameMax is the largest frame that is offered to clients. Default: 128 KiB.
	FrameMax int
	// ChannelMax is how many channels a connection may have. Default: 2047.
	ChannelMax int
	// Heartbeat is offered to clients; negative: none. Default: 60 s.
	Heartbeat time.Duration
	// MaxMessage is the largest body that is accepted. Default: 16 MiB, as in RabbitMQ 4.
	MaxMessage int
	// MaxConnections is how many connections the server accepts. Default: no limit.
	MaxConnections int
	// MemoryLimit is how much memory messages, queues, exchanges, bindings and consumers may use, including what the
	// garbage collector needs; with more, publishers are blocked. When queues, exchanges and bindings use half of it,
	// nothing more can be declared or bound. When consumers use a quarter of it, only a queue without a consumer gets
	// one more. Incomplete messages and uncommitted transactions may use half of it together, or as much as one
	// message of MaxMessage; a publisher that finds no room waits for others, and one that does not complete its
	// message while others wait is closed.
	// Default: two fifths of the memory of the machine, of its control group or of GOMEMLIMIT, whichever is least;
	// 1 GiB where that is unknown.
	MemoryLimit int64
	// Resident is how many bytes of messages that are on disk stay in memory too, so that consumers get them without
	// reading the disk. When memory is short they are dropped from memory before publishers are blocked.
	// Default: 32 MiB, or an eighth of MemoryLimit if that is less.
	Resident int64
	// ConsumerTimeout is how long a delivery may be unacked. Then it returns to its queue: RabbitMQ 4.3 cancels
	// consumers of quorum queues, earlier releases close the channel. Negative: no limit. Default: 30 min.
	ConsumerTimeout time.Duration
	// Logger receives what no client can be told. Default: slog.Default().
	Logger *slog.Logger

	once sync.Once
	node atomic.Pointer[session.Server] // nil until it is started
	err  error
	end  ending
}

// ErrClosed is what Err returns after Close.
var ErrClosed = errors.New("the server is closed")

// Sync is when a message is confirmed.
type Sync int

const (
	// SyncAlways confirms a message when it is on disk. It survives a power cut.
	SyncAlways = Sync(store.SyncAlways)
	// SyncNever confirms a message when the operating system has it: it survives the end of the process, also by
	// kill -9, but the last seconds before a power cut are lost.
	SyncNever = Sync(store.SyncNever)
)

// Start opens the directory. Serve and Dial call it.
func (s *Server) Start() error { return s.start(nil) }

// start starts the server, with its config changed by configure unless that is nil.
func (s *Server) start(configure func(*node.Config)) error {
	s.once.Do(func() {
		n, err := s.open(configure)
		if err != nil {
			s.err = withCorrupt(err)
			s.end.set(s.err)
			return
		}
		s.node.Store(n)
	})
	return s.err
}

func (s *Server) open(configure func(*node.Config)) (*session.Server, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	config.Failed = func(err error) { s.end.set(withCorrupt(err)) }
	if configure != nil {
		configure(&config)
	}
	return session.Open(config)
}

// The packages below this one reach the engine of a server through package access.
var _ = access.Provide(func(server any, configure func(*node.Config)) (*session.Server, error) {
	s := server.(*Server)
	if err := s.start(configure); err != nil {
		return nil, err
	}
	return s.node.Load(), nil
})

// Done returns a channel that is closed when the server no longer works: it could not be started, its disk has failed,
// or it was closed. Err returns which. A program that does nothing else should return that error, so that its
// supervisor starts it again:
//
//	select {
//	case <-server.Done():
//		return server.Err()
//	case <-ctx.Done():
//		return server.Close()
//	}
func (s *Server) Done() <-chan struct{} { return s.end.done() }

// Err returns why the server no longer works, or nil as long as it does. After a write or a sync has failed, nothing
// is confirmed, all connections are closed and none is accepted: Close the server, and start another one when the disk
// works again. After Close without such a failure it returns ErrClosed.
func (s *Server) Err() error { return s.end.reason() }

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

// set ends the server. Only the first reason counts.
func (e *ending) set(reason error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = reason
		close(e.channel())
	}
}

func (e *ending) reason() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// config fills in the defaults and reports all faults at once.
func (s *Server) config() (node.Config, error) {
	var faults []error
	compat := node.Compat(cmp.Or(s.Compat, DefaultCompat))
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
			Permissions: map[string]Permission{"*": Permission(node.Everything())}}}
	}
	logger := s.Logger
	if logger == nil {
		logger = slog.Default()
	}
	config := node.Config{
		Dir: s.Dir, Store: store.Options{Sync: store.SyncMode(s.Sync), DiskReserve: s.DiskReserve}, Compat: compat,
		Name: cmp.Or(s.Name, "rehop"), Version: compat.Release(),
		FrameMax: cmp.Or(s.FrameMax, 128<<10), ChannelMax: cmp.Or(s.ChannelMax, 2047), Heartbeat: max(cmp.Or(s.Heartbeat, time.Minute), 0),
		HandshakeLimit: 10 * time.Second, MaxMessage: cmp.Or(s.MaxMessage, 16<<20), MaxConnections: s.MaxConnections,
		MemoryLimit: memoryLimit, Resident: cmp.Or(s.Resident, min(32<<20, memoryLimit/8)),
		ConsumerTimeout: max(cmp.Or(s.ConsumerTimeout, 30*time.Minute), 0), Logger: logger,
	}
	for _, u := range users {
		config.Users = append(config.Users, u.internal())
	}
	return config, errors.Join(faults...)
}

// Serve accepts connections from a listener until the context ends, the server is closed or its disk fails. It closes
// the listener.
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
	return withCorrupt(s.node.Load().Serve(ctx, ln))
}

// Dial connects to the server inside this process. It has the signature of rehop's Config.Dial; network and address do
// not matter.
func (s *Server) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := s.Start(); err != nil {
		return nil, err
	}
	return s.node.Load().Dial(false), ctx.Err()
}

// Close sends connection.close to all clients, and returns when everything that the server has started has ended and
// everything is on disk.
func (s *Server) Close() error {
	s.once.Do(func() { s.err = ErrClosed })
	defer s.end.set(ErrClosed)
	if n := s.node.Load(); n != nil {
		return withCorrupt(n.Close())
	}
	return nil
}

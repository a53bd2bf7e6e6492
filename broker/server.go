// Package broker is an AMQP 0-9-1 broker that behaves like RabbitMQ and runs inside a Go process. Use it for
// development, for tests, and in production on one small machine.
package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/session"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/descriptors"
)

// Server is a broker. The zero value works: it keeps everything in memory, and the user guest with the password guest
// has all permissions, from this machine only. Set the fields before the first call of a method, and do not change them
// later.
type Server struct {
	// Dir is the directory for durable queues and persistent messages. It is created if it does not exist. Only one
	// process at a time can use it. Default: everything is in memory and is lost when the process ends.
	Dir string
	// Sync is when a message is confirmed. Change it if confirms are too slow, and the last seconds before a power
	// failure may be lost. It has no effect without Dir. Default: SyncAlways.
	Sync Sync
	// DiskReserve is how many bytes of the disk stay free. With less free space, publishers are blocked. A negative
	// value turns this off. Default: 64 MiB.
	DiskReserve int64
	// Compat is the release of RabbitMQ whose rules apply where releases differ. Set it to the release that your
	// program uses in production. Default: DefaultCompat.
	Compat Compat
	// Users can log in, in addition to users that were added while the server ran and are kept in Dir.
	// Default: guest, as described above, also if all users are InProcess. As in RabbitMQ, it can be changed and deleted
	// while the server runs, and Dir keeps that. With other users, a guest in Dir or in an import does not exist unless it
	// is one of Users.
	Users []User
	// Hosts are the names under which clients reach the HTTP API of package mgmt, in addition to IP addresses, localhost
	// and the name of this machine: "rehop.example", or "*.rehop.example" for all names below it. Requests for other
	// hosts are refused, because they can come from web pages whose name points to this machine. Default: none.
	Hosts []string
	// TLS makes Serve use TLS. Versions below 1.2 are never used. Clients with a verified certificate can log in with
	// it (EXTERNAL); the user is its common name. Set GetConfigForClient to replace certificates while the server runs.
	// Default: plain TCP.
	TLS *tls.Config
	// Name is the name of the node and of the cluster that clients see. Default: "rehop".
	Name string
	// FrameMax is the largest frame in bytes. Clients can choose a smaller one. Default: 128 KiB.
	FrameMax int
	// ChannelMax is how many channels a connection can have, at most 65535. Those of Dial can have at least 2047. Default: 2047.
	ChannelMax int
	// Heartbeat is the interval that the server suggests to clients. A negative value suggests none. Default: 60 s.
	Heartbeat time.Duration
	// MaxMessage is the largest accepted message body in bytes, at most 512 MiB. A larger one closes the channel.
	// Default: 16 MiB, as in RabbitMQ 4.
	MaxMessage int
	// MaxConnections is how many connections the server accepts. The login of more is refused (530). Those of Dial do not
	// count. Connections that have not logged in do not count either: there can be a quarter as many as this process can
	// have files, at most 2,048, and one more ends the oldest of them. Default: no limit.
	MaxConnections int
	// MemoryLimit is how many bytes messages, queues, exchanges, bindings and consumers may use, including what the
	// garbage collector needs. Lower it if other programs need the memory. Above the limit, publishers are blocked.
	// Parts of it have limits of their own:
	//
	//   - When queues, exchanges and bindings use half of it, no more can be declared or bound.
	//   - When consumers use a quarter of it, only queues without a consumer get one more.
	//   - The routes that connections remember take at most an eighth of it.
	//   - Incomplete messages and uncommitted transactions may use half of it together, or as much as one message of
	//     MaxMessage. Further publishers wait. While they wait, a connection that does not complete its message is
	//     closed.
	//
	// Default: two fifths of the memory of the machine, of its control group or of GOMEMLIMIT, whichever is least;
	// 1 GiB if that is unknown.
	MemoryLimit int64
	// MessageCache is how many bytes of stored messages stay in memory, so that they need not be read from disk for
	// consumers. When memory is short, the cache is emptied before publishers are blocked.
	// Default: 32 MiB, or an eighth of MemoryLimit if that is less.
	MessageCache int64
	// ConsumerTimeout is how long a delivery can be unacked. After that it returns to its queue: RabbitMQ 4.3 cancels
	// consumers of quorum queues, and earlier releases close the channel. A negative value is no limit.
	// Default: 30 min.
	ConsumerTimeout time.Duration
	// Logger receives errors and warnings, and the ends of connections. Default: slog.Default().
	Logger *slog.Logger

	once sync.Once
	node atomic.Pointer[session.Server] // nil until it is started
	err  error

	lifetimeOnce sync.Once
	lifetime     context.Context // ends when the server no longer works; its cause is why
	end          context.CancelCauseFunc
}

// ErrClosed is the error of a server after Close.
var ErrClosed = errors.New("the server is closed")

// Sync is when a message is confirmed.
type Sync int

const (
	// SyncAlways confirms a message when it is on disk. A confirmed message survives a power failure.
	SyncAlways Sync = 0
	// SyncNever confirms a message when the operating system has it. A confirmed message survives the end of the
	// process, even by kill -9, but a power failure can lose the last seconds.
	SyncNever Sync = 1
)

// Start opens the directory and restores queues and messages. Serve and Dial call it, so that a program needs it only to
// get errors earlier. A second call returns the same result. It returns a *CorruptError if a file is damaged.
func (s *Server) Start() error { return s.start(nil) }

// start starts the server, with its config changed by configure unless that is nil.
func (s *Server) start(configure func(*node.Config)) error {
	s.once.Do(func() {
		n, err := s.open(configure)
		if err != nil {
			s.err = withCorrupt(err)
			s.stop(s.err)
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
	config.Failed = func(err error) { s.stop(withCorrupt(err)) }
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
// or it was closed. Err returns the reason. A program that only runs the server should return this error, so that its
// supervisor restarts it:
//
//	select {
//	case <-server.Done():
//		return server.Err()
//	case <-ctx.Done():
//		return server.Close()
//	}
func (s *Server) Done() <-chan struct{} { return s.context().Done() }

// Err returns why the server no longer works, or nil while it works. After a write or a sync has failed, the server
// confirms nothing, closes all connections and accepts no more: call Close, and start another server when the disk works
// again. After Close without such a failure, Err returns ErrClosed.
func (s *Server) Err() error { return context.Cause(s.context()) }

// context creates the context when it is first needed, because a Server has no constructor.
func (s *Server) context() context.Context {
	s.lifetimeOnce.Do(func() { s.lifetime, s.end = context.WithCancelCause(context.Background()) })
	return s.lifetime
}

// stop ends the lifetime. Only the first reason counts.
func (s *Server) stop(reason error) {
	_ = s.context()
	s.end(reason)
}

// config fills in the defaults and reports all faults at once.
func (s *Server) config() (node.Config, error) {
	compat := node.Compat(cmp.Or(s.Compat, DefaultCompat))
	if !compat.Known() {
		return node.Config{}, fmt.Errorf("unknown Compat %d: use one of the constants", int(s.Compat))
	}
	memoryLimit := cmp.Or(s.MemoryLimit, node.DefaultMemoryLimit())
	config := node.Config{
		Dir: s.Dir, Store: store.Options{Sync: store.SyncMode(s.Sync), DiskReserve: s.DiskReserve}, Compat: compat,
		Name: cmp.Or(s.Name, "rehop"), Version: compat.Release(),
		FrameMax: cmp.Or(s.FrameMax, 128<<10), ChannelMax: cmp.Or(s.ChannelMax, node.DefaultChannelMax), Heartbeat: max(cmp.Or(s.Heartbeat, time.Minute), 0),
		MaxMessage: cmp.Or(s.MaxMessage, 16<<20), MaxConnections: s.MaxConnections, MaxHandshakes: descriptors.Share(4, 16, 2048),
		MemoryLimit: memoryLimit, MessageCache: cmp.Or(s.MessageCache, min(32<<20, memoryLimit/8)),
		ConsumerTimeout: max(cmp.Or(s.ConsumerTimeout, 30*time.Minute), 0), Logger: cmp.Or(s.Logger, slog.Default()),
	}
	if !slices.ContainsFunc(s.Users, func(u User) bool { return !u.InProcess }) {
		config.DefaultUser = &node.User{Name: node.DefaultUser, Password: node.DefaultUser, Tags: []string{"administrator"}, LoopbackOnly: true,
			Permissions: map[string]node.Permission{"*": node.Everything()}}
	}
	for _, u := range s.Users {
		config.Users = append(config.Users, u.internal())
	}
	var faults []error
	for _, f := range []struct {
		name            string
		value, low, top int
	}{{"FrameMax", config.FrameMax, compat.SmallestFrame(), 1 << 30}, {"ChannelMax", config.ChannelMax, 1, 65535},
		{"MaxMessage", config.MaxMessage, 1, 512 << 20}, {"MaxConnections", s.MaxConnections, 0, 1 << 30}} {
		if f.value < f.low || f.value > f.top {
			faults = append(faults, fmt.Errorf("%s %d must be from %d to %d", f.name, f.value, f.low, f.top))
		}
	}
	if s.Sync != SyncAlways && s.Sync != SyncNever {
		faults = append(faults, fmt.Errorf("unknown Sync %d: use SyncAlways or SyncNever", int(s.Sync)))
	}
	if s.Heartbeat > 65535*time.Second {
		faults = append(faults, fmt.Errorf("the Heartbeat %v must be at most 65535 s", s.Heartbeat))
	}
	if s.MemoryLimit < 0 || s.MessageCache < 0 {
		faults = append(faults, errors.New("MemoryLimit and MessageCache must not be negative"))
	}
	return config, errors.Join(faults...)
}

// Serve accepts connections from a listener until the context ends, the server is closed or its disk fails. It returns
// the reason, and closes the listener. Connections stay open when the context ends: Close closes them. Serve can be
// called with several listeners at the same time.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if err := s.Start(); err != nil {
		_ = ln.Close()
		return err
	}
	if s.TLS != nil {
		ln = tls.NewListener(ln, withoutOldVersions(s.TLS))
	}
	return withCorrupt(s.node.Load().Serve(ctx, ln))
}

// withoutOldVersions returns a copy that allows no version below 1.2, also for clients that get a config of their own.
func withoutOldVersions(given *tls.Config) *tls.Config {
	config := given.Clone()
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	if choose := config.GetConfigForClient; choose != nil {
		config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			if err != nil || chosen == nil || chosen.MinVersion >= tls.VersionTLS12 {
				return chosen, err
			}
			return withoutOldVersions(chosen), nil
		}
	}
	return config
}

// Dial connects to the server within this process, without a network. It has the signature of rehop's Config.Dial, and
// ignores network and addr.
func (s *Server) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := s.Start(); err != nil {
		return nil, err
	}
	return s.node.Load().Dial(false), ctx.Err()
}

// Close sends connection.close to all clients. It returns when all goroutines of the server have ended and everything is
// on disk. A closed server cannot be started again.
func (s *Server) Close() error {
	s.once.Do(func() { s.err = ErrClosed })
	defer s.stop(ErrClosed)
	if n := s.node.Load(); n != nil {
		return withCorrupt(n.Close())
	}
	return nil
}

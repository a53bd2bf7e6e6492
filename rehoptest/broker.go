// Package rehoptest gives a test a broker of its own, inside the test's process, and a client of it.
//
// When the test ends, the client and the broker are closed, and the broker is checked: no message may be
// unacked, and every message must be accounted for. Everything also works in [testing/synctest], where a
// retry schedule of ten hours takes milliseconds:
//
//	func TestSchedule(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			b := rehoptest.Open(t)
//			_, err := b.Client.Subscribe(t.Context(), rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Hour, 10*time.Hour), Handler: h})
//			…
//			failed := b.AwaitFailed("q", 1) // eleven hours later
//		})
//	}
package rehoptest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/brokertest"
)

// Broker is a broker for one test, and a client of it. Its methods fail the test when something goes wrong, so
// call them on the test's own goroutine.
type Broker struct {
	// Client is closed, with its subscriptions, when the test ends.
	Client *rehop.Client

	t       testing.TB
	server  *broker.Server
	control *brokertest.Control
	network network
	changes signal
	timeout time.Duration
	virtual bool
}

// Option changes how a test's broker or client is set up.
type Option func(*setup)

type setup struct {
	server  broker.Server
	client  []func(*rehop.Config)
	timeout time.Duration
}

// WithConfig changes the config of the client that Open opens.
func WithConfig(change func(*rehop.Config)) Option {
	return func(s *setup) { s.client = append(s.client, change) }
}

// WithServer changes the broker before it starts.
func WithServer(change func(*broker.Server)) Option {
	return func(s *setup) { change(&s.server) }
}

// WithTimeout sets how long the Await methods wait before they fail the test. In synctest's virtual time, time
// in which messages wait on the broker does not count. Default: 30 s.
func WithTimeout(d time.Duration) Option {
	return func(s *setup) { s.timeout = d }
}

// Options makes one option of several.
func Options(options ...Option) Option {
	return func(s *setup) {
		for _, option := range options {
			option(s)
		}
	}
}

// heartbeat is long: within a process no connection is lost unnoticed, and heartbeats would be most of the
// work of a day of virtual time.
const heartbeat = 10 * time.Minute

// Open starts a broker, in memory unless WithServer sets a directory, and opens a client of it. Both are closed
// when the test ends.
func Open(t testing.TB, options ...Option) *Broker {
	t.Helper()
	s := setup{timeout: 30 * time.Second}
	s.server.Heartbeat = heartbeat
	s.server.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	Options(options...)(&s)
	b := &Broker{t: t, server: &s.server, timeout: s.timeout, virtual: virtual(time.Now())}
	b.changes.init()
	if err := s.server.Start(); err != nil {
		t.Fatalf("rehoptest: start the broker: %v", err)
	}
	t.Cleanup(b.close)
	var err error
	if b.control, err = brokertest.Open(&s.server); err != nil {
		t.Fatalf("rehoptest: %v", err)
	}
	b.network.init(s.server.Dial)
	config := b.Config()
	for _, change := range s.client {
		change(&config)
	}
	if b.Client, err = rehop.Open(t.Context(), config); err != nil {
		t.Fatalf("rehoptest: open a client: %v", err)
	}
	return b
}

// virtual reports whether a moment is synctest's: its clocks begin with the year 2000.
func virtual(now time.Time) bool { return now.Before(time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)) }

// Config is for further clients of the broker. Close them before the test ends, for example in t.Cleanup.
func (b *Broker) Config() rehop.Config {
	return rehop.Config{
		URL: "amqp://guest:guest@embedded/", Dial: b.network.dial, Name: b.t.Name(), Heartbeat: heartbeat, Hooks: []rehop.Hooks{b.changes.hooks()},
		Logger: slog.New(slog.NewTextHandler(b.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

// closeLimit is how long handlers may take to finish when the test is over.
const closeLimit = 10 * time.Second

// close ends all faults, because otherwise nothing could finish, then the client, then the broker.
func (b *Broker) close() {
	b.t.Helper()
	if b.control == nil {
		_ = b.server.Close()
		return
	}
	b.Up()
	b.network.closeSilent()
	b.Unblock()
	b.Refuse(nil)
	b.ReleaseConfirms()
	b.HoldConfirmsOf(nil)
	if b.Client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		if err := b.Client.Close(ctx); err != nil {
			b.t.Errorf("rehoptest: close the client: %v", err)
		}
	}
	b.check()
	if err := b.server.Close(); err != nil {
		b.t.Errorf("rehoptest: close the broker: %v", err)
	}
}

// check fails the test if a message is unacked or not accounted for.
func (b *Broker) check() {
	b.t.Helper()
	if left := b.clientsLeft(); len(left) > 0 {
		b.t.Errorf("rehoptest: clients are still connected, close them before the test ends: %s", strings.Join(left, ", "))
		return
	}
	if err := b.control.Check(); err != nil {
		b.t.Errorf("rehoptest: the check of the broker failed: %v", err)
	}
}

// clientsLeft waits a moment until the broker has noticed closed connections, and returns those that are open.
func (b *Broker) clientsLeft() []string {
	const polls = 100
	for poll := 1; ; poll++ {
		open := b.control.Connections()
		if len(open) == 0 || poll == polls {
			return open
		}
		time.Sleep(time.Duration(poll) * 100 * time.Microsecond)
	}
}

// queue returns a queue, or fails the test.
func (b *Broker) queue(name string) *brokertest.Queue {
	b.t.Helper()
	q := b.control.Queue(vhost, name)
	if q == nil {
		b.t.Fatalf("rehoptest: there is no queue %q; subscribe to it first. The broker has:\n%s", name, b)
	}
	return q
}

const vhost = "/"

// Depth returns how many messages of a queue are ready, and how many are unacked.
func (b *Broker) Depth(queue string) (ready, unacked int) {
	b.t.Helper()
	s := b.queue(queue).Counts()
	return s.Ready, s.Unacked
}

// String lists the queues that have messages or consumers, for the output of a failed test.
func (b *Broker) String() string {
	var list strings.Builder
	for _, q := range b.control.Queues(vhost) {
		if s := q.Counts(); s.Ready+s.Unacked+s.Consumers > 0 {
			fmt.Fprintf(&list, "  %s: %d ready, %d unacked, %d consumers\n", q.Name, s.Ready, s.Unacked, s.Consumers)
		}
	}
	if list.Len() == 0 {
		return "  no queue with messages or consumers\n"
	}
	return list.String()
}

package sqlbox

import (
	"context"
	"database/sql"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/internal/conformance/await"
	"github.com/rehop/rehop/outbox"
	"github.com/rehop/rehop/rehoptest"
)

// limit is how long a case waits for what must happen: far longer than anything takes.
const limit = 5 * time.Minute

// Bench is what a case works with.
type Bench struct {
	Database
	Broker Broker
	Faults *rehoptest.Broker // nil if the broker is not the embedded one
	DB     *sql.DB
	Box    outbox.Box
	Client *rehop.Client
	t      *testing.T

	handlersBegin func(ctx context.Context) (inbox.Transaction, error) // nil: as the inbox does by itself
}

func newBench(t *testing.T, d Database, broker Broker) *Bench {
	t.Helper()
	b := &Bench{Database: d, Broker: broker, DB: d.Open(t), Box: outbox.New(d.Dialect), t: t, handlersBegin: d.Begin}
	if b.Begin == nil {
		b.Begin = func(ctx context.Context) (inbox.Transaction, error) { return b.DB.BeginTx(ctx, nil) }
	}
	if b.Writing == 0 {
		b.Writing = 3 * time.Second
	}
	b.Client = b.OpenClient()
	return b
}

// OpenClient opens a client of the broker that is closed with the test.
func (b *Bench) OpenClient(change ...func(*rehop.Config)) *rehop.Client {
	b.t.Helper()
	config := b.Broker.Config()
	config.ReconnectMin, config.ReconnectMax = 10*time.Millisecond, 50*time.Millisecond
	for _, f := range change {
		f(&config)
	}
	client, err := rehop.Open(b.Context(), config)
	if err != nil {
		b.t.Fatalf("open a client: %v", err)
	}
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := client.Close(ctx); err != nil {
			b.t.Errorf("close a client: got %v, want nil", err)
		}
	})
	return client
}

// Context ends after the limit.
func (b *Bench) Context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	b.t.Cleanup(cancel)
	return ctx
}

// Must ends the test on an error.
func (b *Bench) Must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("got error %v, want none", err)
	}
}

// Migrate makes the tables, and one for the effects of handlers.
func (b *Bench) Migrate() {
	b.t.Helper()
	// Other cases weaken settings of the whole server for a moment, which is no news here.
	b.Must(dialect.Migration{Dialect: b.Dialect, Logger: slog.New(slog.DiscardHandler)}.Run(b.Context(), b.DB))
	b.Exec("CREATE TABLE effect (name VARCHAR(100) NOT NULL)")
}

// Exec runs a statement by itself.
func (b *Bench) Exec(query string, args ...any) {
	b.t.Helper()
	if _, err := b.DB.ExecContext(b.Context(), b.Dialect.Bind(query), args...); err != nil {
		b.t.Fatalf("%s: %v", query, err)
	}
}

// Number reads a number. It asks again if there is no answer: pgx reports that it could not clean up after a query of the relay's whose
// context has ended to the next query on the same connection.
func (b *Bench) Number(query string, args ...any) (n int) {
	b.t.Helper()
	for tries := 1; ; tries++ {
		err := b.DB.QueryRowContext(b.Context(), b.Dialect.Bind(query), args...).Scan(&n)
		if err == nil {
			return n
		}
		if tries == maxTries {
			b.t.Fatalf("%s: %v", query, err)
		}
		b.t.Logf("%s: %v", query, err)
	}
}

// maxTries is how often a query is tried.
const maxTries = 5

// Rows is how many messages are in the outbox, in whatever state.
func (b *Bench) Rows() int {
	b.t.Helper()
	return b.Number("SELECT COUNT(*) FROM rehop_outbox")
}

// Tx begins a transaction. If the case does not end it, the end of the test does.
func (b *Bench) Tx() inbox.Transaction {
	b.t.Helper()
	tx, err := b.Begin(b.Context())
	if err != nil {
		b.t.Fatalf("begin: %v", err)
	}
	b.t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// Put publishes messages in a transaction of their own.
func (b *Bench) Put(messages ...rehop.Message) {
	b.t.Helper()
	tx := b.Tx()
	if err := b.Box.Publish(b.Context(), tx, messages...); err != nil {
		b.t.Fatalf("publish to the outbox: %v", err)
	}
	b.Must(tx.Commit())
}

// To is a message for a queue, whose id is its body too.
func To(queue, id string) rehop.Message {
	return rehop.Message{ID: id, Key: queue, Body: []byte(id)}
}

// Relay is a relay that is quicker than usual to notice what goes wrong.
func (b *Bench) Relay() outbox.Relay {
	return outbox.Relay{
		Client: b.Client, DB: b.DB, Dialect: b.Dialect, Waker: b.Waker, Name: b.t.Name(),
		Lease: 20 * time.Second, RetryMin: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(b.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

// Start runs a relay until the test ends or stop is called, which returns when it has ended.
func (b *Bench) Start(r outbox.Relay) (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		b.t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := Receive(b, ended, "end of the relay"); err != nil {
			b.t.Errorf("relay: got error %v, want none", err)
		}
	}
	b.t.Cleanup(stop)
	return stop
}

// Queue declares a queue, and binds it to exchanges.
func (b *Bench) Queue(name string, exchanges ...string) {
	b.t.Helper()
	for _, x := range append([]string{""}, exchanges...) {
		sub, err := b.Client.Subscribe(b.Context(), rehop.Subscriber{Queue: name, Exchange: x, Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return rehop.Unavailable(nil) })})
		b.Must(err)
		b.Must(sub.Stop())
	}
}

// Collect consumes a queue, and hands over what comes in the order in which it comes.
func (b *Bench) Collect(queue string, exchange ...string) <-chan *rehop.Delivery {
	b.t.Helper()
	got := make(chan *rehop.Delivery, 10_000)
	s := rehop.Subscriber{Queue: queue, Prefetch: 100, Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		got <- d
		return nil
	})}
	if len(exchange) > 0 {
		s.Exchange = exchange[0]
	}
	if _, err := b.Client.Subscribe(b.Context(), s); err != nil {
		b.t.Fatalf("subscribe to %q: %v", queue, err)
	}
	return got
}

// Firsts is Collect without copies: a relay that loses its leases, as it may on a machine that is slow enough, publishes once more what it has
// no confirm for. That order holds is the order of the first ones.
func (b *Bench) Firsts(queue string) <-chan *rehop.Delivery {
	b.t.Helper()
	firsts := make(chan *rehop.Delivery, 10_000)
	all, seen := b.Collect(queue), make(map[string]bool)
	var handing sync.WaitGroup
	b.t.Cleanup(handing.Wait)
	handing.Go(func() {
		for {
			select {
			case d := <-all:
				if !seen[d.ID] {
					seen[d.ID] = true
					firsts <- d
				}
			case <-b.t.Context().Done():
				return
			}
		}
	})
	return firsts
}

// Inspector looks into the outbox.
func (b *Bench) Inspector() outbox.Inspector {
	return outbox.Inspector{DB: b.DB, Dialect: b.Dialect}
}

// Eventually waits for a condition that no event announces.
func (b *Bench) Eventually(what string, condition func() bool) {
	b.t.Helper()
	await.True(b.t, limit, 10*time.Millisecond, what, condition)
}

// Receive waits for an event.
func Receive[T any](b *Bench, from <-chan T, what string) T {
	b.t.Helper()
	return await.One(b.t, from, limit, what)
}

// Equal checks a value.
func Equal[T comparable](b *Bench, what string, got, want T) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

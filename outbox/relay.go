package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/internal/sqltext"
)

// Publisher publishes for a relay. *rehop.Client implements it.
type Publisher interface {
	// PublishEach publishes messages. It calls settled once for each message, with its index, as soon as the outcome is known, from any
	// goroutine and before it returns. It sends nothing after ctx has an error.
	PublishEach(ctx context.Context, messages []rehop.Message, settled func(i int, err error))
	State() rehop.State
}

// Waker notifies a relay of new messages, so that it does not have to poll the table often. See outboxpgx.Listener.
type Waker interface {
	// Listen calls wake when it has begun to listen, and then each time that there are new messages, until ctx ends or it cannot listen
	// any more.
	Listen(ctx context.Context, wake func()) error
}

// Relay publishes the messages in the outbox of a database. Several relays share the work. If one dies, hangs, or loses the broker or
// the database, the others replace it when its leases end. While the broker or the database is unreachable, the relay waits, with at
// most MaxBytes of messages in memory.
type Relay struct {
	// Client publishes. The relay does not close it. Required.
	Client Publisher
	// DB is the database of the outbox. The relay uses two or three connections at a time, so let the pool keep four (SetMaxIdleConns).
	// No transaction stays open while messages are published. Required.
	DB *sql.DB
	// Dialect is the kind of database. Required.
	Dialect dialect.Dialect
	// Tables are the names of rehop's tables. Default: rehop_outbox and so on.
	Tables dialect.Tables
	// RequireDurable makes Run return dialect.ErrNotDurable if the server's settings let a crash lose committed transactions. Default:
	// Run logs a warning.
	RequireDurable bool
	// Name is the name of this relay in the table of leases and in logs. An id is added to it. Default: the host's name.
	Name string

	// BatchSize is how many messages are published together, from 1 to 5000. Default: 200.
	BatchSize int
	// MaxBytes is how many bytes of messages are in memory at a time. A larger message is published alone, except for messages that wait for
	// a late confirm and use at most a quarter of MaxBytes. Default: 32 MiB.
	MaxBytes int
	// Poll is the longest pause between two reads of the table, when it has been empty for a while. While there are messages, the pause
	// is a few milliseconds. Default: 250 ms.
	Poll time.Duration
	// Waker ends such a pause early. Default: none.
	Waker Waker

	// Lease is how long after its last sign of life a relay is replaced. At least 200 ms. Default: 5 s.
	Lease time.Duration
	// Timeout is how long the relay waits for a confirm. A message that is not confirmed by then is published again after another
	// 2×Timeout, so about 90 s after it was sent. Default: 30 s.
	Timeout time.Duration
	// Tries is how often an unroutable message is published before it is set aside. With the default RetryMin, 5 tries take 15 s.
	// Default: 5.
	Tries int
	// RetryMin and RetryMax bound the pause between tries of a message that is unroutable or refused. The pause doubles with each try.
	// Default: 1 s and 1 min.
	RetryMin, RetryMax time.Duration
	// Keep is how long a published message stays in the table. Default: it is deleted.
	Keep time.Duration
	// DrainTimeout is how long Run waits, after its context has ended, for the outcome of messages that are being published. Default: 10 s.
	DrainTimeout time.Duration
	// Survey is how often the messages are counted for Hooks.OnBacklog. They are counted less often if that takes long. Default: 15 s.
	Survey time.Duration

	// Hooks receive events: batches, leases, the backlog, faults. Default: none.
	Hooks []Hooks
	// Logger receives errors that cannot be returned to a caller. Default: slog.Default().
	Logger *slog.Logger
}

func (r Relay) withDefaults() Relay {
	if r.Name == "" {
		r.Name, _ = os.Hostname()
	}
	r.BatchSize = cmp.Or(r.BatchSize, 200)
	r.MaxBytes = cmp.Or(r.MaxBytes, 32<<20)
	r.Poll = cmp.Or(r.Poll, 250*time.Millisecond)
	r.Lease = cmp.Or(r.Lease, 5*time.Second)
	r.Timeout = cmp.Or(r.Timeout, 30*time.Second)
	r.Tries = cmp.Or(r.Tries, 5)
	r.RetryMin = cmp.Or(r.RetryMin, time.Second)
	r.RetryMax = cmp.Or(r.RetryMax, max(time.Minute, r.RetryMin))
	r.DrainTimeout = cmp.Or(r.DrainTimeout, 10*time.Second)
	r.Survey = cmp.Or(r.Survey, 15*time.Second)
	r.Logger = cmp.Or(r.Logger, slog.Default())
	return r
}

// validate reports all faults at once.
func (r Relay) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if r.Client == nil {
		fault("Client is nil")
	}
	if r.DB == nil {
		fault("DB is nil")
	}
	if err := r.statements().Check(); err != nil {
		faults = append(faults, err)
	}
	if r.BatchSize < 1 || r.BatchSize > 5000 {
		fault("BatchSize %d must be from 1 to 5000", r.BatchSize)
	}
	if r.MaxBytes < 1 {
		fault("MaxBytes %d must be positive", r.MaxBytes)
	}
	if r.Tries < 1 {
		fault("Tries %d must be positive", r.Tries)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{{"Poll", r.Poll, time.Millisecond}, {"Lease", r.Lease, 200 * time.Millisecond}, {"Timeout", r.Timeout, time.Millisecond},
		{"RetryMin", r.RetryMin, time.Millisecond}, {"DrainTimeout", r.DrainTimeout, 0}, {"Survey", r.Survey, time.Millisecond}, {"Keep", r.Keep, 0}} {
		if d.value < d.least {
			fault("%s %v must be at least %v", d.name, d.value, d.least)
		}
	}
	if r.RetryMax < r.RetryMin {
		fault("RetryMin %v is longer than RetryMax %v", r.RetryMin, r.RetryMax)
	}
	return errors.Join(faults...)
}

func (r Relay) statements() sqltext.SQL { return sqltext.SQL{Dialect: r.Dialect, Tables: r.Tables} }

// Run publishes until ctx ends. Then it waits up to DrainTimeout for the outcome of messages that are being published, records it, returns
// its leases and returns nil. If the database does not answer, that takes up to five times Lease longer. Run returns an error if the relay
// cannot work at all: an invalid field, no tables in the database, a closed client. It logs other errors of the database, reports them to
// Hooks.OnFault, and tries again.
func (r Relay) Run(ctx context.Context) error {
	r = r.withDefaults()
	if err := r.validate(); err != nil {
		return fmt.Errorf("outbox: relay: %w", err)
	}
	run := newRun(r)
	if err := run.awaitTables(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return run.work(ctx)
}

type run struct {
	Relay
	sql    sqltext.SQL
	level  sql.IsolationLevel // of its transactions
	hooks  hooks
	name   *name
	leases *leases
	wake   chan struct{} // has room for one
	faults *faultLog

	allowed   atomic.Int64 // the dbTimeout; only the dispatcher changes it
	suspects  *suspects
	owed      owed
	probation probation
	late      sync.WaitGroup // for outcomes that arrive late
	lateBytes atomic.Int64   // of messages without an outcome yet
}

func newRun(r Relay) *run {
	run := &run{Relay: r, sql: r.statements(), hooks: sortHooks(r.Hooks), name: newName(r.Name), wake: make(chan struct{}, 1)}
	run.setDBTimeout(minDBTimeout)
	run.suspects = &suspects{all: make(map[destination]*suspect)}
	run.faults = &faultLog{run: run, faulty: make(map[string]bool)}
	run.leases = newLeases(run)
	return run
}

// work publishes until ctx ends.
func (r *run) work(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	// Batches that have begun continue for a while after ctx has ended, and need the leases.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var background sync.WaitGroup
	background.Go(func() { r.leases.keep(work) })
	background.Go(func() { r.care(ctx) })
	background.Go(func() { r.settleOwed(ctx) })
	if r.Waker != nil {
		background.Go(func() { r.listen(work) })
	}
	err := r.dispatch(ctx, work)
	end()
	stop()
	background.Wait()
	last := context.WithoutCancel(ctx)
	r.payAll(last) // before another relay gets the leases: it would publish these messages again
	r.leases.returnAll(last)
	return err
}

// awaitTables waits until the database answers, and checks that it has the tables.
func (r *run) awaitTables(ctx context.Context) error {
	wait := minDBTimeout
	for tries := 1; ; tries++ {
		began := time.Now()
		err := r.findTables(ctx, wait)
		wait = wait.after(time.Since(began), err)
		switch {
		case errors.Is(err, dialect.ErrUnfit), errors.Is(err, dialect.ErrNotDurable), errors.Is(err, errOldTables):
			return fmt.Errorf("outbox: relay: %w", err)
		case err == nil || ctx.Err() != nil:
			return nil
		}
		r.faults.report("read the version of its tables", err)
		if rabbit.Pause(ctx, databaseBackoff.Delay(tries)) != nil {
			return nil
		}
	}
}

// errOldTables means that the tables are older than the program.
var errOldTables = errors.New("run rehop outbox migrate, or let your program create them when it starts")

// findTables checks once whether a relay can work with the database.
func (r *run) findTables(ctx context.Context, t dbTimeout) error {
	ctx, cancel := context.WithTimeout(ctx, t.read())
	defer cancel()
	version, err := dialect.Migration{Dialect: r.Dialect, Tables: r.Tables}.Version(ctx, r.DB)
	if err == nil {
		err = r.Dialect.CheckSession(ctx, r.DB)
	}
	if err == nil {
		err = r.Dialect.CheckDurable(ctx, r.DB, r.RequireDurable, r.Logger)
	}
	if err == nil {
		r.level, err = r.isolation(ctx)
	}
	if err != nil {
		return err
	}
	if newest := r.Dialect.Newest(); version < newest {
		return fmt.Errorf("rehop's tables have version %d (0: there are none), this program needs %d: %w", version, newest, errOldTables)
	}
	return r.leases.registry.restore(ctx)
}

// databaseBackoff is the pause between tries while the database is unreachable.
var databaseBackoff = rabbit.Backoff{Min: 50 * time.Millisecond, Max: time.Second}

// signal sends to a channel that has room for one, unless a signal is waiting there.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// listen keeps the waker listening.
func (r *run) listen(ctx context.Context) {
	for tries := 1; ctx.Err() == nil; tries++ {
		err := r.Waker.Listen(ctx, func() {
			r.leases.setListening(true)
			r.faults.resolve("listen for new messages")
			signal(r.wake)
		})
		if r.leases.setListening(false) {
			tries = 1
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the method Listen of the Waker has returned early")
		}
		r.faults.report("listen for new messages", err)
		_ = rabbit.Pause(ctx, databaseBackoff.Delay(tries))
	}
}

// faultLog logs a fault once, until the same work succeeds again.
type faultLog struct {
	run *run

	mu     sync.Mutex
	faulty map[string]bool
}

func (f *faultLog) report(doing string, err error) {
	err = f.run.sql.Explain(err)
	f.mu.Lock()
	first := !f.faulty[doing]
	f.faulty[doing] = true
	f.mu.Unlock()
	if first {
		f.run.Logger.Warn("outbox: relay cannot "+doing+"; it keeps trying", "relay", f.run.name.get(), "err", err)
	}
	emit(f.run.hooks.fault, fmt.Errorf("outbox: relay: %s: %w", doing, err))
}

func (f *faultLog) resolve(doing string) {
	f.mu.Lock()
	again := f.faulty[doing]
	delete(f.faulty, doing)
	f.mu.Unlock()
	if again {
		f.run.Logger.Info("outbox: relay can "+doing+" again", "relay", f.run.name.get())
	}
}

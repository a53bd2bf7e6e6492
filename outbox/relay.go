package outbox

import (
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

// Publisher is what a relay publishes with: a *rehop.Client.
type Publisher interface {
	// PublishEach publishes messages, and calls settled once for each, by its index, as soon as it is known what became of it, from any
	// goroutine and before it returns. It sends nothing once ctx has an error.
	PublishEach(ctx context.Context, messages []rehop.Message, settled func(i int, err error))
	State() rehop.State
}

// Waker tells a relay of new messages, so that it need not look for them so often.
type Waker interface {
	// Listen calls wake when it has begun to listen and then for each news, until ctx ends or it cannot listen any more.
	Listen(ctx context.Context, wake func()) error
}

// Relay publishes what is in the outbox of a database. Several share the work; one that dies, hangs, or loses the broker or the
// database is replaced by the others when its leases end. While the broker or the database is away it waits, and
// holds no more than MaxBytes in memory.
type Relay struct {
	// Client publishes. The relay does not close it.
	Client Publisher
	// DB is the database; two or three connections of it are used at a time, so let it keep four (SetMaxIdleConns). No transaction stays
	// open while messages are published.
	DB *sql.DB
	// Dialect of the database.
	Dialect dialect.Dialect
	// Tables are the names of the tables. Default: rehop_outbox and so on.
	Tables dialect.Tables
	// RequireDurable has Run return dialect.ErrNotDurable if the server's settings allow a crash to lose what was committed. Default: Run
	// logs a warning.
	RequireDurable bool
	// Name of this relay in the table of leases, with an id behind it. Default: the host's name.
	Name string

	// BatchSize is how many messages are published together. Default: 200.
	BatchSize int
	// MaxBytes is how much of messages is in memory at a time. One that is larger is published alone. Default: 32 MiB.
	MaxBytes int
	// Poll is the longest pause between looks into the table when nothing was there for a while; while there is, it is a
	// few milliseconds. Default: 250 ms.
	Poll time.Duration
	// Waker ends such a pause early. Default: none.
	Waker Waker

	// Lease is how long after its last sign of life a relay is replaced. Default: 5 s.
	Lease time.Duration
	// Timeout is how long the relay waits for a confirm. A message that is not confirmed by then is published again after another
	// 2×Timeout, so about 90 s after it was sent. Default: 30 s.
	Timeout time.Duration
	// Tries is how often a message is published that has no route, before it is set aside. With the default RetryMin, 5 tries take
	// 15 s. Default: 5.
	Tries int
	// RetryMin and RetryMax bound the pause between tries of a message that has no route or is refused; it doubles.
	// Default: 1 s and 1 min.
	RetryMin, RetryMax time.Duration
	// Keep is for how long a published message stays in the table. Default: it is deleted.
	Keep time.Duration
	// DrainTimeout is how long Run waits, when its context has ended, for the outcome of what is being published. Default: 10 s.
	DrainTimeout time.Duration
	// Survey is how often Hooks.OnBacklog receives how much there is to do; less often if counting takes
	// long. Default: 15 s.
	Survey time.Duration

	// Hooks receive events: batches, leases, the backlog, faults. Default: none.
	Hooks []Hooks
	// Logger gets what no caller can be told. Default: slog.Default().
	Logger *slog.Logger
}

func orDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

func (r Relay) withDefaults() Relay {
	if r.Name == "" {
		r.Name, _ = os.Hostname()
	}
	orDefault(&r.BatchSize, 200)
	orDefault(&r.MaxBytes, 32<<20)
	orDefault(&r.Poll, 250*time.Millisecond)
	orDefault(&r.Lease, 5*time.Second)
	orDefault(&r.Timeout, 30*time.Second)
	orDefault(&r.Tries, 5)
	orDefault(&r.RetryMin, time.Second)
	orDefault(&r.RetryMax, max(time.Minute, r.RetryMin))
	orDefault(&r.DrainTimeout, 10*time.Second)
	orDefault(&r.Survey, 15*time.Second)
	if r.Logger == nil {
		r.Logger = slog.Default()
	}
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

// Run publishes until ctx ends. Then it waits for the outcome of what is under way, within DrainTimeout, gives its leases back and returns
// nil. It returns an error if the Relay cannot work at all: a fault in its fields, no tables in the database, a client that is
// closed. Other errors of the database it logs, reports to Hooks.OnFault, and tries again.
func (r Relay) Run(ctx context.Context) error {
	r = r.withDefaults()
	if err := r.validate(); err != nil {
		return fmt.Errorf("outbox: relay: %w", err)
	}
	run := newRun(r)
	if err := run.awaitTables(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	// What is under way goes on for a while when ctx has ended.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var background sync.WaitGroup
	background.Go(func() { run.leases.keep(work) })
	background.Go(func() { run.care(work) })
	background.Go(func() { run.settleOwed(work) })
	if r.Waker != nil {
		background.Go(func() { run.listen(work) })
	}
	err := run.dispatch(ctx, work)
	stop()
	background.Wait()
	last, done := context.WithTimeout(context.WithoutCancel(ctx), r.Lease)
	defer done()
	run.payOwed(last)
	if err := run.leases.resign(last); err != nil {
		run.told.fault("give its leases back", err)
	}
	return err
}

// run is a relay at work.
type run struct {
	Relay
	sql    sqltext.SQL
	level  sql.IsolationLevel // of its transactions
	hooks  hooks
	name   *name
	leases *leases
	wake   chan struct{} // has room for one
	told   *told

	allowed   atomic.Int64 // patience with the database; only the dispatcher changes it
	suspects  *suspects
	owed      owed
	probation probation
	late      sync.WaitGroup // for outcomes that come late
	lateBytes atomic.Int64   // of the messages that have none yet
}

func newRun(r Relay) *run {
	run := &run{Relay: r, sql: r.statements(), hooks: sortHooks(r.Hooks), name: newName(r.Name), wake: make(chan struct{}, 1)}
	run.setPatience(leastPatience)
	run.suspects = &suspects{all: make(map[destination]*suspect)}
	run.told = &told{run: run, faulty: make(map[string]bool)}
	run.leases = newLeases(run)
	return run
}

// awaitTables waits until the database answers, and finds out whether it has the tables.
func (r *run) awaitTables(ctx context.Context) error {
	wait := leastPatience
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
		r.told.fault("read the version of its tables", err)
		if rabbit.Pause(ctx, databaseBackoff.Delay(tries)) != nil {
			return nil
		}
	}
}

// errOldTables means that the tables are older than the program.
var errOldTables = errors.New("run rehop outbox migrate, or call Migrate of the dialect at start")

// findTables looks once whether a relay can work with the database.
func (r *run) findTables(ctx context.Context, p patience) error {
	ctx, cancel := context.WithTimeout(ctx, p.look())
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

// databaseBackoff is the pause between tries while the database is away.
var databaseBackoff = rabbit.Backoff{Min: 50 * time.Millisecond, Max: time.Second}

// nudge ends the pause between looks into the table.
func (r *run) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// listen keeps the waker listening.
func (r *run) listen(ctx context.Context) {
	for tries := 1; ctx.Err() == nil; tries++ {
		err := r.Waker.Listen(ctx, func() {
			r.leases.setListening(true)
			r.told.well("listen for new messages")
			r.nudge()
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
		r.told.fault("listen for new messages", err)
		_ = rabbit.Pause(ctx, databaseBackoff.Delay(tries))
	}
}

// told tells the log of a fault once, until the same work goes on.
type told struct {
	run *run

	mu     sync.Mutex
	faulty map[string]bool
}

func (t *told) fault(doing string, err error) {
	err = t.run.sql.Explain(err)
	t.mu.Lock()
	first := !t.faulty[doing]
	t.faulty[doing] = true
	t.mu.Unlock()
	if first {
		t.run.Logger.Warn("outbox: relay cannot "+doing+"; it keeps trying", "relay", t.run.name.get(), "err", err)
	}
	tell(t.run.hooks.fault, fmt.Errorf("outbox: relay: %s: %w", doing, err))
}

func (t *told) well(doing string) {
	t.mu.Lock()
	again := t.faulty[doing]
	delete(t.faulty, doing)
	t.mu.Unlock()
	if again {
		t.run.Logger.Info("outbox: relay can "+doing+" again", "relay", t.run.name.get())
	}
}

package triaging

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

// workbench is a failed queue that nobody replays, an index of it, and services that a test starts and ends itself.
type workbench struct {
	*lab.Rabbit
	t     *testing.T
	ctx   context.Context
	ch    *amqp.Channel
	admin *admin.Admin
	db    *sql.DB
	store *triage.Store
	// broker is what services use.
	broker     atomic.Pointer[admin.Admin]
	checkEvery time.Duration // of services
}

func newWorkbench(t *testing.T, r *lab.Rabbit, d *lab.Database) *workbench {
	t.Helper()
	b := &workbench{Rabbit: r, t: t, ctx: kit.Timeout(t, limit), ch: r.Channel(), db: d.Open(t), checkEvery: 300 * time.Millisecond}
	client := kit.Open(t, rehop.Config{URL: r.URL})
	kit.Drain(t, kit.Subscribe(t, client, rehop.Subscriber{Queue: queue, Handler: kit.Nop}))
	b.admin = b.connect()
	b.broker.Store(b.admin)
	speaks := dialects[d.Driver]
	b.must(dialect.Migration{Dialect: speaks, Part: dialect.Triage}.Run(b.ctx, b.db))
	var err error
	b.store, err = triage.Open(b.ctx, triage.Config{DB: b.db, Dialect: speaks})
	b.must(err)
	return b
}

func (b *workbench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *workbench) connect() *admin.Admin {
	b.t.Helper()
	a, err := admin.Open(b.ctx, admin.Config{URL: b.URL, Management: b.Management()})
	b.must(err)
	b.t.Cleanup(a.Close)
	return a
}

// unplug makes services use a connection that is closed, until plug is called.
func (b *workbench) unplug() {
	b.t.Helper()
	a := b.connect()
	a.Close()
	b.broker.Store(a)
}

func (b *workbench) plug() { b.broker.Store(b.admin) }

// service is one that has not begun to work.
func (b *workbench) service() *triage.Service {
	b.t.Helper()
	s, err := triage.NewService(triage.ServiceConfig{Store: b.store, CheckEvery: b.checkEvery, Logger: slog.New(slog.NewTextHandler(b.t.Output(), nil)),
		Connect: func(context.Context) (*admin.Admin, error) { return b.broker.Load(), nil }})
	b.must(err)
	return s
}

// work lets a service work until the function that it returns is called.
func (b *workbench) work() (end func()) {
	s := b.service()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	end = func() { stop(); <-ended }
	b.t.Cleanup(end)
	return end
}

// exported is a message as a line of an export.
type exported map[string]any

func failedMessage(id string, at, replays int, body string) exported {
	when := time.Date(2026, 1, 2, 0, 0, 0, at*1_000_000, time.UTC)
	return exported{"id": id, "queue": queue, "exchange": "", "key": queue, "body": []byte(body), "attempts": 3, "replays": replays,
		"kind": "error", "error": "connection refused", "failed_at": when, "first_failed": when}
}

// fill puts messages into the failed queue, and into the index.
func (b *workbench) fill(all ...exported) {
	b.t.Helper()
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	for _, one := range all {
		b.must(enc.Encode(one))
	}
	n, err := b.admin.Import(b.ctx, &text)
	b.must(err)
	if n != len(all) {
		b.t.Fatalf("imported %d of %d messages", n, len(all))
	}
	b.reconcile()
}

func (b *workbench) fillMany(n int) {
	b.t.Helper()
	var all []exported
	for i := range n {
		all = append(all, failedMessage(fmt.Sprint(i), i, 0, fmt.Sprintf(`{"order":%d}`, i)))
	}
	b.fill(all...)
}

func (b *workbench) reconcile() {
	b.t.Helper()
	s := b.service()
	lab.Eventually(b.t, limit, "no other sweep runs", func() bool {
		_, err := s.Reconcile(b.ctx, queue+".failed")
		if elseSweeps(err) {
			return false
		}
		b.must(err)
		return true
	})
}

// elseSweeps reports whether a comparison has not ended because another service sweeps the queue, or a run has taken it.
func elseSweeps(err error) bool {
	return errors.Is(err, triage.ErrSuperseded) || errors.Is(err, admin.ErrBusy)
}

func (b *workbench) start(plan triage.RunPlan) triage.Run {
	b.t.Helper()
	plan.Actor = "ann"
	r, err := b.store.StartRun(b.ctx, plan)
	b.must(err)
	return r
}

// set pauses, continues or stops a run.
func (b *workbench) set(r triage.Run, state triage.RunState) {
	b.t.Helper()
	_, err := b.store.SetRun(b.ctx, r.ID, state, "ann", "")
	b.must(err)
}

// until waits until a run is as wanted.
func (b *workbench) until(r triage.Run, what string, is func(triage.Run) bool) (now triage.Run) {
	b.t.Helper()
	defer func() {
		if b.t.Failed() {
			b.t.Logf("the run was last: %+v", now)
		}
	}()
	lab.Eventually(b.t, limit, what, func() bool {
		var err error
		now, err = b.store.Run(b.ctx, r.ID)
		b.must(err)
		return is(now)
	})
	return now
}

// ended waits until a run is done, or stopped and nothing of it is being sent.
func (b *workbench) ended(r triage.Run) triage.Run {
	b.t.Helper()
	return b.until(r, "the run has ended", func(r triage.Run) bool {
		return r.State == triage.Done || r.State == triage.Stopped && r.Counts.Sending == 0
	})
}

// run works on a run until it is done.
func (b *workbench) run(plan triage.RunPlan) triage.Run {
	b.t.Helper()
	r := b.start(plan)
	defer b.work()()
	return b.ended(r)
}

func (b *workbench) query(text string) triage.Query {
	b.t.Helper()
	q, err := triage.ParseQuery(text, time.Now())
	b.must(err)
	return q
}

func (b *workbench) found(text string) []triage.Message {
	b.t.Helper()
	r, err := b.store.Search(b.ctx, b.query(text), triage.Page{Limit: 500})
	b.must(err)
	return r.Messages
}

// want compares how many messages match queries, how many contents the store has, and how many messages the failed queue has.
func (b *workbench) want(stored, queued int, counts map[string]int) {
	b.t.Helper()
	for text, n := range counts {
		if got := len(b.found(text)); got != n {
			b.t.Errorf("%s: got %d messages, want %d", text, got, n)
		}
	}
	var lines int
	b.must(b.db.QueryRowContext(b.ctx, "SELECT COUNT(*) FROM rehop_triage_kept").Scan(&lines))
	if lines != stored {
		b.t.Errorf("the store has the contents of %d messages, want %d", lines, stored)
	}
	kit.WantDepth(b.t, b.Rabbit, b.ch, queue+".failed", queued)
	b.must(b.store.Check(b.ctx))
}

// lease waits for a lease that lasts longer than until, in microseconds, and returns whose it is and how long it lasts.
func (b *workbench) lease(until int64) (owner string, expires int64) {
	b.t.Helper()
	lab.Eventually(b.t, limit, "a process has the lease", func() bool {
		var name []byte
		err := b.db.QueryRowContext(b.ctx, "SELECT owner, expires FROM rehop_triage_lease").Scan(&name, &expires)
		if !errors.Is(err, sql.ErrNoRows) {
			b.must(err)
		}
		owner = string(name)
		return expires > until
	})
	return owner, expires
}

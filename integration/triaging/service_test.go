package triaging

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/triage"
)

// limit is far longer than anything takes.
const limit = 5 * time.Minute

// setting is what a scene is on.
type setting struct {
	rabbit   *lab.Rabbit
	database *lab.Database
	dialect  dialect.Dialect
	layout   layout.Layout
	silent   bool // subscribers report nothing
	change   func(*triage.ServiceConfig)
}

// scene is a queue whose handler fails, and a service that keeps an index of its failed messages.
type scene struct {
	*lab.Rabbit
	t       *testing.T
	ctx     context.Context
	client  *rehop.Client
	admin   *admin.Admin
	store   *triage.Store
	service *triage.Service
	fixed   atomic.Pointer[func(id string) bool] // which messages are handled
	handled *kit.Tally
	sub     *rehop.Subscription
}

const queue = "orders"

func newScene(t *testing.T, s setting) *scene {
	t.Helper()
	c := &scene{Rabbit: s.rabbit, t: t, ctx: kit.Timeout(t, limit), handled: &kit.Tally{}}
	db := s.database.Open(t)
	c.must(dialect.Migration{Dialect: s.dialect, Part: dialect.Triage}.Run(c.ctx, db))
	var err error
	c.store, err = triage.Open(c.ctx, triage.Config{DB: db, Dialect: s.dialect, RequireDurable: true})
	c.must(err)
	c.fix(func(string) bool { return false })
	c.client = kit.Open(t, rehop.Config{URL: s.rabbit.URL, Reports: !s.silent})
	c.sub = kit.Subscribe(t, c.client, rehop.Subscriber{Queue: queue, Layout: s.layout, Retry: rehop.NoRetry(), Concurrency: 4, Handler: rehop.HandlerFunc(c.handle)})
	c.admin, err = admin.Open(c.ctx, admin.Config{URL: s.rabbit.URL, Management: s.rabbit.Management(), Layout: s.layout})
	c.must(err)
	t.Cleanup(c.admin.Close)
	config := triage.ServiceConfig{Store: c.store, Admin: c.admin, CheckEvery: 300 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if s.change != nil {
		s.change(&config)
	}
	c.service, err = triage.NewService(config)
	c.must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.service.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-ended })
	if !s.silent { // subscribers report nothing for a while after nobody has heard a report
		awaitCollected(t, s.rabbit, c.admin)
	}
	return c
}

// awaitCollected waits until a service collects reports.
func awaitCollected(t *testing.T, r *lab.Rabbit, a *admin.Admin) {
	t.Helper()
	ctx := kit.Timeout(t, limit)
	lab.Eventually(t, limit, "reports are collected", func() bool {
		_, err := a.ErrorQueue("rehop.triage").Depth(ctx)
		if err != nil && !errors.Is(err, admin.ErrNoQueue) {
			t.Fatal(err)
		}
		return err == nil
	})
	ch := r.Channel()
	lab.Eventually(t, limit, "the queue of reports has a consumer", func() bool {
		q, err := ch.QueueDeclarePassive("rehop.triage", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		return q.Consumers > 0
	})
}

func (c *scene) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// fix decides which messages are handled from now on.
func (c *scene) fix(isHandled func(id string) bool) { c.fixed.Store(&isHandled) }

func (c *scene) handle(_ context.Context, d *rehop.Delivery) error {
	if !(*c.fixed.Load())(d.ID) {
		return errors.New("connection refused")
	}
	c.handled.Add(d.ID)
	return nil
}

// fail publishes messages, which fail.
func (c *scene) fail(from, to int) {
	c.t.Helper()
	var all []rehop.Message
	for n := from; n < to; n++ {
		all = append(all, rehop.Message{Key: queue, ID: fmt.Sprint(n), Body: fmt.Appendf(nil, `{"order":%d}`, n), Headers: map[string]any{"tenant": fmt.Sprint("t-", n%3)}})
	}
	kit.Publish(c.t, c.client, all...)
}

func (c *scene) eventually(what string, is func() bool) {
	c.t.Helper()
	lab.Eventually(c.t, limit, what, is)
}

func (c *scene) query(text string) triage.Query {
	c.t.Helper()
	q, err := triage.ParseQuery(text, time.Now())
	c.must(err)
	return q
}

// count is how many messages match a query.
func (c *scene) count(text string) int {
	c.t.Helper()
	r, err := c.store.Search(c.ctx, c.query(text), triage.Page{})
	c.must(err)
	return r.Count
}

// indexed waits until as many messages match a query.
func (c *scene) indexed(text string, n int) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%d messages match %q", n, text), func() bool { return c.count(text) == n })
}

// start starts a run.
func (c *scene) start(plan triage.RunPlan) triage.Run {
	c.t.Helper()
	plan.Actor = "ann"
	r, err := c.store.StartRun(c.ctx, plan)
	c.must(err)
	c.service.Wake()
	return r
}

// ends waits until a run is in a state and its counts are as wanted.
func (c *scene) ends(r triage.Run, state triage.RunState, is func(triage.RunCounts) bool) triage.Run {
	c.t.Helper()
	var now triage.Run
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("the run was last: %+v", now)
		}
	})
	c.eventually(fmt.Sprintf("run %s is %s", r.ID, state), func() bool {
		one, err := c.store.Run(c.ctx, r.ID)
		c.must(err)
		now = one
		return now.State == state && is(now.Counts)
	})
	return now
}

// check counts everything in the index again, and verifies the audit.
func (c *scene) check() {
	c.t.Helper()
	c.must(c.store.Check(c.ctx))
	_, err := c.store.VerifyAudit(c.ctx, triage.Head{})
	c.must(err)
}

// failedQueue is the failed queue.
func (c *scene) failedQueue() admin.FailedQueue {
	c.t.Helper()
	all, err := c.admin.FailedQueues(c.ctx)
	c.must(err)
	for _, q := range all {
		if q.Name != "rehop.orphans" && q.Name != "rehop.unrouted" {
			return q
		}
	}
	c.t.Fatalf("got %+v, want a failed queue of %s", all, queue)
	return admin.FailedQueue{}
}

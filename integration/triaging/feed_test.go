//go:build !race

package triaging

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/sqltext"
	"github.com/rehop/rehop/triage"
)

var feedQueued = flag.Int("feed-queued", 2000, "how many reports wait on the broker when it is measured how fast they get into the index; at most 100,000")

// TestSQLiteFeed measures how fast a service moves reports that have queued up on the broker into the index, with the options of rehop up.
func TestSQLiteFeed(t *testing.T) {
	r := lab.Single(t)
	ctx, db, ch := kit.Timeout(t, 4*limit), openSQLite(t).Open(t), r.Channel()
	db.SetMaxIdleConns(sqltext.IndexIdle)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(dialect.Migration{Dialect: dialect.SQLite, Part: dialect.Triage}.Run(ctx, db))
	store, err := triage.Open(ctx, triage.Config{DB: db, Dialect: dialect.SQLite, RequireDurable: true})
	must(err)
	a, err := admin.Open(ctx, admin.Config{URL: r.URL, Management: r.Management()})
	must(err)
	t.Cleanup(a.Close)
	service, err := triage.NewService(triage.ServiceConfig{Store: store, Admin: a, Alone: true, CheckEvery: time.Hour, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	must(err)
	work := func() (end func()) {
		ctx, stop := context.WithCancel(ctx)
		var working sync.WaitGroup
		working.Go(func() { service.Run(ctx) })
		return func() { stop(); working.Wait() }
	}
	end := work()
	awaitCollected(t, r, a) // so that the broker collects reports while no service does
	end()
	client := kit.Open(t, rehop.Config{URL: r.URL, Reports: true})
	kit.Subscribe(t, client, rehop.Subscriber{Queue: queue, Retry: rehop.NoRetry(), Concurrency: 32, Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
		return errors.New("connection refused")
	})})
	random := rand.New(rand.NewPCG(1, 1))
	for sent := 0; sent < *feedQueued; {
		var some []rehop.Message
		for ; len(some) < 1000 && sent < *feedQueued; sent++ {
			m := benchMessage(random, sent)
			some = append(some, rehop.Message{ID: m.ID, Key: queue, Body: m.Body, ContentType: m.ContentType, Headers: m.Headers})
		}
		kit.Publish(t, client, some...)
	}
	kit.WantDepth(t, r, ch, "rehop.triage", *feedQueued)
	began, busy := time.Now(), cpuTime(t)
	end = work()
	lab.Eventually(t, 2*limit, "all reports are in the index", func() bool {
		queues, err := store.Queues(ctx)
		must(err)
		n := 0
		for _, q := range queues {
			n += q.Failed
		}
		return n == *feedQueued
	})
	took, computing := time.Since(began), cpuTime(t)-busy
	end()
	must(store.Check(ctx))
	rate := float64(*feedQueued) / took.Seconds()
	t.Logf("feed: %d reports from the broker to the index, %.0f/s, %v of this process's CPU each", *feedQueued, rate, (computing / time.Duration(*feedQueued)).Round(time.Microsecond))
	if *judge && rate < 5000 {
		t.Errorf("feed: got %.0f/s, want 5000", rate)
	}
}

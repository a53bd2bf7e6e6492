//go:build !race

package triaging

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

var (
	visibleRate = flag.Int("visible-rate", 1000, "how many messages fail per second while it is measured how soon they are in the index")
	visibleSome = flag.Int("visible-some", 500, "how many messages fail in all")
)

// TestSQLiteVisible measures how soon a message that has failed is in the index of a service in a process of its own.
func TestSQLiteVisible(t *testing.T) {
	r := lab.Single(t)
	ctx, d := kit.Timeout(t, 4*limit), openSQLite(t)
	store, closeStore, err := openStore(ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore()
	client := kit.Open(t, rehop.Config{URL: r.URL, Reports: true})
	kit.Subscribe(t, client, rehop.Subscriber{Queue: queue, Retry: rehop.NoRetry(), Concurrency: 8, Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
		return errors.New("connection refused")
	})})
	startServer(t, r, d)
	a, err := admin.Open(ctx, admin.Config{URL: r.URL, Management: r.Management()})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	awaitCollected(t, r, a) // a subscriber that reports to nobody sends no reports for a while
	const first = "first"
	kit.Publish(t, client, rehop.Message{ID: first, Key: queue})
	lab.Eventually(t, limit, "the service has begun", func() bool {
		found, err := store.Search(ctx, triage.Query{}, triage.Page{})
		return err == nil && len(found.Messages) == 1
	})
	var found map[string]time.Time
	var searching sync.WaitGroup
	polling, stop := context.WithCancel(ctx)
	defer func() { stop(); searching.Wait() }()
	searching.Go(func() { found, err = firstFound(polling, d, *visibleSome+1) })
	const step = 10 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	began := time.Now()
	for sent := 0; sent < *visibleSome; <-tick.C {
		due := min(*visibleSome, int(time.Since(began).Seconds()*float64(*visibleRate))+1)
		var some []rehop.Message
		for ; sent < due; sent++ {
			some = append(some, rehop.Message{ID: strconv.Itoa(sent), Key: queue, Body: fmt.Appendf(nil, `{"order": %d}`, sent)})
		}
		if len(some) > 0 {
			kit.Publish(t, client, some...)
		}
	}
	if searching.Wait(); err != nil {
		t.Fatal(err)
	}
	var delays []time.Duration
	var last time.Time // that a message failed
	for page := (triage.Page{Limit: 500}); ; {
		result, err := store.Search(ctx, triage.Query{}, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range result.Messages {
			if at, ok := found[m.ID]; ok && m.ID != first {
				delays = append(delays, at.Sub(m.FailedAt))
				if m.FailedAt.After(last) {
					last = m.FailedAt
				}
			}
		}
		if page.After = result.Next; result.Next == "" {
			break
		}
	}
	if len(delays) != *visibleSome {
		t.Fatalf("got %d messages that a search finds, want %d", len(delays), *visibleSome)
	}
	rate := float64(*visibleSome) / last.Sub(began).Seconds()
	slices.Sort(delays)
	p50, p99 := delays[len(delays)/2], delays[len(delays)*99/100]
	t.Logf("%d messages failed, %.0f per second; from the failure until a search finds it: p50 %v, p99 %v, at most %v", len(delays), rate, p50.Round(time.Millisecond), p99.Round(time.Millisecond),
		delays[len(delays)-1].Round(time.Millisecond))
	if *judge && (p99 > 2*time.Second || rate < 0.95*float64(*visibleRate)) {
		t.Errorf("got a p99 of %v at %.0f failures per second, want at most 2s at %d", p99, rate, *visibleRate)
	}
}

// firstFound searches again and again, on connections of its own, until n messages were found, and returns when each was found first. It reads the
// newest ones up to a page without new ones; all of them every tenth time, because a message can get to a place among older ones.
func firstFound(ctx context.Context, d *lab.Database, n int) (map[string]time.Time, error) {
	store, closeStore, err := openStore(ctx, d)
	if err != nil {
		return nil, err
	}
	defer closeStore()
	found := make(map[string]time.Time, n)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for round := 1; len(found) < n; round++ {
		<-tick.C
		for page := (triage.Page{Limit: 500}); ; {
			result, err := store.Search(ctx, triage.Query{}, page)
			if err != nil {
				return nil, err
			}
			before, now := len(found), time.Now()
			for _, m := range result.Messages {
				if _, known := found[m.ID]; !known {
					found[m.ID] = now
				}
			}
			if page.After = result.Next; result.Next == "" || len(found) == before && round%10 != 0 {
				break
			}
		}
	}
	return found, nil
}

package crashes

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/conformance/delivery"
)

// killAtRandom: kill -9 at a random moment after work has resumed.
func killAtRandom(t *testing.T, seed uint64) tally {
	b := newBroker(t, "")
	p := b.serve()
	w := newTraffic(t, b, seed)
	w.start()
	random := rand.New(rand.NewPCG(seed, 1))
	n := times(10, 300)
	var recovered, resumed []time.Duration
	for range n {
		w.works(p)
		moment := time.After(20*time.Millisecond + time.Duration(random.IntN(280))*time.Millisecond)
		select {
		case <-moment:
		case <-p.ended:
		}
		b.kill()
		p = b.serve()
		recovered = append(recovered, p.served.Sub(p.began))
		resumed = append(resumed, w.works(p))
	}
	result := w.finish()
	result.kills = n + 1
	t.Logf("%d kills, %d confirmed, %d in doubt; from a start to serving %s, to the first confirm %s",
		result.kills, result.confirmed, result.unknown, spread(recovered), spread(resumed))
	return result
}

// spread describes durations.
func spread(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("median %v, longest %v", all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond))
}

// killUnderDelivery: kill -9 under the library's own workload, with retries, whose books the delivery auditor reads.
func killUnderDelivery(t *testing.T, seed uint64) tally {
	b := newBroker(t, "")
	b.serve()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	history, err := delivery.NewHistory(filepath.Join(b.root, "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(b.root, "client.log"))
	if err != nil {
		t.Fatal(err)
	}
	work := &delivery.Workload{
		Script: delivery.NewScript(seed), History: history, Rate: times(600, 1200),
		Config: func(role string) rehop.Config {
			return rehop.Config{URL: b.url(), Name: role, Logger: slog.New(slog.NewTextHandler(log, nil)).With("role", role)}
		},
		Dial: func(context.Context) (*amqp.Connection, error) { return b.dial() },
	}
	t.Cleanup(func() {
		closing, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		_ = work.Close(closing)
		_ = history.Close()
		_ = log.Close()
	})
	await := func(after int, what string, fits func(delivery.Event) bool) {
		t.Helper()
		limited, cancel := context.WithTimeout(ctx, soon)
		defer cancel()
		if _, err := history.AwaitEvent(limited, after, what, fits); err != nil {
			t.Fatalf("%v\n%s", err, b.logEnd())
		}
	}
	is := func(kind delivery.Kind) func(delivery.Event) bool {
		return func(e delivery.Event) bool { return e.Kind == kind }
	}
	confirms := func(n int) {
		t.Helper()
		limited, cancel := context.WithTimeout(ctx, soon)
		defer cancel()
		if err := history.Await(limited, delivery.Confirmed, history.Count(delivery.Confirmed)+n); err != nil {
			t.Fatalf("%v\n%s", err, b.logEnd())
		}
	}
	if err := work.Start(ctx); err != nil {
		t.Fatal(err)
	}
	await(0, "a message in the failed queue", is(delivery.Parked))
	random := rand.New(rand.NewPCG(seed, 2))
	kills := times(2, 30)
	for range kills {
		confirms(100 + random.IntN(400))
		if err := history.BeginFault(ctx, "broker killed"); err != nil {
			t.Fatalf("%v\n%s", err, b.logEnd())
		}
		b.kill()
		b.serve()
		history.Record(delivery.Event{Kind: delivery.FaultEnds, Fault: "broker killed"})
		end := history.Len() // after the end is written down: the auditor counts from there
		await(end, "a confirm after the kill", is(delivery.Confirmed))
		await(end, "a handled message after the kill", is(delivery.Handled))
	}
	confirms(200)
	if err := work.Drain(ctx); err != nil {
		t.Errorf("drain: %v", err)
	}
	rules := work.Rules()
	rules.Faults, rules.Witness = kills, delivery.Sees(delivery.Lost)
	report := delivery.Audit(history.Events(), rules)
	report.Seed = seed
	t.Logf("%s (%s)", report.Line(), report.Details())
	if !report.OK() {
		t.Errorf("the books do not balance:\n%s", report.Faulty())
	}
	b.stop()
	b.checkStore()
	return tally{confirmed: report.Confirmed, unknown: report.Unknown, audit: audit{lost: report.Lost}, kills: kills}
}

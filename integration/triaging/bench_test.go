package triaging

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/sqltext"
	"github.com/rehop/rehop/triage"
)

var (
	rowCount = flag.Int("rows", 2000, "failed messages in the index")
	byCPU    = flag.Bool("cpu", false, "measure searches by the CPU time of this process, on a machine that does other things")
	judge    = flag.Bool("judge", false, "judge times and sizes, which needs a machine that does nothing else")
)

// TestIndex measures the index: how fast messages are put, and how long searches and lists of groups take.
func TestIndex(t *testing.T) {
	t.Run("PostgreSQL", func(t *testing.T) { measure(t, lab.Postgres(t), dialect.Postgres) })
	t.Run("MariaDB", func(t *testing.T) { measure(t, lab.MariaDB(t), dialect.MySQL) })
	t.Run("MySQL", func(t *testing.T) { measure(t, lab.MySQL(t), dialect.MySQL) })
}

// measure prints the figures of one database, and of SQLite how large the file is compared with the text of the messages.
func measure(t *testing.T, d *lab.Database, speaks dialect.Dialect) {
	ctx := kit.Timeout(t, 4*time.Hour)
	db := d.Open(t)
	if speaks == dialect.SQLite {
		db.SetMaxIdleConns(sqltext.IndexIdle)
	}
	if err := (dialect.Migration{Dialect: speaks, Part: dialect.Triage}).Run(ctx, db); err != nil {
		t.Fatal(err)
	}
	store, err := triage.Open(ctx, triage.Config{DB: db, Dialect: speaks})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	text, putting, computing := 0, time.Duration(0), time.Duration(0)
	const batch, most = 500, 20_000
	for n := 0; n < *rowCount; n += most {
		batches := make(chan []triage.Message, most/batch)
		for from := n; from < min(n+most, *rowCount); from += batch {
			some := make([]triage.Message, min(batch, *rowCount-from))
			for i := range some {
				some[i] = benchMessage(random, from+i)
				text += textSize(&some[i])
			}
			batches <- some
		}
		close(batches)
		began, busy := time.Now(), cpuTime(t)
		var working sync.WaitGroup
		for range 2 { // as a service does
			working.Go(func() {
				for some := range batches {
					if err := store.Put(ctx, some); err != nil {
						t.Error(err)
					}
				}
			})
		}
		working.Wait()
		putting, computing = putting+time.Since(began), computing+cpuTime(t)-busy
	}
	rate := float64(*rowCount) / putting.Seconds()
	t.Logf("put: %d messages of %d bytes of text on average, %.0f/s, %v of this process's CPU each", *rowCount, text / *rowCount, rate, (computing / time.Duration(*rowCount)).Round(time.Microsecond))
	if *judge && rate < 5000 {
		t.Errorf("put: got %.0f/s, want 5000", rate)
	}
	if speaks == dialect.Postgres { // as autovacuum does in its time
		if _, err := db.ExecContext(ctx, "ANALYZE"); err != nil {
			t.Fatal(err)
		}
	}
	searches := timesOf(t, ctx, store, random)
	groups := percentile(repeat(t, 50, func() error { _, err := store.Groups(ctx, triage.GroupFilter{}); return err }))
	byCount := percentile(repeat(t, 50, func() error {
		_, err := store.Groups(ctx, triage.GroupFilter{Order: triage.ByFailed})
		return err
	}))
	began := time.Now()
	run, err := store.StartRun(ctx, triage.RunPlan{Action: triage.ActionReplay, Actor: "ann"})
	if err != nil || run.Counts.Planned != *rowCount {
		t.Fatalf("got %+v, %v, want %d messages", run.Counts, err, *rowCount)
	}
	t.Logf("a run: its %d messages were fixed in %v", *rowCount, time.Since(began).Round(time.Millisecond))
	limit := 50 * time.Millisecond
	if speaks != dialect.SQLite {
		limit = 200 * time.Millisecond
	}
	t.Logf("search: p95 of the slowest kind %v; groups by last seen: p95 %v, by count: p95 %v", searches, groups, byCount)
	if *judge && (searches > limit || groups > 20*time.Millisecond || byCount > 20*time.Millisecond) {
		t.Errorf("search and groups: got %v, %v and %v, want at most %v and 20ms", searches, groups, byCount, limit)
	}
	if pages := pageTimes(t, ctx, store, run.ID); *judge && speaks == dialect.SQLite && pages > 100*time.Millisecond {
		t.Errorf("pages: got %v for the slowest, want at most 100ms", pages)
	}
	if speaks == dialect.SQLite {
		if _, err := db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			t.Fatal(err)
		}
		path := strings.TrimPrefix(strings.Split(d.Source, "?")[0], "file:")
		size := int64(0)
		for _, file := range []string{path, path + "-wal"} {
			if info, err := os.Stat(filepath.Clean(file)); err == nil {
				size += info.Size()
			}
		}
		ratio := float64(size) / float64(text)
		t.Logf("file: %d bytes, %.2f × the text", size, ratio)
		if *judge && ratio > 2.5 {
			t.Errorf("file: got %.2f × the text, want 2.5", ratio)
		}
	}
}

// timesOf measures searches of several kinds, and returns the 95th percentile of the slowest kind.
func timesOf(t *testing.T, ctx context.Context, store *triage.Store, random *rand.Rand) time.Duration {
	now := benchStart.Add(time.Duration(*rowCount) * benchStep)
	kinds := map[string]func() string{
		"all":             func() string { return "" },
		"word, rare":      func() string { return fmt.Sprintf("cust%d", random.IntN(*rowCount/20+1)) },
		"word, frequent":  func() string { return pickOne(random, commonWords) },
		"words, frequent": func() string { return pickOne(random, commonWords) + " " + pickOne(random, commonWords) },
		"phrase":          func() string { return `"connection refused"` },
		"header":          func() string { return fmt.Sprintf("header.tenant:t-%d", random.IntN(200)) },
		"body":            func() string { return fmt.Sprintf("body.order.id:%d", random.IntN(*rowCount)) },
		"queue and kind": func() string {
			return fmt.Sprintf("queue:queue-%d kind:%s", random.IntN(20), pickOne(random, benchKinds))
		},
		"negated":       func() string { return "queue:queue-3 -" + pickOne(random, commonWords) },
		"time and word": func() string { return fmt.Sprintf("since:2h until:1h %s", pickOne(random, commonWords)) },
		"state":         func() string { return "state:failed key:orders.*" },
		"nothing":       func() string { return fmt.Sprintf("nothing%d state:gone", random.IntN(100)) },
		"id":            func() string { return fmt.Sprintf("id:m-%d", random.IntN(*rowCount)) },
	}
	var slowest time.Duration
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		var found int
		took := repeat(t, 30, func() error {
			q, err := triage.ParseQuery(kinds[name](), now)
			if err != nil {
				return err
			}
			r, err := store.Search(ctx, q, triage.Page{})
			found += len(r.Messages)
			return err
		})
		p95 := percentile(took)
		t.Logf("search, %s: p95 %v, %d messages per page", name, p95, found/30)
		slowest = max(slowest, p95)
	}
	return slowest
}

func repeat(t *testing.T, n int, do func() error) (took []time.Duration) {
	for range n {
		began, busy := time.Now(), cpuTime(t)
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if took = append(took, time.Since(began)); *byCPU {
			took[len(took)-1] = cpuTime(t) - busy
		}
	}
	return took
}

// cpuTime is what this process has used. On SQLite that is all there is.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func percentile(took []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[len(sorted)*95/100].Round(10 * time.Microsecond)
}

var (
	benchStart  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	commonWords = []string{"order", "created", "refused", "customer", "payment", "street", "express", "gift"}
	benchKinds  = []string{"error", "timeout", "panic", "permanent"}
	benchErrors = []string{"dial tcp 10.0.%d.7:5432: connect: connection refused", "order %d: customer not found", "payment %d declined: insufficient funds",
		"http 503 from inventory for order %d", "decode order %d: unexpected end of JSON input"}
)

const benchStep = 20 * time.Millisecond

func pickOne(random *rand.Rand, from []string) string { return from[random.IntN(len(from))] }

// benchMessage is a message of an order, as a shop would have it: about 700 bytes of JSON, some of it different in each message.
func benchMessage(random *rand.Rand, n int) triage.Message {
	items := make([]map[string]any, 1+random.IntN(4))
	for i := range items {
		items[i] = map[string]any{"sku": fmt.Sprintf("SKU-%05d", random.IntN(5000)), "quantity": random.IntN(9) + 1, "price": fmt.Sprintf("%d.%02d", random.IntN(200), random.IntN(100))}
	}
	body, _ := json.Marshal(map[string]any{
		"type": "order.created", "order": map[string]any{"id": n, "express": n%3 == 0, "gift": n%7 == 0, "note": pickOne(random, []string{"", "please ring twice", "leave at the door", "gift wrap"})},
		"customer": map[string]any{"id": fmt.Sprintf("cust%d", random.IntN(*rowCount/20+1)), "name": pickOne(random, []string{"Jane Doe", "John Smith", "María García", "Müller"}), "email": fmt.Sprintf("user%d@example.com", random.IntN(*rowCount/20+1)),
			"address": map[string]any{"street": fmt.Sprintf("%d Main Street", random.IntN(900)), "city": pickOne(random, []string{"Berlin", "Paris", "東京都港区", "New York"}), "zip": fmt.Sprint(10000 + random.IntN(9000))}},
		"items": items, "payment": map[string]any{"method": pickOne(random, []string{"card", "invoice", "paypal"}), "status": "authorized", "currency": "EUR"},
	})
	at := benchStart.Add(time.Duration(n) * benchStep)
	return triage.Message{
		ID: fmt.Sprintf("m-%d", n), Queue: fmt.Sprintf("queue-%d", random.IntN(20)), FailedQueue: "failed", Exchange: "shop", Key: pickOne(random, []string{"orders.eu.created", "orders.us.created"}),
		Kind: pickOne(random, benchKinds), Error: fmt.Sprintf(pickOne(random, benchErrors), random.IntN(250)), Attempts: 5, FailedAt: at, FirstFailed: at.Add(-time.Hour), Host: fmt.Sprintf("worker-%d", random.IntN(12)),
		Headers: map[string]any{"tenant": fmt.Sprintf("t-%d", random.IntN(200)), "trace": fmt.Sprintf("%016x", random.Uint64()), "retries": int32(5)}, Body: body, ContentType: "application/json",
	}
}

// textSize is what a message would take as text.
func textSize(m *triage.Message) int {
	size := len(m.ID) + len(m.Queue) + len(m.FailedQueue) + len(m.Exchange) + len(m.Key) + len(m.Kind) + len(m.Error) + len(m.Host) + len(m.ContentType) + len(m.Body)
	for name, value := range m.Headers {
		size += len(name) + len(fmt.Sprint(value))
	}
	return size
}

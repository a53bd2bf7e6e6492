package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/lab"
)

// orderedKeys is how many keys the messages of TestOrdered have.
const orderedKeys = 1000

// TestOrdered compares a subscription with OrderBy with one without it, and one with partitions, on the same broker and in turn: how many
// messages are published and handled per second, from a full queue, and how long messages take when one key in a hundred fails.
func TestOrdered(t *testing.T) {
	r := lab.Single(t)
	client, err := rehop.Open(t.Context(), rehop.Config{URL: r.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close(context.Background()) }()
	const partitions = 4
	var plain, ordered, split, ratios, splitRatios, published, publishRatios []float64
	for round := range *rounds {
		var toQueue, p, o, toSplit, s float64
		measures := []func(){
			func() { toQueue, p = emptied(t, client, fmt.Sprint("plain-", round), nil, 0) },
			func() { _, o = emptied(t, client, fmt.Sprint("ordered-", round), orderKey, 1) },
			func() { toSplit, s = emptied(t, client, fmt.Sprint("partitions-", round), orderKey, partitions) },
		}
		for _, at := range rand.Perm(len(measures)) { // what the broker still does for one slows down the next
			measures[at]()
		}
		t.Logf("round %d: handled per second: plain=%.0f ordered=%.0f partitions=%.0f", round, p, o, s)
		plain, ordered, ratios = append(plain, p), append(ordered, o), append(ratios, o/p)
		split, splitRatios = append(split, s), append(splitRatios, s/p)
		published, publishRatios = append(published, toSplit), append(publishRatios, toSplit/toQueue)
	}
	t.Logf("handled per second: plain=%.0f ordered=%.0f ratio=%.2f", median(plain), median(ordered), median(ratios))
	t.Logf("with %d partitions in one process: handled=%.0f ratio=%.2f published=%.0f ratio to one queue=%.2f",
		partitions, median(split), median(splitRatios), median(published), median(publishRatios))
	var calm, failing, slower []float64
	for round := range *rounds {
		c := latency(t, client, fmt.Sprint("calm-", round), 0)
		f := latency(t, client, fmt.Sprint("failing-", round), orderedKeys/100)
		calm, failing, slower = append(calm, c), append(failing, f), append(slower, f/c)
	}
	t.Logf("p99 of keys that do not fail, in milliseconds: none fails=%.1f one in a hundred fails=%.1f ratio=%.2f", median(calm), median(failing), median(slower))
	if share := median(ratios); *judge && share < 0.9 {
		t.Errorf("an ordered subscription has %.2f of the rate of one without order, want 0.9", share)
	}
	if times := median(slower); *judge && times > 2 {
		t.Errorf("the p99 of keys that do not fail is %.2f times as long when others fail, want at most 2", times)
	}
}

func orderKey(d *rehop.Delivery) string { return d.Type }

// emptied measures how many messages per second are published, and a subscription handles from a full queue.
func emptied(t *testing.T, client *rehop.Client, queue string, orderBy func(*rehop.Delivery) string, partitions int) (published, emptied float64) {
	t.Helper()
	var (
		handled atomic.Int64
		began   time.Time // when the first message was handled: an ordered subscription first reads what waits
	)
	done := make(chan struct{})
	s := rehop.Subscriber{Queue: queue, Concurrency: *concurrency, Prefetch: max(128, 2**concurrency), OrderBy: orderBy, Partitions: partitions,
		Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
			switch handled.Add(1) {
			case 1:
				began = time.Now()
			case int64(*messages):
				close(done)
			}
			return nil
		})}
	declared, err := client.Subscribe(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := declared.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	batch := make([]rehop.Message, *messages)
	for i := range batch {
		batch[i] = rehop.Message{Key: queue, Type: fmt.Sprint("key ", i%orderedKeys), Body: make([]byte, *size)}
		if partitions > 1 {
			batch[i].Exchange, batch[i].OrderKey = queue+".split", batch[i].Type
		}
	}
	publishing := time.Now()
	if err := client.PublishBatch(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	published = float64(*messages) / time.Since(publishing).Seconds()
	running, err := client.Subscribe(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	<-done
	took := time.Since(began)
	if err := running.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	return published, float64(*messages) / took.Seconds()
}

// latency measures the p99 of the time from publishing to the end of the handler, in milliseconds, of keys that do not fail.
func latency(t *testing.T, client *rehop.Client, queue string, failing int) float64 {
	t.Helper()
	var (
		mu    sync.Mutex
		times []time.Duration
		over  = make(chan struct{})
	)
	fails := func(kind string) bool {
		n, _ := strconv.Atoi(strings.TrimPrefix(kind, "key "))
		return n < failing
	}
	want := 0
	for i := range *messages {
		if !fails(fmt.Sprint("key ", i%orderedKeys)) {
			want++
		}
	}
	s := rehop.Subscriber{Queue: queue, Concurrency: *concurrency, OrderBy: orderKey, Retry: rehop.Steps(time.Second, 10*time.Second), MaxHeld: 50_000,
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if fails(d.Type) {
				return errors.New("fails")
			}
			sent, _ := strconv.ParseInt(string(d.Body), 10, 64)
			mu.Lock()
			defer mu.Unlock()
			if times = append(times, time.Since(time.Unix(0, sent))); len(times) == want {
				close(over)
			}
			return nil
		})}
	running, err := client.Subscribe(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var publishing sync.WaitGroup
	const goroutines = 8 // so that the queue stays short
	for g := range goroutines {
		publishing.Go(func() {
			for i := g; i < *messages; i += goroutines {
				m := rehop.Message{Key: queue, Type: fmt.Sprint("key ", i%orderedKeys), Body: []byte(strconv.FormatInt(time.Now().UnixNano(), 10))}
				if err := client.Publish(t.Context(), m); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	publishing.Wait()
	<-over
	if err := running.Stop(); err != nil {
		t.Error(err)
	}
	slices.Sort(times)
	return float64(times[len(times)*99/100].Microseconds()) / 1000
}

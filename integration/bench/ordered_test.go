package bench

import (
	"context"
	"errors"
	"fmt"
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

// TestOrdered compares a subscription with OrderBy with one without it, on the same broker and in turn: how many messages it handles
// per second from a full queue, and how long messages take when one key in a hundred fails.
func TestOrdered(t *testing.T) {
	r := lab.Single(t)
	client, err := rehop.Open(t.Context(), rehop.Config{URL: r.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close(context.Background()) }()
	var plain, ordered, ratios []float64
	for round := range *rounds {
		p := emptied(t, client, fmt.Sprint("plain-", round), nil)
		o := emptied(t, client, fmt.Sprint("ordered-", round), orderKey)
		plain, ordered, ratios = append(plain, p), append(ordered, o), append(ratios, o/p)
	}
	t.Logf("handled per second: plain=%.0f ordered=%.0f ratio=%.2f", median(plain), median(ordered), median(ratios))
	var calm, failing, slower []float64
	for round := range *rounds {
		c := latency(t, client, fmt.Sprint("calm-", round), 0)
		f := latency(t, client, fmt.Sprint("failing-", round), orderedKeys/100)
		calm, failing, slower = append(calm, c), append(failing, f), append(slower, f/c)
	}
	t.Logf("p99 of keys that do not fail, in milliseconds: none fails=%.1f one in a hundred fails=%.1f ratio=%.2f", median(calm), median(failing), median(slower))
}

func orderKey(d *rehop.Delivery) string { return d.Type }

// emptied measures how many messages per second a subscription handles from a full queue.
func emptied(t *testing.T, client *rehop.Client, queue string, orderBy func(*rehop.Delivery) string) float64 {
	t.Helper()
	var handled atomic.Int64
	done := make(chan struct{})
	s := rehop.Subscriber{Queue: queue, Concurrency: *concurrency, Prefetch: max(128, 2**concurrency), OrderBy: orderBy,
		Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
			if handled.Add(1) == int64(*messages) {
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
	}
	if err := client.PublishBatch(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	running, err := client.Subscribe(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	<-done
	took := time.Since(began)
	if err := running.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	return float64(*messages) / took.Seconds()
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

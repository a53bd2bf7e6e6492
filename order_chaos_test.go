package rehop_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// lockedBuffer is a buffer for a logger.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// TestPartitionsEnd: the end of the last subscription to each partition is reported once, also if a client has two subscriptions.
func TestPartitionsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var mu sync.Mutex
		ended := make(map[string]int)
		c := openWith(t, b, func(config *rehop.Config) {
			config.Hooks = []rehop.Hooks{{OnConsumer: func(e rehop.ConsumerEvent) {
				mu.Lock()
				defer mu.Unlock()
				if e.Ended {
					ended[e.Queue]++
				}
			}}}
		})
		log := newPartitionLog()
		subscribe(t, c, partitioned(log.handler("one")))
		subscribe(t, c, partitioned(log.handler("two")))
		time.Sleep(2 * time.Minute)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, queue := range []string{"orders", "orders.split.01", "orders.split.02", "orders.split.03"} {
			if ended[queue] != 1 {
				t.Errorf("the end of %s was reported %d times, want once", queue, ended[queue])
			}
		}
	})
}

// TestReleaseOnce: a partition whose handlers run for long is released once.
func TestReleaseOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		out := new(lockedBuffer)
		one := openWith(t, b, func(config *rehop.Config) { config.Logger = slog.New(slog.NewTextHandler(out, nil)) })
		log := newPartitionLog()
		log.takes = 4 * time.Minute
		subscribe(t, one, partitioned(log.handler("one")))
		publishOrdered(t, b, 20, 0, 1)
		time.Sleep(time.Second)
		two := openWith(t, b, func(config *rehop.Config) {})
		subscribe(t, two, partitioned(log.handler("two")))
		time.Sleep(4 * time.Minute)
		if got := strings.Count(out.text(), "partition is released"); got > 3 {
			t.Errorf("two partitions were released %d times:\n%s", got, out.text())
		}
		time.Sleep(time.Hour)
		_, _ = one.Close(t.Context()), two.Close(t.Context())
	})
}

// TestPartitionsReceive: a subscription that has released a partition still receives.
func TestPartitionsReceive(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newPartitionLog()
		one := openWith(t, b, func(config *rehop.Config) {})
		sub := subscribe(t, one, partitioned(log.handler("one")))
		time.Sleep(time.Minute)
		two := openWith(t, b, func(config *rehop.Config) {})
		subscribe(t, two, partitioned(log.handler("two")))
		not := time.Duration(0)
		for range 2400 {
			time.Sleep(250 * time.Millisecond)
			if !sub.Receiving() {
				not += 250 * time.Millisecond
			}
		}
		if not > 0 {
			t.Errorf("without any fault, the subscription was not Receiving for %v of 10 minutes", not)
		}
		_, _ = one.Close(t.Context()), two.Close(t.Context())
	})
}

// TestPartitionsInChaos: whatever ends and comes back, all messages of all keys are handled, the first time in order.
func TestPartitionsInChaos(t *testing.T) {
	for seed := range uint64(1) {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			first := make(map[string][]string)
			seen := make(map[string]bool)
			running := make(map[string]int)
			handler := rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
				mu.Lock()
				how, takes := rnd.IntN(100), time.Duration(rnd.IntN(3000))*time.Millisecond
				running[d.OrderKey]++
				mu.Unlock()
				switch {
				case how < 60:
					takes = 10 * time.Millisecond
				case how < 62:
					select {
					case <-ctx.Done():
					case <-time.After(time.Minute):
					}
				}
				time.Sleep(takes)
				mu.Lock()
				defer mu.Unlock()
				running[d.OrderKey]--
				switch {
				case ctx.Err() != nil:
					return ctx.Err()
				case how > 97 && d.Attempt < 3:
					return errNotYet
				case how > 95:
					return rehop.Postpone(5*time.Second, errNotYet)
				case how > 94:
					return rehop.Unavailable(errNotYet)
				}
				if how == 94 {
					defer runtime.Goexit()
					return nil
				}
				if !seen[d.ID] {
					seen[d.ID] = true
					first[d.OrderKey] = append(first[d.OrderKey], d.ID)
				}
				return nil
			})
			config := partitioned(handler)
			config.Retry = rehop.Steps(5*time.Second, 5*time.Second, 5*time.Second, 5*time.Second, 5*time.Second, 5*time.Second, 5*time.Second, 5*time.Second)
			config.Timeout, config.StuckAfter, config.CrashLimit = 20*time.Second, 2*time.Second, 40
			config.Concurrency, config.Prefetch = 2, 16
			clients := make(map[int]*rehop.Client)
			number := 0
			start := func() {
				c := openWith(t, b, func(*rehop.Config) {})
				number++
				clients[number] = c
				subscribe(t, c, config)
			}
			start()
			go func() {
				publishOrdered(t, b, 30, 0, 0)
			}()
			for step := range 40 {
				publishOrdered(t, b, 30, step, step+1)
				mu.Lock()
				what, wait := rnd.IntN(10), time.Duration(rnd.IntN(40000))*time.Millisecond
				mu.Unlock()
				switch {
				case what < 3 && len(clients) < 4:
					start()
				case what < 5 && len(clients) > 1:
					n := slices.Sorted(maps.Keys(clients))[0]
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					_ = clients[n].Close(ctx)
					cancel()
					delete(clients, n)
				case what < 6:
					b.Drop()
				}
				time.Sleep(wait)
			}
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			mu.Lock()
			for key := range 30 {
				name := fmt.Sprint("k", key)
				if len(first[name]) != 40 || !slices.IsSorted(first[name]) {
					t.Errorf("seed %d: of %s have ended %d: %v", seed, name, len(first[name]), first[name])
				}
				if running[name] != 0 {
					t.Errorf("seed %d: %d still run", seed, running[name])
				}
			}
			mu.Unlock()
			for _, c := range clients {
				_ = c.Close(t.Context())
			}
		})
	}
}

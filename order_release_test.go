package rehop_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// TestReleaseOfSlowPartition: a partition that cannot be released yet, because one handler runs for long, does not keep the process from releasing others, and
// does not hold up the other keys of the partition.
func TestReleaseOfSlowPartition(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var mu sync.Mutex
		began := time.Now()
		at := make(map[string]time.Duration)
		owns := make(map[string]map[string]bool)
		open := func(process string) *rehop.Client {
			owns[process] = make(map[string]bool)
			c := openWith(t, b, func(config *rehop.Config) {
				config.Hooks = []rehop.Hooks{{OnHeld: func(e rehop.HeldEvent) {
					mu.Lock()
					defer mu.Unlock()
					owns[process][e.Queue] = e.Owner
				}}}
			})
			subscribe(t, c, partitioned(rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				if d.ID == "slow" {
					time.Sleep(4 * time.Minute)
				}
				mu.Lock()
				defer mu.Unlock()
				at[d.ID] = time.Since(began)
				return nil
			})))
			return c
		}
		clients := []*rehop.Client{open("one")}
		time.Sleep(5 * time.Second)
		publish(t, b.Client, rehop.Message{Key: "orders.split.03", OrderKey: "slow", ID: "slow"})
		time.Sleep(time.Second)
		clients = append(clients, open("two"), open("three"))
		time.Sleep(10 * time.Second)
		publish(t, b.Client, rehop.Message{Key: "orders.split.03", OrderKey: "quick", ID: "quick"})
		time.Sleep(2 * time.Minute)
		mu.Lock()
		var shares []int
		for _, all := range owns {
			n := 0
			for _, own := range all {
				if own {
					n++
				}
			}
			shares = append(shares, n)
		}
		slices.Sort(shares)
		t.Logf("shares of the processes after 2 minutes: %v", shares)
		if shares[0] == 0 {
			t.Errorf("shares of the processes after 2 minutes: %v, want that each has one", shares)
		}
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		mu.Lock()
		if at["quick"] > time.Minute {
			t.Errorf("a message of another key was handled after %v, behind one whose handler takes 4 minutes (%v)", at["quick"], at["slow"])
		}
		mu.Unlock()
		for _, c := range clients {
			_ = c.Close(t.Context())
		}
	})
}

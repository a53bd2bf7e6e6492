package rehop_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/rehoptest"
)

// TestOrderSlowAnswers: whatever becomes of a message that was exchanged with its copy while it ran, order is kept, and each run has a result.
func TestOrderSlowAnswers(t *testing.T) {
	for name, answer := range map[string]func(ctx context.Context) error{
		"postponed":   func(context.Context) error { return rehop.Postpone(time.Minute, errNotYet) },
		"discarded":   func(context.Context) error { return rehop.Discard(errNotYet) },
		"unavailable": func(context.Context) error { return rehop.Unavailable(errNotYet) },
		"goexit":      func(context.Context) error { runtime.Goexit(); return nil },
		"panic":       func(context.Context) error { panic("x") },
		"stuck":       func(context.Context) error { time.Sleep(20 * time.Minute); return nil },
	} {
		for _, after := range []rehop.AfterFail{rehop.Skip, rehop.Halt} {
			t.Run(fmt.Sprint(name, after), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
					var r results
					c := r.client(t, b)
					runs := 0
					log := &orderLog{answer: func(ctx context.Context, d *rehop.Delivery) error {
						if d.ID == "slow/01" {
							if runs++; runs < 4 {
								time.Sleep(3 * time.Minute)
								return answer(ctx)
							}
						}
						return nil
					}}
					subscribe(t, c, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Concurrency: 4, Prefetch: 8, Retry: rehop.Steps(time.Minute, time.Minute, time.Minute, time.Minute), AfterFail: after})
					var want []string
					for i := range 30 {
						want = append(want, fmt.Sprintf("slow/%02d", i+1))
					}
					publishKeys(t, b, "orders", want...)
					publishKeys(t, b, "orders", "b/1", "b/2")
					time.Sleep(30 * time.Second)
					if got := log.of("b"); len(got) != 2 {
						t.Errorf("%s: of b have ended %v", name, got)
					}
					time.Sleep(3 * time.Hour)
					synctest.Wait()
					if name == "discarded" {
						want = want[1:]
					}
					got := log.of("slow")
					if name == "stuck" { // those that return later
						got = got[:len(want)]
					}
					if !slices.Equal(got, want) {
						t.Errorf("%s: have ended %v, want %v; begun %v", name, got, want, log.begun)
					}
					r.mu.Lock()
					defer r.mu.Unlock()
					for id, n := range r.runs {
						if len(r.results[id]) != n && name != "unavailable" {
							t.Errorf("%s: %s has %d runs and results %v", name, id, n, r.results[id])
						}
					}
				})
			})
		}
	}
}

// TestOrderInChaos: few keys with many messages each, little room in the held queue, and all answers.
func TestOrderInChaos(t *testing.T) {
	for seed := range uint64(2) {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			halt := seed%2 == 1
			var mu sync.Mutex
			first := make(map[string][]string)
			seen := make(map[string]bool)
			running := make(map[string]int)
			twice := 0
			handler := rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
				key := byKey(d)
				mu.Lock()
				how, takes := rnd.IntN(100), time.Duration(rnd.IntN(4000))*time.Millisecond
				if running[key]++; running[key] > 1 {
					twice++
				}
				mu.Unlock()
				if how < 30 {
					takes = 10 * time.Millisecond
				}
				select {
				case <-ctx.Done():
				case <-time.After(takes):
				}
				mu.Lock()
				defer mu.Unlock()
				running[key]--
				switch {
				case ctx.Err() != nil:
					return ctx.Err()
				case how > 92:
					return errNotYet
				case how > 87:
					return rehop.Postpone(time.Duration(rnd.IntN(10))*time.Second, errNotYet)
				case how > 84:
					return rehop.Unavailable(errNotYet)
				case how > 83 && halt:
					return rehop.Permanent(errNotYet)
				}
				if !seen[d.ID] {
					seen[d.ID] = true
					first[key] = append(first[key], d.ID)
				}
				return nil
			})
			var steps []time.Duration
			for range 20 {
				steps = append(steps, time.Duration(1+rnd.IntN(8))*time.Second)
			}
			config := rehop.Subscriber{Queue: "orders", Handler: handler, OrderBy: byKey, Concurrency: 3, Prefetch: 6, MaxHeld: 1 + int(seed)*3, CrashLimit: 40,
				Retry: rehop.Steps(steps...), ProbeMax: 3 * time.Second}
			if halt {
				config.AfterFail = rehop.Halt
			}
			one := openWith(t, b, func(*rehop.Config) {})
			subscribe(t, one, config)
			two := openWith(t, b, func(*rehop.Config) {})
			sub := subscribe(t, two, config)
			next := make(map[string]int)
			a := openAdmin(t, b)
			for range 30 {
				for range 12 {
					key := []string{"a", "a", "a", "a", "b", "b", "c", fmt.Sprint("r", rnd.IntN(6))}[rnd.IntN(8)]
					publishKeys(t, b, "orders", fmt.Sprintf("%s/%03d", key, next[key]))
					next[key]++
				}
				mu.Lock()
				what, wait := rnd.IntN(10), time.Duration(rnd.IntN(20000))*time.Millisecond
				mu.Unlock()
				switch {
				case what < 1:
					b.Drop()
				case what < 3:
					_ = sub.Stop()
					sub = subscribe(t, two, config)
				case what < 5:
					_, _ = a.Replay(t.Context(), "orders", admin.Options{})
				}
				time.Sleep(wait)
			}
			for range 60 {
				time.Sleep(20 * time.Minute)
				_, _ = a.Replay(t.Context(), "orders", admin.Options{})
			}
			synctest.Wait()
			mu.Lock()
			for key, n := range next {
				if len(first[key]) != n || !slices.IsSorted(first[key]) {
					t.Errorf("seed %d: of %s have ended %d of %d: %v", seed, key, len(first[key]), n, first[key])
				}
			}
			t.Logf("seed %d: %d began while another of the key ran", seed, twice)
			mu.Unlock()
			_, _ = one.Close(t.Context()), two.Close(t.Context())
		})
	}
}

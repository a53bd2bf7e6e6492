package rehop_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
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
					var runs atomic.Int64 // a stuck handler runs while the next one does
					log := &orderLog{answer: func(ctx context.Context, d *rehop.Delivery) error {
						if d.ID == "slow/01" {
							if runs.Add(1) < 4 {
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

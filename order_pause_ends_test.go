package rehop_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// TestOrderPauseMoves: a process pauses, and another one takes over and handles the message that was to probe. When the first one is the
// owner again, it handles messages, and it reports that it does not pause any more.
func TestOrderPauseMoves(t *testing.T) {
	for _, c := range []struct {
		name       string
		rate       float64
		partitions int
	}{{"plain", 0, 0}, {"rate", 10, 0}, {"partitions", 0, 2}, {"partitions and rate", 10, 2}} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				var mu sync.Mutex
				var down atomic.Bool
				paused := make(map[string]bool)
				down.Store(true)
				ended := make(map[string]string)
				runs := 0
				handler := func(process string) rehop.Handler {
					return rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
						mu.Lock()
						defer mu.Unlock()
						runs++
						if process == "one" && down.Load() {
							return rehop.Unavailable(errNotYet)
						}
						ended[d.ID] = process
						return nil
					})
				}
				config := partitioned(nil)
				config.Partitions, config.Rate = c.partitions, c.rate
				one := openWith(t, b, func(config *rehop.Config) {
					config.Hooks = []rehop.Hooks{{OnPause: func(e rehop.PauseEvent) {
						mu.Lock()
						defer mu.Unlock()
						paused[e.Queue] = e.Paused
					}}}
				})
				config.Handler = handler("one")
				subscribe(t, one, config)
				var ids []string
				for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
					ids = append(ids, key)
					publish(t, b.Client, rehop.Message{Exchange: "shop", OrderKey: key, ID: key})
				}
				time.Sleep(10 * time.Second)
				two := openWith(t, b, func(*rehop.Config) {})
				config.Handler = handler("two")
				sub := subscribe(t, two, config)
				time.Sleep(11 * time.Minute) // a session of one ends, and two takes over
				down.Store(false)
				time.Sleep(2 * time.Minute)
				if err := sub.Drain(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				for _, key := range []string{"x1", "x2", "x3", "x4", "x5", "x6"} {
					ids = append(ids, key)
					publish(t, b.Client, rehop.Message{Exchange: "shop", OrderKey: key, ID: key})
				}
				time.Sleep(30 * time.Minute)
				mu.Lock()
				for _, id := range ids {
					if ended[id] == "" {
						t.Errorf("%s was not handled within half an hour, though nothing is down", id)
					}
				}
				for queue, still := range paused {
					if still {
						t.Errorf("%s pauses, says OnPause, though it does not", queue)
					}
				}
				t.Logf("%d runs, %v", runs, ended)
				mu.Unlock()
				_ = one.Close(t.Context())
				_ = two.Close(t.Context())
			})
		})
	}
}

// TestOrderPauseAlone: the message that is to find out whether a pause is over has no key, and the session ends meanwhile.
func TestOrderPauseAlone(t *testing.T) {
	for _, rate := range []float64{0, 10} {
		for _, how := range []string{"dropped", "skipped", "session"} {
			t.Run(how, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
					var mu sync.Mutex
					var down, paused atomic.Bool
					down.Store(true)
					ended := make(map[string]bool)
					c := openWith(t, b, func(config *rehop.Config) {
						config.Hooks = []rehop.Hooks{{OnPause: func(e rehop.PauseEvent) { paused.Store(e.Paused) }}}
					})
					config := partitioned(rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
						mu.Lock()
						defer mu.Unlock()
						switch {
						case d.ID == "first" && d.Attempt == 1 && how == "skipped":
							return errNotYet
						case down.Load():
							return rehop.Unavailable(errNotYet)
						}
						ended[d.ID] = true
						return nil
					}))
					config.Partitions, config.Rate = 0, rate
					config.OrderBy = func(d *rehop.Delivery) string {
						if how == "skipped" {
							return d.ID
						}
						return ""
					}
					subscribe(t, c, config)
					publish(t, b.Client, rehop.Message{Exchange: "shop", ID: "first"})
					time.Sleep(30 * time.Second)
					switch how {
					case "dropped":
						b.Drop()
						time.Sleep(5 * time.Second)
					case "skipped":
						if err := openAdmin(t, b).Skip(t.Context(), "orders", "first"); err != nil {
							t.Error(err)
						}
						time.Sleep(40 * time.Second)
					case "session":
						time.Sleep(11 * time.Minute)
					}
					down.Store(false)
					publish(t, b.Client, rehop.Message{Exchange: "shop", ID: "second"})
					time.Sleep(30 * time.Minute)
					mu.Lock()
					if how != "skipped" && !ended["first"] || !ended["second"] {
						t.Errorf("rate %v: have ended %v, want both messages", rate, ended)
					}
					mu.Unlock()
					if paused.Load() {
						t.Errorf("rate %v: OnPause says that the subscription still pauses", rate)
					}
					_ = c.Close(t.Context())
				})
			})
		}
	}
}

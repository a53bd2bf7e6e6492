package rehop_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/rehoptest"
)

// stamp is a hook that writes into what is sent on.
type stamp func(d *rehop.Delivery, r rehop.Result, headers map[string]any)

func withStamp(s stamp) rehoptest.Option {
	onMove := func(_ context.Context, d *rehop.Delivery, r rehop.Result, headers map[string]any) { s(d, r, headers) }
	return rehoptest.WithConfig(func(c *rehop.Config) { c.Hooks = append(c.Hooks, rehop.Hooks{OnMove: onMove}) })
}

// What a hook adds goes with a message through its attempts to the failed queue, and does not pass for rehop's own.
func TestMoveHookAddsHeaders(t *testing.T) {
	add := withStamp(func(d *rehop.Delivery, r rehop.Result, headers map[string]any) {
		headers["stamp"] = string(r.Outcome) + " after " + d.Key
		headers["rehop-attempt"] = 7
	})
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(fail)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Minute), Handler: log})
		publish(t, b.Client, rehop.Message{Key: "q", Headers: map[string]any{"own": "kept"}})
		failed := b.AwaitFailed("q", 1)
		runs := log.all()
		if len(runs) != 2 || runs[0].Headers["stamp"] != nil || runs[1].Headers["stamp"] != "retry after q" {
			t.Errorf("handled as %v, want one run without a stamp and one with that of the retry", runs)
		}
		if got := failed[0]; got.Headers["stamp"] != "failed after q" || got.Headers["own"] != "kept" || got.Attempts != 2 {
			t.Errorf("at rest with headers %v after %d attempts, want the stamp of the failure, the message's own header, and 2", got.Headers, got.Attempts)
		}
	}, add)
}

// What a hook writes for itself goes with a message until it is overwritten, also through a replay, and handlers do not see it.
func TestMoveHookWritesForItself(t *testing.T) {
	const first, last = rehop.HookPrefix + "first", rehop.HookPrefix + "last"
	add := withStamp(func(d *rehop.Delivery, r rehop.Result, headers map[string]any) {
		if d.HookHeader(first) == nil {
			headers[first] = string(r.Outcome)
		}
		headers[last] = string(r.Outcome)
	})
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(func(_ context.Context, d *rehop.Delivery) error {
			if d.Replays == 0 {
				return errNotYet
			}
			return nil
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Minute), Handler: log})
		publish(t, b.Client, rehop.Message{Key: "q", Headers: map[string]any{"own": "kept"}})
		b.AwaitFailed("q", 1)
		desk, err := admin.Open(t.Context(), admin.Config{URL: b.Config().URL, Dial: b.Config().Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer desk.Close()
		if _, err := desk.Replay(t.Context(), "q", admin.Options{}); err != nil {
			t.Fatal(err)
		}
		b.AwaitEmpty("q")
		var got []string
		for _, run := range log.all() {
			got = append(got, fmt.Sprint(run.HookHeader(first), " ", run.HookHeader(last), " ", run.HookHeader("own")))
			if len(run.Headers) != 1 {
				t.Errorf("the handler sees %v, want the publisher's own header", run.Headers)
			}
		}
		if want := []string{"<nil> <nil> <nil>", "retry retry <nil>", "retry failed <nil>"}; !slices.Equal(got, want) {
			t.Errorf("first and last at each run: got %q, want %q", got, want)
		}
	}, add)
}

// opening is a hook that keeps what it hears of a client.
type opening struct {
	config  rehop.Config
	changes chan rehop.StateChange
}

func (o *opening) OnOpen(c rehop.Config)       { o.config = c }
func (o *opening) OnState(c rehop.StateChange) { o.changes <- c }

// Hooks learn with which settings a client opens, and to which broker it is connected.
func TestHooksLearnOfTheBroker(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		hook := &opening{changes: make(chan rehop.StateChange, 100)}
		config := b.Config()
		config.URL, config.Hooks = "amqp://guest:guest@shop.example:1234/?heartbeat=7", append(config.Hooks, rehop.Hooks{OnOpen: hook.OnOpen, OnState: hook.OnState})
		config.Exchanges = []rehop.Exchange{{Name: "order"}}
		client, err := rehop.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if c := <-hook.changes; c.State != rehop.StateOpen || c.Address != "shop.example:1234" {
				t.Errorf("got %+v, want an open connection to shop.example:1234", c)
			}
		}
		if len(hook.config.Exchanges) != 1 || hook.config.MaxBody == 0 {
			t.Errorf("opened with %+v, want the exchange, and defaults where nothing was set", hook.config)
		}
		if want := "amqp://guest@shop.example:1234/?heartbeat=7"; hook.config.URL != want || !slices.Equal(hook.config.URLs, []string{want}) {
			t.Errorf("opened with URL %q and URLs %q, want %q without the password in both", hook.config.URL, hook.config.URLs, want)
		}
		if err := client.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if c := <-hook.changes; c.State != rehop.StateClosed || c.Address != "" {
				t.Errorf("got %+v, want a closed connection without an address", c)
			}
		}
	})
}

// A message does not suffer by what a hook adds: too much of it, or what AMQP has no form for, is left out.
func TestMoveHookCannotHarm(t *testing.T) {
	for name, value := range map[string]any{"too large": strings.Repeat("x", 200<<10), "no value of AMQP": struct{}{}} {
		t.Run(name, func(t *testing.T) {
			add := withStamp(func(_ *rehop.Delivery, _ rehop.Result, headers map[string]any) { headers["stamp"] = value })
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				log := newLogbook(func(_ context.Context, d *rehop.Delivery) error {
					if d.Attempt == 1 {
						return errNotYet
					}
					return nil
				})
				subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Minute), Handler: log})
				publish(t, b.Client, rehop.Message{Key: "q", Headers: map[string]any{"own": "kept"}})
				b.AwaitEmpty("q")
				runs := log.all()
				if len(runs) != 2 || runs[1].Headers["own"] != "kept" || runs[1].Headers["stamp"] != nil || runs[1].LastError != errNotYet.Error() {
					t.Errorf("handled as %v, want a second run with its history and without the stamp", runs)
				}
			}, add)
		})
	}
}

package rehop_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// stamp is a hook that writes into what is sent on.
type stamp func(d *rehop.Delivery, r rehop.Result, headers map[string]any)

func (s stamp) OnMove(_ context.Context, d *rehop.Delivery, r rehop.Result, headers map[string]any) {
	s(d, r, headers)
}

func withStamp(s stamp) rehoptest.Option {
	return rehoptest.WithConfig(func(c *rehop.Config) { c.Hooks = append(c.Hooks, s) })
}

// What a hook adds goes with a message through its attempts to the failed queue, and does not pass for rehop's own.
func TestMoveHookAddsHeaders(t *testing.T) {
	add := withStamp(func(d *rehop.Delivery, r rehop.Result, headers map[string]any) {
		headers["stamp"] = string(r.Outcome) + " after " + d.Key
		headers["rehop-attempt"] = 7
	})
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(fail)
		subscribe(t, b.Client, rehop.Subscription{Queue: "q", Retry: rehop.Steps(time.Minute), Handler: log})
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
				subscribe(t, b.Client, rehop.Subscription{Queue: "q", Retry: rehop.Steps(time.Minute), Handler: log})
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

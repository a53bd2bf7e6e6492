package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// A postponed message comes back when its time is over, as often as its handler wants, and has all its attempts left.
func TestPostpone(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]layout.Layout{
		"native": layout.Native{}, "dlx": layout.DLX{}, "sneakers": layout.Sneakers{}, "tiers": layout.Tiers{}, "pubsub": layout.PubSub{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				const times = 20
				hindered := errors.New("somebody else has it")
				runs := 0
				log := newLogbook(func(context.Context, *rehop.Delivery) error {
					if runs++; runs <= times {
						return fmt.Errorf("wrapped: %w", rehop.Postpone(time.Minute, hindered))
					}
					return nil
				})
				outcomes := make(chan rehop.Result, 100)
				config := b.Config()
				config.Hooks = append(config.Hooks, rehop.Hooks{OnResult: func(_ context.Context, _ *rehop.Delivery, r rehop.Result) { outcomes <- r }})
				client, err := rehop.Open(t.Context(), config)
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close(context.Background())
				subscribe(t, client, rehop.Subscriber{Queue: "q", Exchange: "x", Keys: []string{"k"}, Layout: by, Handler: log})
				publish(t, client, rehop.Message{ID: "1", Exchange: "x", Key: "k", Headers: map[string]any{"kept": "yes"}})
				for range times {
					if r := <-outcomes; r.Outcome != rehop.OutcomePostponed || r.Delay != time.Minute || !errors.Is(r.Err, hindered) {
						t.Fatalf("outcome: got %+v, want that it is postponed for a minute", r)
					}
				}
				if r := <-outcomes; r.Outcome != rehop.OutcomeDone {
					t.Errorf("last outcome: got %+v, want done", r)
				}
				for i, r := range log.all() {
					if r.Attempt != 1 || r.ID != "1" || r.Key != "k" || r.Headers["kept"] != "yes" {
						t.Errorf("run %d: got attempt %d of %q with key %q and headers %v, want the first attempt of the same message", i+1, r.Attempt, r.ID, r.Key, r.Headers)
					}
					within(t, fmt.Sprint("run ", i+1), r.at, time.Duration(i)*time.Minute, time.Duration(i)*(time.Minute+layouts.DelayUnit))
				}
			})
		})
	}
}

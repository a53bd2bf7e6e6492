package rehop_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// A message that gets no confirm costs its channel, and not the connection that others publish on.
func TestStalledConfirmKeepsConnection(t *testing.T) {
	for round := range 10 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				seen := newStates()
				config := b.Config()
				config.Hooks = append(config.Hooks, rehop.Hooks{OnState: seen.OnState})
				client, err := rehop.Open(t.Context(), config)
				if err != nil {
					t.Fatal(err)
				}
				for _, queue := range []string{"stalled", "q"} {
					sub := subscribe(t, client, rehop.Subscriber{Queue: queue, Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })})
					defer sub.Stop()
				}
				var once sync.Once
				b.HoldConfirmsOf(func(_, key string) (hold bool) {
					if key == "stalled" {
						once.Do(func() { hold = true })
					}
					return hold
				})
				var publishers sync.WaitGroup
				publishers.Go(func() {
					if err := client.Publish(context.Background(), rehop.Message{Key: "stalled"}); err != nil {
						t.Errorf("publish what gets no confirm at first: got %v, want nil", err)
					}
				})
				done, stop := context.WithCancel(context.Background())
				for range 8 {
					publishers.Go(func() {
						for done.Err() == nil {
							if err := client.Publish(context.Background(), rehop.Message{Key: "q", Body: make([]byte, 5000)}); err != nil {
								t.Errorf("publish beside it: got %v, want nil", err)
							}
							time.Sleep(time.Second)
						}
					})
				}
				time.Sleep(3 * time.Minute)
				stop()
				publishers.Wait()
				synctest.Wait()
				for len(seen.changes) > 0 {
					if c := <-seen.changes; c.State == rehop.StateRecovering {
						t.Errorf("after %v a connection was lost: %v", c.at, c.Err)
					}
				}
				if err := client.Close(context.Background()); err != nil {
					t.Errorf("close: got %v, want nil", err)
				}
			})
		})
	}
}

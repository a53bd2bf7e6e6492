package rehop_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// Messages that are sent round are there once, whenever the subscription is drained.
func TestDrainedWhileSentRound(t *testing.T) {
	const messages = 40
	for after := range 12 {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				ch := channel(t, b)
				handled := make(map[string]int)
				var mu sync.Mutex
				began := make(chan struct{}, 2*messages)
				config := rehop.Subscriber{Queue: "q", QueueType: layout.Classic, Concurrency: 8, Prefetch: 16,
					Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
						mu.Lock()
						handled[d.ID]++
						mu.Unlock()
						began <- struct{}{}
						return nil
					})}
				if err := subscribe(t, b.Client, config).Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				for i := range messages {
					publish(t, b.Client, rehop.Message{ID: fmt.Sprint(i), Key: "q"})
				}
				// A consumer dies with all of them, so each is sent round to count that.
				if _, err := ch.Consume("q", "", false, false, false, false, nil); err != nil {
					t.Fatal(err)
				}
				if err := ch.Close(); err != nil {
					t.Fatal(err)
				}
				s := subscribe(t, b.Client, config)
				for range after {
					<-began
				}
				if err := s.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				subscribe(t, b.Client, config)
				b.AwaitEmpty("q")
				for i := range messages {
					if n := handled[fmt.Sprint(i)]; n != 1 {
						t.Errorf("message %d: handled %d times, want once", i, n)
					}
				}
			})
		})
	}
}

package rehop_test

import (
	"context"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// Acks are merged, and yet a message that none follows is acked soon.
func TestLoneMessageIsAckedSoon(t *testing.T) {
	const soon = 100 * time.Millisecond
	for name, s := range map[string]rehop.Subscriber{
		"one worker":   {Queue: "q", Concurrency: 1},
		"many workers": {Queue: "q", Concurrency: 50, Prefetch: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				ended := make(chan struct{})
				s.Handler = rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
					defer func() { ended <- struct{}{} }()
					return nil
				})
				subscribe(t, b.Client, s)
				for i := range 5 {
					publish(t, b.Client, rehop.Message{Key: "q"})
					<-ended
					time.Sleep(soon)
					if ready, unacked := b.Depth("q"); ready != 0 || unacked != 0 {
						t.Errorf("message %d: got %d ready and %d unacked %v after its handler ended, want none", i, ready, unacked, soon)
					}
				}
			})
		})
	}
}

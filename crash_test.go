package rehop_test

import (
	"context"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// A message that ends every connection on which it is handled goes to the failed queue, and others that are near it do not.
func TestCrashLimit(t *testing.T) {
	const limit = 6
	for _, kind := range []layout.QueueType{layout.Quorum, layout.Classic} {
		t.Run(string(kind), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				handled := make(chan string, 1000)
				subscribe(t, b.Client, rehop.Subscriber{Queue: "q", QueueType: kind, Concurrency: 4, CrashLimit: limit,
					Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
						handled <- d.ID
						if d.ID == "bad" {
							b.Drop()
						}
						return nil
					})})
				for _, id := range []string{"good 1", "bad", "good 2", "good 3"} {
					publish(t, b.Client, rehop.Message{ID: id, Key: "q"})
				}
				b.AwaitEmpty("q")
				failed := b.AwaitFailed("q", 1)
				for _, m := range failed {
					if m.ID != "bad" || m.Kind != "crash" {
						t.Errorf("failed: got %q, %s, want only the bad message, of the kind crash", m.ID, m.Kind)
					}
				}
				close(handled)
				runs := make(map[string]int)
				for id := range handled {
					runs[id]++
				}
				if runs["bad"] != limit || len(failed) != 1 {
					t.Errorf("the bad message: got %d runs and %d copies in the failed queue, want %d and 1", runs["bad"], len(failed), limit)
				}
				for _, id := range []string{"good 1", "good 2", "good 3"} {
					if runs[id] == 0 {
						t.Errorf("message %q was never handled", id)
					}
				}
			})
		})
	}
}

package rehop_test

import (
	"context"
	"strings"
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
				log := newLogbook(func(ctx context.Context, d *rehop.Delivery) error {
					if d.ID == "bad" {
						b.Drop()
					}
					return nil
				})
				subscribe(t, b.Client, rehop.Subscription{Queue: "q", Handler: log, QueueType: kind, Concurrency: 4, CrashLimit: limit})
				for _, id := range []string{"good 1", "bad", "good 2", "good 3"} {
					publish(t, b.Client, rehop.Message{ID: id, Key: "q"})
				}
				failed := b.AwaitFailed("q", 1)
				b.AwaitEmpty("q")
				if len(failed) != 1 || failed[0].ID != "bad" || failed[0].Kind != "crash" {
					t.Errorf("failed: got %+v, want the bad message, of the kind crash", failed)
				}
				runs := 0
				for _, r := range log.all() {
					if !strings.HasPrefix(r.ID, "good") {
						runs++
					}
				}
				if runs != limit {
					t.Errorf("runs of the bad message: got %d, want %d", runs, limit)
				}
			})
		})
	}
}

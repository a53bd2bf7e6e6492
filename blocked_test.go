package rehop_test

import (
	"context"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// A message that waits for the end of an alarm is sent when the alarm ends, not at some later try.
func TestPublishResumesWithTheBroker(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		const alarm = time.Hour
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })})
		publish(t, b.Client, rehop.Message{Key: "q"}) // a broker blocks only those who have published
		b.Block()
		clock, published := startClock(), make(chan error, 2)
		for range cap(published) { // the first learns of the alarm, the second waits for its end
			go func() { published <- b.Client.Publish(t.Context(), rehop.Message{Key: "q"}) }()
			time.Sleep(alarm / 2)
		}
		if n := len(published); n != 0 {
			t.Errorf("published during the alarm: got %d, want 0", n)
		}
		b.Unblock()
		for range cap(published) {
			if err := <-published; err != nil {
				t.Errorf("publish: got %v, want nil", err)
			}
			within(t, "published after the alarm", clock.now()-alarm, 0, 100*time.Millisecond)
		}
	})
}

package rehop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// A delayed message that is accepted can be delivered: its headers leave room for what the broker adds on its way.
func TestDelayedLargeHeaders(t *testing.T) {
	const unit = 100 * time.Millisecond
	for _, delay := range []time.Duration{time.Second, (1<<10 - 1) * unit, (1<<20 - 1) * unit, (1<<27 - 1) * unit} {
		for _, exchange := range []string{"", "x"} {
			t.Run(delay.String()+exchange, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
					client := openUnbroken(t, b)
					defer client.Close(context.Background())
					log := newLogbook(succeed)
					sub := rehop.Subscriber{Queue: strings.Repeat("q", 180), Handler: log}
					key := sub.Queue
					if exchange != "" {
						sub.Exchange, key = exchange, strings.Repeat("k", 200)
					}
					subscribe(t, client, sub)
					err := rehop.ErrTooLarge
					for n := 1 << 17; errors.Is(err, rehop.ErrTooLarge); n -= 8 {
						err = client.Publish(t.Context(), rehop.Message{Exchange: exchange, Key: key, Delay: delay, Headers: map[string]any{"large": strings.Repeat("x", n)}})
					}
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(delay + time.Hour)
					if n := len(log.all()); n != 1 {
						t.Errorf("handled %d times, want once", n)
					}
				})
			})
		}
	}
}

// A message that is too large to be postponed goes to the failed queue, and its handler does not run again and again.
func TestPostponeLargeHeaders(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(func(context.Context, *rehop.Delivery) error {
			return rehop.Postpone(23*time.Hour+time.Minute+700*time.Millisecond, errNotYet)
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log})
		err := rehop.ErrTooLarge
		for n := 1 << 17; errors.Is(err, rehop.ErrTooLarge); n -= 8 {
			err = b.Client.Publish(t.Context(), rehop.Message{Key: "q", Headers: map[string]any{"large": strings.Repeat("x", n)}})
		}
		if err != nil {
			t.Fatal(err)
		}
		failed := b.AwaitFailed("q", 1)
		if len(log.all()) != 1 || !strings.Contains(failed[0].Error, "cannot wait") {
			t.Errorf("got %d runs and the error %q, want 1 and why it cannot wait", len(log.all()), failed[0].Error)
		}
	})
}

package rehop_test

import (
	"context"
	"errors"
	"sort"
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
		exchanges := []string{"", "x"}
		if delay > 1000*time.Hour { // months of heartbeats take seconds
			exchanges = exchanges[1:]
		}
		for _, exchange := range exchanges {
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
					accepted := publishLargest(t, client, rehop.Message{Exchange: exchange, Key: key, Delay: delay})
					time.Sleep(delay + time.Hour)
					if n := len(log.all()); n != accepted {
						t.Errorf("handled %d messages, want %d", n, accepted)
					}
				})
			})
		}
	}
}

// publishLargest finds the largest header with which a message is accepted, and returns how many were on the way there.
func publishLargest(t *testing.T, client *rehop.Client, m rehop.Message) (accepted int) {
	t.Helper()
	const unit = 8
	sort.Search(1<<17/unit, func(n int) bool {
		m.Headers = map[string]any{"large": strings.Repeat("x", n*unit)}
		err := client.Publish(t.Context(), m)
		if err != nil && !errors.Is(err, rehop.ErrTooLarge) {
			t.Fatal(err)
		}
		if err == nil {
			accepted++
		}
		return err != nil
	})
	if accepted == 0 {
		t.Fatal("no message was accepted")
	}
	return accepted
}

// A message that is too large to be postponed goes to the failed queue, and its handler does not run again and again.
func TestPostponeLargeHeaders(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(func(context.Context, *rehop.Delivery) error {
			return rehop.Postpone(23*time.Hour+time.Minute+700*time.Millisecond, errNotYet)
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log})
		publishLargest(t, b.Client, rehop.Message{Key: "q"})
		failed := b.AwaitFailed("q", 1)
		if !strings.Contains(failed[0].Error, "cannot wait") {
			t.Errorf("got the error %q, want why it cannot wait", failed[0].Error)
		}
		runs := 0
		for _, r := range log.all() {
			if r.ID == failed[0].ID {
				runs++
			}
		}
		if runs != 1 {
			t.Errorf("the message that cannot wait was handled %d times, want once", runs)
		}
	})
}

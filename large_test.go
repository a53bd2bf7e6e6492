package rehop_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// What a layout writes around a body can be more than the broker takes. Then the message is in the failed queue unchanged.
func TestBodyTooLargeToWrap(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	b := rehoptest.Open(t, rehoptest.WithServer(func(s *broker.Server) { s.MaxMessage = limit }))
	subscribeTo(t, b, rehop.Subscriber{Queue: "q", Layout: layout.Sneakers{Document: true}, Retry: rehop.NoRetry(),
		Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return errors.New("no") })})
	body := bytes.Repeat([]byte("x"), limit-100)
	if err := b.Client.Publish(t.Context(), rehop.Message{Exchange: layouts.SneakersExchange, Key: "q", Body: body}); err != nil {
		t.Fatal(err)
	}
	if resting := b.AwaitMessages("q-error", 1); len(resting) != 1 || !bytes.Equal(resting[0].Body, body) {
		t.Errorf("got %d messages, the first with %d bytes; want the message as it was", len(resting), len(resting[0].Body))
	}
}

func subscribeTo(t *testing.T, b *rehoptest.Broker, s rehop.Subscriber) {
	t.Helper()
	if _, err := b.Client.Subscribe(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// The broker takes smaller messages than it did when one was published, so this one cannot be moved. Where the broker takes what is rejected to the
// failed queue, it does; elsewhere rejecting would lose the message, and it stays in its queue, without going round at full speed.
func TestMessageThatCannotBeMoved(t *testing.T) {
	const large = 2000
	for name, l := range map[string]layout.Layout{"resting": nil, "not resting": layout.PubSub{}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			takes := func(limit int) rehoptest.Option {
				return rehoptest.WithServer(func(s *broker.Server) { s.Dir, s.MaxMessage = dir, limit })
			}
			log := newLogbook(func(context.Context, *rehop.Delivery) error { return rehop.Permanent(errNotYet) })
			s := rehop.Subscriber{Queue: "q", Layout: l, Handler: log}
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				sub := subscribe(t, b.Client, s)
				if err := sub.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				publish(t, b.Client, rehop.Message{Key: "q", Body: make([]byte, large)})
			}, takes(large))
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				subscribe(t, b.Client, s)
				if l == nil {
					if failed := b.AwaitFailed("q", 1); len(failed[0].Body) != large {
						t.Errorf("a body of %d bytes rests, want one of %d", len(failed[0].Body), large)
					}
					return
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if ready, unacked := b.Depth("q"); ready+unacked != 1 {
					t.Errorf("%d messages in the queue, want 1", ready+unacked)
				}
				if runs := len(log.all()); runs > 120 {
					t.Errorf("%d runs of the handler within a minute, want few", runs)
				}
			}, takes(large-1))
		})
	}
}

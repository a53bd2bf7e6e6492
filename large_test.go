package rehop_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// What a layout writes around a body can be more than the broker takes. Then the message rests as it is.
func TestBodyTooLargeToWrap(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	b := rehoptest.Open(t, rehoptest.WithServer(func(s *broker.Server) { s.MaxMessage = limit }))
	subscribeTo(t, b, rehop.Subscription{Queue: "q", Layout: layout.Sneakers{}, Retry: rehop.NoRetry(),
		Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return errors.New("no") })})
	body := bytes.Repeat([]byte("x"), limit-100)
	if err := b.Client.Publish(t.Context(), rehop.Message{Exchange: layout.SneakersExchange, Key: "q", Body: body}); err != nil {
		t.Fatal(err)
	}
	if resting := b.AwaitMessages("q-error", 1); len(resting) != 1 || !bytes.Equal(resting[0].Body, body) {
		t.Errorf("got %d messages, the first with %d bytes; want the message as it was", len(resting), len(resting[0].Body))
	}
}

func subscribeTo(t *testing.T, b *rehoptest.Broker, s rehop.Subscription) {
	t.Helper()
	if _, err := b.Client.Subscribe(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

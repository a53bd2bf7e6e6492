package rehop_test

import (
	"context"
	"maps"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// mark is a hook that writes into what is published.
func mark(ctx context.Context, m *rehop.Message) context.Context {
	if m.Headers != nil {
		m.Headers["mark"] = m.ID
	}
	return ctx
}

// What a caller publishes stays unchanged, so that it can be published again as other messages: with an old id an inbox would drop them.
func TestMessagesCanBePublishedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		config := b.Config()
		config.Hooks = append(config.Hooks, rehop.Hooks{OnPublishStart: mark})
		client, err := rehop.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(context.Background())
		log := newLogbook(succeed)
		subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: log})
		headers := map[string]any{"kept": "yes"}
		messages := []rehop.Message{{Key: "q", Headers: headers}, {Key: "q"}}
		for _, publish := range []func() error{
			func() error { return client.PublishBatch(t.Context(), messages) },
			func() error { return client.PublishBatch(t.Context(), messages) },
			func() error {
				client.PublishEach(t.Context(), messages, func(_ int, err error) {
					if err != nil {
						t.Error(err)
					}
				})
				return nil
			},
			func() error { return client.Publish(t.Context(), messages[0]) },
		} {
			if err := publish(); err != nil {
				t.Fatal(err)
			}
		}
		b.AwaitEmpty("q")
		ids := make(map[string]bool)
		for _, r := range log.all() {
			ids[r.ID] = true
		}
		if len(ids) != 7 {
			t.Errorf("got %d different ids, want 7", len(ids))
		}
		if messages[0].ID != "" || messages[1].ID != "" || !maps.Equal(headers, map[string]any{"kept": "yes"}) {
			t.Errorf("the caller's messages: got %+v, want them unchanged", messages)
		}
	})
}

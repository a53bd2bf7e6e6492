package rehop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// RabbitMQ 4 ends the connection of a client that sends a name which is not UTF-8, and with it all that others have under way on it. Such a
// name is refused before anything is sent.
func TestNamesAreUTF8(t *testing.T) {
	const bad = "b\xff\xfe"
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		subscribeWith := func(s rehop.Subscriber) error {
			s.Handler = rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })
			_, err := b.Client.Subscribe(t.Context(), s)
			return err
		}
		config := b.Config()
		config.Exchanges = []rehop.Exchange{{Name: bad}}
		_, opened := rehop.Open(t.Context(), config)
		for name, err := range map[string]error{
			"exchange of a message":         b.Client.Publish(t.Context(), rehop.Message{Exchange: bad, Key: "k"}),
			"queue of a delayed message":    b.Client.Publish(t.Context(), rehop.Message{Key: bad, Delay: time.Second}),
			"queue of a subscription":       subscribeWith(rehop.Subscriber{Queue: bad}),
			"exchange of a subscription":    subscribeWith(rehop.Subscriber{Queue: "q", Exchange: bad}),
			"another's exchange":            subscribeWith(rehop.Subscriber{Queue: "q", Exchange: bad, ExistingExchange: true}),
			"a name in a layout":            subscribeWith(rehop.Subscriber{Queue: "q", Layout: layout.Sneakers{ErrorName: bad}}),
			"exchange of the configuration": opened,
		} {
			if err == nil || !strings.Contains(err.Error(), "not UTF-8") {
				t.Errorf("%s: got error %v, want that the name is not UTF-8", name, err)
			}
		}
		if err := b.Client.Publish(t.Context(), rehop.Message{Exchange: bad, Key: "k"}); !errors.Is(err, rehop.ErrInvalid) {
			t.Errorf("publish: got error %v, want ErrInvalid", err)
		}
		// A routing key is any bytes.
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Exchange: "x", Keys: []string{"#"}, Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })})
		publish(t, b.Client, rehop.Message{Exchange: "x", Key: bad})
		b.AwaitEmpty("q")
	})
}

package rehop_test

import (
	"testing"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// A count of deliveries that a publisher has written is not believed: the message has killed nobody.
func TestForgedDeliveryCount(t *testing.T) {
	for _, kind := range []layout.QueueType{layout.Quorum, layout.Classic} {
		t.Run(string(kind), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				log := newLogbook(succeed)
				subscribe(t, b.Client, rehop.Subscription{Queue: "q", QueueType: kind, Handler: log})
				ch := channel(t, b)
				for _, count := range []any{int64(10), int64(1000), int64(-1), "many"} {
					if err := ch.PublishWithContext(t.Context(), "", "q", true, false, amqp091.Publishing{Headers: amqp091.Table{"x-delivery-count": count}}); err != nil {
						t.Fatal(err)
					}
				}
				b.AwaitEmpty("q")
				if n := len(log.all()); n != 4 {
					t.Errorf("handled: got %d of 4 messages with forged counts, want all", n)
				}
			})
		})
	}
}

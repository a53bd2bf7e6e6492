package rehop_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// A count of deliveries that a publisher has written is not believed: the message has killed nobody.
func TestForgedDeliveryCount(t *testing.T) {
	for _, kind := range []layout.QueueType{layout.Quorum, layout.Classic} {
		t.Run(string(kind), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				log := newLogbook(succeed)
				subscribe(t, b.Client, rehop.Subscriber{Queue: "q", QueueType: kind, Handler: log})
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

// A count that a publisher has written has no effect either when the message was requeued, as at a stop. What counts deliveries then is the
// queue, if it does.
func TestForgedDeliveryCountGivenBack(t *testing.T) {
	const messages = 5
	for _, release := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ40, broker.RabbitMQ43} {
		for name, s := range map[string]rehop.Subscriber{
			"quorum":          {QueueType: layout.Quorum},
			"classic":         {QueueType: layout.Classic},
			"passive quorum":  {QueueType: layout.Quorum, ExistingQueue: true},
			"passive classic": {QueueType: layout.Classic, ExistingQueue: true},
		} {
			t.Run(release.String()+"/"+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
					ch := channel(t, b)
					if s.ExistingQueue {
						if _, err := ch.QueueDeclare("q", true, false, false, false, amqp091.Table{"x-queue-type": string(s.QueueType)}); err != nil {
							t.Fatal(err)
						}
						s.QueueType = ""
					}
					s.Queue, s.Prefetch, s.Concurrency = "q", messages, 1
					s.Handler = rehop.HandlerFunc(func(ctx context.Context, _ *rehop.Delivery) error {
						<-ctx.Done()
						return ctx.Err()
					})
					stopped := subscribe(t, b.Client, s)
					for range messages {
						headers := amqp091.Table{"x-delivery-count": int64(99), "x-acquired-count": int64(99)}
						if err := ch.PublishWithContext(t.Context(), "", "q", true, false, amqp091.Publishing{Headers: headers}); err != nil {
							t.Fatal(err)
						}
					}
					synctest.Wait()
					if err := stopped.Stop(); err != nil {
						t.Fatal(err)
					}
					log := newLogbook(succeed)
					s.Handler = log
					subscribe(t, b.Client, s)
					b.AwaitEmpty("q")
					if n := len(log.all()); n != messages {
						t.Errorf("handled: got %d of %d messages with forged counts, want all", n, messages)
					}
				}, following(release))
			})
		}
	}
}

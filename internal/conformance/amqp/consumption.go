package amqp

import (
	"fmt"

	"github.com/rabbitmq/amqp091-go"
)

// SendAll sends texts to a queue, in this order.
func (ch *Channel) SendAll(queue string, bodies ...string) {
	ch.b.t.Helper()
	for _, body := range bodies {
		ch.Send("", queue, body)
	}
}

// WantNack publishes a text that the broker must refuse with a nack.
func (ch *Channel) WantNack(exchange, key, body string) {
	ch.b.t.Helper()
	confirm, err := ch.PublishWithDeferredConfirm(exchange, key, false, false, amqp091.Publishing{Body: []byte(body)})
	ch.b.Must(err)
	if ch.b.Acked(confirm) {
		ch.b.t.Fatalf("publishing %q to exchange %q, key %q: got an ack, want a nack", body, exchange, key)
	}
}

// Prefetch limits the unacknowledged messages of each consumer that starts after it.
func (ch *Channel) Prefetch(count int) *Channel {
	ch.b.t.Helper()
	ch.b.Must(ch.Qos(count, 0, false))
	return ch
}

// SharedPrefetch limits the unacknowledged messages of all consumers of the channel together.
func (ch *Channel) SharedPrefetch(count int) *Channel {
	ch.b.t.Helper()
	ch.b.Must(ch.Qos(count, 0, true))
	return ch
}

// Recover asks for all unacknowledged messages again.
func (ch *Channel) Recover(requeue bool) error {
	//lint:ignore SA1019 it is deprecated, but brokers have it
	return ch.Channel.Recover(requeue)
}

// Hold gets the message at the head of a queue, and does not acknowledge it.
func (ch *Channel) Hold(queue string) amqp091.Delivery {
	ch.b.t.Helper()
	d, ok, err := ch.Get(queue, false)
	ch.b.Must(err)
	if !ok {
		ch.b.t.Fatalf("queue %q is empty, want a message", queue)
	}
	return d
}

// HoldAll is Hold for several messages, whose bodies it checks.
func (ch *Channel) HoldAll(queue string, bodies ...string) []amqp091.Delivery {
	ch.b.t.Helper()
	held := make([]amqp091.Delivery, len(bodies))
	for i, body := range bodies {
		held[i] = ch.Hold(queue)
		if string(held[i].Body) != body {
			ch.b.t.Fatalf("message %d of queue %q: got %q, want %q", i, queue, held[i].Body, body)
		}
	}
	return held
}

// Consumer consumes from a queue with manual acks, under a tag and with arguments.
func (ch *Channel) Consumer(queue, tag string, args amqp091.Table) <-chan amqp091.Delivery {
	ch.b.t.Helper()
	deliveries, err := ch.Consume(queue, tag, false, false, false, false, args)
	ch.b.Must(err)
	return deliveries
}

// Unacknowledged consumes from a queue without acks.
func (ch *Channel) Unacknowledged(queue string) <-chan amqp091.Delivery {
	ch.b.t.Helper()
	deliveries, err := ch.Consume(queue, "", true, false, false, false, nil)
	ch.b.Must(err)
	return deliveries
}

// WantDeliveries waits for messages in this order.
func (b *Bench) WantDeliveries(from <-chan amqp091.Delivery, bodies ...string) []amqp091.Delivery {
	b.t.Helper()
	got := make([]amqp091.Delivery, len(bodies))
	for i, body := range bodies {
		got[i] = b.WantDelivery(from, body)
	}
	return got
}

// Arrival waits for a message to come to a queue, and takes it. It uses a connection of its own, so
// that it also waits for what other connections give back.
func (b *Bench) Arrival(queue string) amqp091.Delivery {
	b.t.Helper()
	ch := b.Channel().Prefetch(1)
	d := Receive(b, ch.Deliveries(queue), "a message in queue "+queue)
	b.Must(d.Ack(false))
	b.Must(ch.Close())
	return d
}

// WantArrivals waits for messages to come to a queue in this order, and takes them.
func (b *Bench) WantArrivals(queue string, bodies ...string) []amqp091.Delivery {
	b.t.Helper()
	ch := b.Channel()
	got := b.WantDeliveries(ch.Deliveries(queue), bodies...)
	b.Must(ch.Ack(got[len(got)-1].DeliveryTag, true))
	b.Must(ch.Close())
	return got
}

// WantRedelivered checks whether a message is marked as delivered before.
func (b *Bench) WantRedelivered(d amqp091.Delivery, want bool) {
	b.t.Helper()
	Equal(b, "redelivered flag of message "+string(d.Body), d.Redelivered, want)
}

// AwaitCount waits until n messages are ready in a queue.
func (b *Bench) AwaitCount(queue string, want int) {
	b.t.Helper()
	ch := b.Channel()
	b.Eventually(fmt.Sprintf("%d messages are ready in queue %s", want, queue), func() bool {
		q, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		b.Must(err)
		return q.Messages == want
	})
}

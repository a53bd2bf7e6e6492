package layouts

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
)

// dlxAbnormalCases are the rows of the seed's table of what may go wrong.
func dlxAbnormalCases() []Case {
	return []Case{
		{"BrokerUnreachable", dlxUnreachable},
		{"SenderNeverGetsThrough", dlxNeverThrough},
		{"ExchangeMissing", dlxExchangeMissing},
		{"ExchangeWithoutQueue", dlxExchangeWithoutQueue},
		{"ConsumerOfflineAndQueueFull", dlxConsumerOffline},
		{"ConsumerFailsForAWhile", dlxFailsForAWhile},
		{"ConsumerFailsForGood", dlxFailsForGood},
	}
}

// publishWithin publishes with a short timeout.
func (c *Client) publishWithin(d time.Duration, m rehop.Message) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return c.Client.Publish(ctx, m)
}

// The broker cannot be reached: the sender gets an error, and can send the message when the broker is back.
func dlxUnreachable(b *Bench) {
	client, desk := b.Client(), b.Desk(succeeds)
	client.Subscribe(summary(desk))
	client.pull()
	if err := client.publishWithin(100*time.Millisecond, orderCreated("1")); !errors.Is(err, rehop.ErrDisconnected) {
		b.t.Errorf("publish without a broker: got %v, want ErrDisconnected", err)
	}
	client.repair()
	client.Publish(orderCreated("1"))
	desk.WantBodies("1")
}

// What the sender sends never arrives: it never hears that a message is sent, so it stays unsent in its books, and it may send it again.
func dlxNeverThrough(b *Bench) {
	sender, desk := b.Client(), b.Desk(succeeds)
	b.Client().Subscribe(summary(desk))
	sender.Publish(orderCreated("warm-up"))
	desk.WantBodies("warm-up")
	sender.deaf.Store(true)
	unsent := []rehop.Message{orderCreated("1"), orderCreated("2"), orderCreated("3")}
	for _, m := range unsent {
		if err := sender.publishWithin(100*time.Millisecond, m); !errors.Is(err, rehop.ErrUnknown) {
			b.t.Errorf("publish into a dead line: got %v, want ErrUnknown", err)
		}
	}
	sender.cut()
	sender.repair()
	sender.Publish(unsent...)
	desk.WantBodies("1", "2", "3")
	desk.WantNone()
}

// Without the exchange there is no ack. The sender gets an error, other messages are not harmed, and the message can be sent when the exchange is there.
func dlxExchangeMissing(b *Bench) {
	sender, desk := b.Client(), b.Desk(succeeds)
	for range 2 {
		if err := sender.Client.Publish(b.Context(), orderCreated("1")); !errors.Is(err, rehop.ErrUnroutable) {
			b.t.Errorf("publish to an exchange that is missing: got %v, want ErrUnroutable", err)
		}
	}
	b.Client().Subscribe(summary(desk))
	sender.Publish(orderCreated("1"))
	desk.WantBodies("1")
}

// Without a queue the message is acked and kept in the dead-letter queue.
func dlxExchangeWithoutQueue(b *Bench) {
	client := b.Client(Publishes("order", layout.DLX{}))
	client.Publish(orderCreated("1"))
	b.Program().WantBodies("dlq", "1")
}

// While no consumer is there, a queue keeps the newest 300; older ones are in the dead-letter queue.
func dlxConsumerOffline(b *Bench) {
	const room, more = 300, 3
	client, desk, p := b.Client(), b.Desk(succeeds), b.Program()
	client.Declare(summary(nil))
	client.PublishMany("order", room+more)
	p.WantDepth("dlq", more)
	for i := range more {
		d := p.Take("dlq")
		equal(b, "message and reason", string(d.Body)+" "+deathReason(d), "order "+strconv.Itoa(i)+" maxlen")
	}
	client.Subscribe(summary(desk))
	for i := range room {
		equal(b, "message when the consumer is back", string(desk.Next().Body), "order "+strconv.Itoa(more+i))
	}
	p.WantEmpty("dlq")
}

// A consumer that fails once gets the message once more, and that is all.
func dlxFailsForAWhile(b *Bench) {
	client, desk, p := b.Client(), b.Desk(failsUntil(2)), b.Program()
	client.Subscribe(summary(desk))
	client.Publish(orderCreated("1"))
	desk.NextAttempt(1)
	desk.NextAttempt(2)
	p.WantEmpty(orderSummary, "dlq")
	desk.WantNone()
}

// A consumer that always fails has all messages in the dead-letter queue, whose length can be watched.
func dlxFailsForGood(b *Bench) {
	const messages = 5
	client, desk, a := b.Client(), b.Desk(fails), b.Admin(layout.DLX{})
	client.Subscribe(summary(desk))
	for i := range messages {
		client.Publish(orderCreated(strconv.Itoa(i)))
	}
	a.WantFailed(orderSummary, messages)
	b.Eventually(soon, "the length of both queues is known", func() bool { // what was looked at is on its way back
		q, err := a.Queue(b.Context(), orderSummary)
		b.Must(err)
		return q.Ready == 0 && q.Failed == messages
	})
	for range 2 * messages {
		desk.Next()
	}
	desk.WantNone()
}

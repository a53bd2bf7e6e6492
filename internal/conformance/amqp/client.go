package amqp

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rabbitmq/amqp091-go"
)

// Conn is a connection of amqp091-go's.
type Conn struct {
	*amqp091.Connection
	b      *Bench
	closed chan *amqp091.Error
}

// Channel opens a channel.
func (c *Conn) Channel() *Channel {
	c.b.t.Helper()
	ch, err := c.Connection.Channel()
	c.b.Must(err)
	return &Channel{Channel: ch, b: c.b, closed: ch.NotifyClose(make(chan *amqp091.Error, 1))}
}

// WantClosed waits until the broker closes the connection, and checks why.
func (c *Conn) WantClosed(code int, text string) {
	c.b.t.Helper()
	c.b.Refused(Receive(c.b, c.closed, "the broker closes the connection"), code, text)
}

func (c *Conn) hasQueue(name string) bool {
	c.b.t.Helper()
	ch := c.Channel()
	_, err := ch.QueueDeclarePassive(name, false, false, false, false, nil)
	if notFound(err) {
		return false
	}
	var exception *amqp091.Error
	if errors.As(err, &exception) && exception.Code == amqp091.ResourceLocked {
		return true // and somebody else's
	}
	c.b.Must(err)
	c.b.Must(ch.Close())
	return true
}

// Channel is a channel of amqp091-go's, with what nearly every case does as methods that end the test
// where they fail.
type Channel struct {
	*amqp091.Channel
	b      *Bench
	closed chan *amqp091.Error
}

// WantClosed waits until the broker closes the channel, and checks why.
func (ch *Channel) WantClosed(code int, text string) {
	ch.b.t.Helper()
	ch.b.Refused(Receive(ch.b, ch.closed, "the broker closes the channel"), code, text)
}

// Sync waits until the broker has worked off all that was sent on the channel before.
func (ch *Channel) Sync() {
	ch.b.t.Helper()
	ch.b.Must(ch.ExchangeDeclarePassive("amq.direct", "direct", true, false, false, false, nil))
}

// Confirming turns on publisher confirms; Send then waits for them.
func (ch *Channel) Confirming() *Channel {
	ch.b.t.Helper()
	ch.b.Must(ch.Confirm(false))
	return ch
}

// Queue declares a durable queue.
func (ch *Channel) Queue(name string, args amqp091.Table) string {
	ch.b.t.Helper()
	q, err := ch.QueueDeclare(name, true, false, false, false, args)
	ch.b.Must(err)
	return q.Name
}

// Exchange declares a durable exchange.
func (ch *Channel) Exchange(name, kind string, args amqp091.Table) string {
	ch.b.t.Helper()
	ch.b.Must(ch.ExchangeDeclare(name, kind, true, false, false, false, args))
	return name
}

// Bind binds a queue.
func (ch *Channel) Bind(queue, key, exchange string, args amqp091.Table) {
	ch.b.t.Helper()
	ch.b.Must(ch.QueueBind(queue, key, exchange, false, args))
}

// Send publishes a text; on a channel with confirms it waits for the broker's ack.
func (ch *Channel) Send(exchange, key, body string) {
	ch.b.t.Helper()
	ch.SendMessage(exchange, key, amqp091.Publishing{Body: []byte(body)})
}

// SendMessage is Send for a message with properties.
func (ch *Channel) SendMessage(exchange, key string, message amqp091.Publishing) {
	ch.b.t.Helper()
	confirm, err := ch.PublishWithDeferredConfirm(exchange, key, false, false, message)
	ch.b.Must(err)
	if confirm != nil && !ch.b.Acked(confirm) {
		ch.b.t.Fatalf("publishing %q: got a nack, want an ack", message.Body)
	}
}

// Take gets the message at the head of a queue and acknowledges it. It is there already: published on this
// very channel, or confirmed.
func (ch *Channel) Take(queue string) amqp091.Delivery {
	ch.b.t.Helper()
	d, ok, err := ch.Get(queue, true)
	ch.b.Must(err)
	if !ok {
		ch.b.t.Fatalf("queue %q is empty, want a message", queue)
	}
	return d
}

// WantBodies checks what is in a queue, and empties it.
func (ch *Channel) WantBodies(queue string, want ...string) {
	ch.b.t.Helper()
	var got []string
	for {
		d, ok, err := ch.Get(queue, true)
		ch.b.Must(err)
		if !ok {
			break
		}
		got = append(got, string(d.Body))
	}
	if !slices.Equal(got, want) {
		ch.b.t.Fatalf("queue %q: got messages %q, want %q", queue, got, want)
	}
}

// WantCount waits until n messages are ready in a queue: RabbitMQ may answer a look at a queue
// ahead of what it was sent before.
func (ch *Channel) WantCount(queue string, want int) {
	ch.b.t.Helper()
	got := -1
	defer func() {
		if got != want {
			ch.b.t.Errorf("queue %q: got %d ready messages, want %d", queue, got, want)
		}
	}()
	ch.b.Eventually(fmt.Sprintf("%d messages in queue %q", want, queue), func() bool {
		q, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		ch.b.Must(err)
		got = q.Messages
		return got == want
	})
}

// Deliveries consumes from a queue with manual acks.
func (ch *Channel) Deliveries(queue string) <-chan amqp091.Delivery {
	ch.b.t.Helper()
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	ch.b.Must(err)
	return deliveries
}

// WantDelivery waits for the next message and checks its body.
func (b *Bench) WantDelivery(from <-chan amqp091.Delivery, body string) amqp091.Delivery {
	b.t.Helper()
	d := Receive(b, from, "message "+body)
	if string(d.Body) != body {
		b.t.Fatalf("got message %q, want %q", d.Body, body)
	}
	return d
}

package layouts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// Program is a program of the fleet that does not use rehop, with a connection and a channel of its own.
type Program struct {
	*amqp091.Channel
	conn *amqp091.Connection
	b    *Bench
}

// Program connects. Its connection ends with the test.
func (b *Bench) Program() *Program {
	b.t.Helper()
	uri, err := amqp091.ParseURI(b.URL)
	b.Must(err)
	transport, err := b.Dial(b.Context(), "tcp", fmt.Sprintf("%s:%d", uri.Host, uri.Port))
	b.Must(err)
	conn, err := amqp091.Open(transport, amqp091.Config{
		SASL:  []amqp091.Authentication{&amqp091.PlainAuth{Username: uri.Username, Password: uri.Password}},
		Vhost: uri.Vhost, Heartbeat: heartbeat,
	})
	b.Must(err)
	b.t.Cleanup(func() { _ = conn.CloseDeadline(time.Now().Add(soon)) })
	p := &Program{conn: conn, b: b}
	p.Channel = p.channel()
	return p
}

func (p *Program) channel() *amqp091.Channel {
	p.b.t.Helper()
	ch, err := p.conn.Channel()
	p.b.Must(err)
	return ch
}

// Exchange declares a durable exchange.
func (p *Program) Exchange(name, kind string, args amqp091.Table) {
	p.b.t.Helper()
	if err := p.ExchangeDeclare(name, kind, true, false, false, false, args); err != nil {
		p.b.t.Fatalf("the seed declares exchange %q: %v", name, err)
	}
}

// Queue declares a durable queue.
func (p *Program) Queue(name string, args amqp091.Table) {
	p.b.t.Helper()
	if _, err := p.QueueDeclare(name, true, false, false, false, args); err != nil {
		p.b.t.Fatalf("the seed declares queue %q: %v", name, err)
	}
}

// Bind binds a queue.
func (p *Program) Bind(queue, key, exchange string) {
	p.b.t.Helper()
	if err := p.QueueBind(queue, key, exchange, false, nil); err != nil {
		p.b.t.Fatalf("the seed binds queue %q: %v", queue, err)
	}
}

// Send publishes without a confirm.
func (p *Program) Send(exchange, key string, m amqp091.Publishing) {
	p.b.t.Helper()
	p.b.Must(p.Publish(exchange, key, false, false, m))
}

// persistent is a message as all seeds publish it.
func persistent(body string) amqp091.Publishing {
	return amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: []byte(body)}
}

// again is a message as a consumer that passes on all its properties publishes it.
func again(d amqp091.Delivery) amqp091.Publishing {
	return amqp091.Publishing{
		Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode, Priority: d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId, Timestamp: d.Timestamp,
		Type: d.Type, UserId: d.UserId, AppId: d.AppId, Body: d.Body,
	}
}

// Take waits for a message and removes it from its queue.
func (p *Program) Take(queue string) amqp091.Delivery {
	p.b.t.Helper()
	taken := p.Consume(queue, 1, func(_ *amqp091.Channel, d amqp091.Delivery) error { return d.Ack(false) })
	d := taken.Next()
	taken.Stop()
	return d
}

// WantBodies takes what is in a queue, waits until these messages have come, and checks that there are no others.
func (p *Program) WantBodies(queue string, want ...string) {
	p.b.t.Helper()
	var got []string
	for range want {
		got = append(got, string(p.Take(queue).Body))
	}
	equals(p.b, "messages in "+queue, got, want)
	p.WantDepth(queue, 0)
}

// WantDepth waits until n messages are ready in a queue.
func (p *Program) WantDepth(queue string, want int) {
	p.b.t.Helper()
	got := -1
	defer func() {
		if got != want {
			p.b.t.Errorf("queue %q: got %d ready messages, want %d", queue, got, want)
		}
	}()
	p.b.Eventually(soon, fmt.Sprintf("%d messages are ready in %q", want, queue), func() bool {
		got = p.inspect(queue).Messages
		return got == want
	})
}

// WantEmpty waits until these queues hold nothing.
func (p *Program) WantEmpty(queues ...string) {
	p.b.t.Helper()
	for _, q := range queues {
		p.WantDepth(q, 0)
	}
}

// WantConsumers waits until a queue has n consumers.
func (p *Program) WantConsumers(queue string, want int) {
	p.b.t.Helper()
	p.b.Eventually(soon, fmt.Sprintf("%q has %d consumers", queue, want), func() bool { return p.inspect(queue).Consumers == want })
}

// Delete deletes a queue, as somebody does by mistake.
func (p *Program) Delete(queue string) {
	p.b.t.Helper()
	_, err := p.QueueDelete(queue, false, false, false)
	p.b.Must(err)
}

// WantExchanges checks that exchanges exist.
func (p *Program) WantExchanges(names ...string) {
	p.b.t.Helper()
	for _, name := range names {
		code := p.Refused(func(ch *amqp091.Channel) error {
			return ch.ExchangeDeclarePassive(name, "", true, false, false, false, nil)
		})
		equal(p.b, "code for a look at exchange "+name, code, 0)
	}
}

// WantQueues checks that queues exist.
func (p *Program) WantQueues(names ...string) {
	p.b.t.Helper()
	for _, name := range names {
		equal(p.b, "queue "+name+" exists", p.Has(name), true)
	}
}

// Has reports whether a queue exists.
func (p *Program) Has(queue string) bool {
	p.b.t.Helper()
	return p.Refused(func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	}) == 0
}

func (p *Program) inspect(queue string) amqp091.Queue {
	p.b.t.Helper()
	q, err := p.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		p.b.t.Fatalf("look at queue %q: %v", queue, err)
	}
	return q
}

// Refused reports with which code the broker refuses something, 0 if it does not. It is tried on a channel that can be lost.
func (p *Program) Refused(try func(*amqp091.Channel) error) int {
	p.b.t.Helper()
	ch := p.channel()
	err := try(ch)
	var exception *amqp091.Error
	if errors.As(err, &exception) {
		return exception.Code
	}
	p.b.Must(err)
	p.b.Must(ch.Close())
	return 0
}

// Confirmed publishes with a confirm and reports whether the broker has acked.
func (p *Program) Confirmed(exchange, key string, m amqp091.Publishing) bool {
	p.b.t.Helper()
	ch := p.channel()
	p.b.Must(ch.Confirm(false))
	confirm, err := ch.PublishWithDeferredConfirm(exchange, key, false, false, m)
	p.b.Must(err)
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	acked, err := confirm.WaitContext(ctx)
	p.b.Must(err)
	p.b.Must(ch.Close())
	return acked
}

// Handle is what a program does with a delivery: publish, ack, reject.
type Handle func(ch *amqp091.Channel, d amqp091.Delivery) error

// Consumer is a program's loop over the deliveries of a queue.
type Consumer struct {
	b     *Bench
	ch    *amqp091.Channel
	seen  chan amqp091.Delivery
	ended chan struct{}
}

// Consume handles deliveries one at a time. After the given number of them it leaves, 0: never.
func (p *Program) Consume(queue string, times int, handle Handle) *Consumer {
	p.b.t.Helper()
	return p.consume(queue, times, false, handle)
}

func (p *Program) consume(queue string, times int, autoAck bool, handle Handle) *Consumer {
	p.b.t.Helper()
	c := &Consumer{b: p.b, ch: p.channel(), seen: make(chan amqp091.Delivery, 10_000), ended: make(chan struct{})}
	p.b.Must(c.ch.Qos(1, 0, false))
	deliveries, err := c.ch.Consume(queue, consumerTag, autoAck, false, false, false, nil)
	p.b.Must(err)
	go func() {
		defer close(c.ended)
		for n := 1; ; n++ {
			d, ok := <-deliveries
			if !ok {
				return
			}
			if n == times && c.ch.Cancel(consumerTag, false) != nil { // before its answer, after which the next one would come
				return
			}
			if handle(c.ch, d) != nil {
				return // the channel has gone
			}
			c.seen <- d
		}
	}()
	p.b.t.Cleanup(c.Stop)
	return c
}

// Next waits until the program has done with the next delivery what it does.
func (c *Consumer) Next() amqp091.Delivery {
	c.b.t.Helper()
	return receive(c.b, c.seen, c.b.limit(), "a program of the fleet handles a message")
}

// consumerTag is that of each program: each has a channel of its own.
const consumerTag = "seed"

// Stop ends the program. What it has not answered goes back. An answer that is sent while its channel closes would cost the connection.
func (c *Consumer) Stop() {
	_ = c.ch.Cancel(consumerTag, false)
	<-c.ended
	_ = c.ch.Close()
}

package errorqueues

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/conformance/await"
	"github.com/rehop/rehop/internal/letters"
	"github.com/rehop/rehop/internal/rabbit"
)

// Broker is what a case runs on: a virtual host of its own.
type Broker struct {
	URL  string
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Management is the URL of the management API, and HTTP reaches it.
	Management string
	HTTP       *http.Client
}

// Case is one thing that operators rely on.
type Case struct {
	Name string
	Run  func(*Bench)
}

// Cases are all cases.
func Cases() []Case {
	return append(goldenCases(), append(replayCases(), hostileCases()...)...)
}

// Run runs each case as a parallel subtest. open is called in the subtest, and calls the case with a fresh broker.
func Run(t *testing.T, open func(t *testing.T, run func(t *testing.T, b Broker))) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			open(t, func(t *testing.T, b Broker) { c.Run(newBench(t, b)) })
		})
	}
}

// Bench is what a case works with.
type Bench struct {
	Broker
	t  testing.TB
	ch *amqp091.Channel
}

// limit is how long a case waits for what must happen: far longer than anything takes.
const limit = 5 * time.Minute

func newBench(t testing.TB, broker Broker) *Bench {
	b := &Bench{Broker: broker, t: t}
	conn, err := amqp091.DialConfig(b.URL, amqp091.Config{
		Heartbeat: 10 * time.Minute,
		Dial:      func(network, addr string) (net.Conn, error) { return b.Dial(context.Background(), network, addr) },
	})
	b.must(err)
	t.Cleanup(func() { _ = conn.Close() })
	b.ch, err = conn.Channel()
	b.must(err)
	b.must(b.ch.Confirm(false))
	return b
}

// must ends the test on an error.
func (b *Bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("got error %v, want none", err)
	}
}

// context ends after the limit.
func (b *Bench) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	b.t.Cleanup(cancel)
	return ctx
}

// admin opens an admin, which is closed with the test.
func (b *Bench) admin(change ...func(*admin.Config)) *admin.Admin {
	b.t.Helper()
	config := admin.Config{URL: b.URL, Dial: b.Dial, Management: b.Management, HTTP: b.HTTP}
	for _, f := range change {
		f(&config)
	}
	a, err := admin.Open(b.context(), config)
	b.must(err)
	b.t.Cleanup(a.Close)
	return a
}

func quorum() amqp091.Table { return amqp091.Table{"x-queue-type": "quorum"} }

// declare declares durable queues.
func (b *Bench) declare(args amqp091.Table, queues ...string) {
	b.t.Helper()
	for _, queue := range queues {
		_, err := b.ch.QueueDeclare(queue, true, false, false, false, args)
		b.must(err)
	}
}

// bind binds queues to a topic exchange.
func (b *Bench) bind(exchange, key string, queues ...string) {
	b.t.Helper()
	b.must(b.ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
	for _, queue := range queues {
		b.must(b.ch.QueueBind(queue, key, exchange, false, nil))
	}
}

// publish publishes a message, and waits for the confirm.
func (b *Bench) publish(exchange, key string, p amqp091.Publishing) {
	b.t.Helper()
	p.DeliveryMode = amqp091.Persistent
	confirm, err := b.ch.PublishWithDeferredConfirm(exchange, key, true, false, p)
	b.must(err)
	if !confirm.Wait() {
		b.t.Fatal("the message was not confirmed")
	}
}

// put puts a letter into its queue.
func (b *Bench) put(l letters.Letter) {
	b.t.Helper()
	b.publish("", l.Source, publishing(l))
}

func publishing(l letters.Letter) amqp091.Publishing {
	return amqp091.Publishing{MessageId: l.ID, Headers: rabbit.ToTable(l.Headers), Body: l.Body, ContentType: l.ContentType, ContentEncoding: l.ContentEncoding,
		CorrelationId: l.CorrelationID, ReplyTo: l.ReplyTo, Type: l.Type, AppId: l.AppID, Priority: l.Priority, Timestamp: l.Timestamp}
}

func (b *Bench) depth(queue string) int {
	b.t.Helper()
	q, err := b.ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	b.must(err)
	return q.Messages
}

func (b *Bench) wantDepth(queue string, n int) {
	b.t.Helper()
	await.True(b.t, limit, 50*time.Millisecond, fmt.Sprintf("%d messages in %q", n, queue), func() bool { return b.depth(queue) == n })
}

// take waits for a message, and removes it.
func (b *Bench) take(queue string) amqp091.Delivery {
	b.t.Helper()
	var d amqp091.Delivery
	await.True(b.t, limit, 50*time.Millisecond, "a message in "+queue, func() bool {
		var ok bool
		var err error
		d, ok, err = b.ch.Get(queue, true)
		b.must(err)
		return ok
	})
	return d
}

// reject waits for a message, and rejects it.
func (b *Bench) reject(queue string) {
	b.t.Helper()
	await.True(b.t, limit, 50*time.Millisecond, "a message in "+queue, func() bool {
		d, ok, err := b.ch.Get(queue, false)
		b.must(err)
		if ok {
			b.must(d.Reject(false))
		}
		return ok
	})
}

// wantErr checks that an error is there and has a text.
func (b *Bench) wantErr(err error, text string) {
	b.t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		b.t.Fatalf("got error %v, want one with %q", err, text)
	}
}

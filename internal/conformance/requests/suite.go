package requests

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/conformance/await"
)

// Broker is what a case runs on: a virtual host of its own.
type Broker struct {
	URL  string
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Case is one thing that requesters and repliers rely on.
type Case struct {
	Name string
	Run  func(*Bench)
}

// Cases are all cases.
func Cases() []Case {
	return []Case{
		{"RoundTrip", roundTrip},
		{"Typed", typed},
		{"ManyAtOnce", manyAtOnce},
		{"SameCorrelationID", sameCorrelationID},
		{"Unroutable", unroutable},
		{"NoReply", noReply},
		{"SeveralReplies", severalReplies},
		{"RetriedHandler", retriedHandler},
		{"ConnectionLost", connectionLost},
		{"CloseWaits", closeWaits},
		{"OtherReplier", otherReplier},
		{"OtherRequester", otherRequester},
		{"ReplyToQueue", replyToQueue},
	}
}

// Run runs each case as a parallel subtest. open is called in the subtest, and calls the case with a fresh broker.
func Run(t *testing.T, open func(t *testing.T, run func(t *testing.T, b Broker))) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			open(t, func(t *testing.T, b Broker) { c.Run(&Bench{Broker: b, t: t}) })
		})
	}
}

// Bench is what a case works with.
type Bench struct {
	Broker
	t testing.TB
}

// limit is how long a case waits for what must happen: far longer than anything takes.
const limit = 5 * time.Minute

// must ends the test on an error.
func (b *Bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("got error %v, want none", err)
	}
}

// wantError checks an error.
func (b *Bench) wantError(what string, err error, want ...error) {
	b.t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			b.t.Errorf("%s: got %v, want %v", what, err, w)
		}
	}
}

func (b *Bench) wantNil(what string, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Errorf("%s: got %v, want nil", what, err)
	}
}

// context ends after the limit.
func (b *Bench) context() context.Context { return b.within(limit) }

func (b *Bench) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	b.t.Cleanup(cancel)
	return ctx
}

// client opens a client, which is closed with the test.
func (b *Bench) client(change ...func(*rehop.Config)) *rehop.Client {
	b.t.Helper()
	config := rehop.Config{URL: b.URL, Dial: b.Dial, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&config)
	}
	c, err := rehop.Open(b.context(), config)
	b.must(err)
	b.t.Cleanup(func() {
		if err := c.Close(b.context()); err != nil {
			b.t.Errorf("close: got %v, want nil", err)
		}
	})
	return c
}

// serve has a client handle the messages of a queue.
func (b *Bench) serve(c *rehop.Client, queue string, handle rehop.HandlerFunc, change ...func(*rehop.Subscriber)) {
	b.t.Helper()
	s := rehop.Subscriber{Queue: queue, Concurrency: 4, Handler: handle, Retry: rehop.Steps(100 * time.Millisecond)}
	for _, f := range change {
		f(&s)
	}
	_, err := c.Subscribe(b.context(), s)
	b.must(err)
}

// channel is that of a client other than rehop.
func (b *Bench) channel() *amqp091.Channel {
	b.t.Helper()
	conn, err := amqp091.DialConfig(b.URL, amqp091.Config{
		Heartbeat: 10 * time.Minute,
		Dial:      func(network, addr string) (net.Conn, error) { return b.Dial(context.Background(), network, addr) },
	})
	b.must(err)
	b.t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	b.must(err)
	return ch
}

// consume takes from a queue on a channel.
func (b *Bench) consume(ch *amqp091.Channel, queue string) <-chan amqp091.Delivery {
	b.t.Helper()
	deliveries, err := ch.Consume(queue, "", true, false, false, false, nil)
	b.must(err)
	return deliveries
}

// queue declares a queue that ends with its connection.
func (b *Bench) queue(ch *amqp091.Channel, name string) string {
	b.t.Helper()
	q, err := ch.QueueDeclare(name, false, false, true, false, nil)
	b.must(err)
	return q.Name
}

func next[T any](b *Bench, from <-chan T, what string) T {
	b.t.Helper()
	return await.One(b.t, from, limit, what)
}

// answer is what became of a request.
type answer struct {
	reply rehop.Message
	err   error
}

// request sends a request in the background.
func request(ctx context.Context, c *rehop.Client, m rehop.Message) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		reply, err := c.Request(ctx, m)
		answers <- answer{reply, err}
	}()
	return answers
}

// cable can cut the connections of a client.
type cable struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu    sync.Mutex
	conns []net.Conn
}

func (c *cable) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conn)
	return conn, nil
}

// cut ends all connections that were made.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

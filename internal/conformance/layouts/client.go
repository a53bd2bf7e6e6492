package layouts

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
)

// heartbeat is rare: in virtual time, heartbeats would be most of what happens in a day.
const heartbeat = 10 * time.Minute

// Client is a client of rehop's with a cable of its own.
type Client struct {
	*rehop.Client
	*cable
	b *Bench
}

// Client opens a client that is closed with the test.
func (b *Bench) Client(change ...func(*rehop.Config)) *Client {
	b.t.Helper()
	line := newCable(b.Dial)
	config := rehop.Config{
		URL: b.URL, Dial: line.dial, Name: b.t.Name(), Heartbeat: heartbeat,
		ReconnectMin: 10 * time.Millisecond, ReconnectMax: 50 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(b.t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	}
	for _, f := range change {
		f(&config)
	}
	c, err := rehop.Open(b.Context(), config)
	if err != nil {
		b.t.Fatalf("open a client: %v", err)
	}
	b.t.Cleanup(func() {
		line.repair()
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			b.t.Errorf("close a client: got %v, want nil", err)
		}
	})
	return &Client{c, line, b}
}

// Publishes is a change of a client's config: it declares an exchange as the layout has it.
func Publishes(exchange string, l layout.Layout) func(*rehop.Config) {
	return func(c *rehop.Config) { c.Exchanges = append(c.Exchanges, rehop.Exchange{Name: exchange, Layout: l}) }
}

// Subscribe begins a subscription.
func (c *Client) Subscribe(s rehop.Subscriber) *rehop.Subscription {
	c.b.t.Helper()
	sub, err := c.Client.Subscribe(c.b.Context(), s)
	if err != nil {
		c.b.t.Fatalf("subscribe to %q: %v", s.Queue, err)
	}
	return sub
}

// Declare makes all that a subscription has on the broker, and leaves.
func (c *Client) Declare(s rehop.Subscriber) {
	c.b.t.Helper()
	s.Handler = rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return errors.New("not to be handled yet") })
	c.b.Must(c.Subscribe(s).Stop())
}

// Publish publishes messages, each of which must be confirmed.
func (c *Client) Publish(messages ...rehop.Message) {
	c.b.t.Helper()
	for _, m := range messages {
		if err := c.Client.Publish(c.b.Context(), m); err != nil {
			c.b.t.Fatalf("publish: got %v, want nil", err)
		}
	}
}

// PublishMany publishes numbered orders, all at once.
func (c *Client) PublishMany(name string, n int) {
	c.b.t.Helper()
	messages := make([]rehop.Message, n)
	for i := range messages {
		messages[i] = orderCreated(name + " " + strconv.Itoa(i))
	}
	c.b.Must(c.PublishBatch(c.b.Context(), messages))
}

// FailAndLeave has a subscription fail the next message until it has failed attempts times in all, and then ends it: what it
// wrote down is left for others. The last attempt ends when the broker sends the subscription no more, so that the message
// does not come back to it.
func (c *Client) FailAndLeave(s rehop.Subscriber, attempts int) {
	c.b.t.Helper()
	reached, leaving := make(chan struct{}), make(chan struct{})
	s.Handler = rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		switch {
		case d.Attempt == attempts:
			close(reached)
			<-leaving
		case d.Attempt > attempts:
			c.b.t.Errorf("rehop was to leave after attempt %d, and has begun attempt %d", attempts, d.Attempt)
		}
		return errFailed
	})
	sub := c.Subscribe(s)
	receive(c.b, reached, c.b.limit(), "rehop begins the last of its attempts")
	drained := make(chan error, 1)
	go func() { drained <- sub.Drain(c.b.Context()) }()
	c.b.Eventually(soon, "the subscription receives no more", func() bool { return !sub.Receiving() })
	close(leaving)
	c.b.Must(receive(c.b, drained, soon, "the subscription has ended"))
}

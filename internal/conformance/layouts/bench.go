package layouts

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/layout"
)

// Bench is what a case works with.
type Bench struct {
	Broker
	t testing.TB
}

// Wait is a time of the seed's where time costs nothing, and a short one elsewhere.
func (b *Bench) Wait(seed, short time.Duration) time.Duration {
	if b.Virtual {
		return seed
	}
	return short
}

// limit is how long a case waits for what must happen: far longer than anything takes.
func (b *Bench) limit() time.Duration { return b.Wait(4*24*time.Hour, 20*time.Second) }

// soon is the limit for what happens at once.
const soon = 20 * time.Second

// Context ends after the limit.
func (b *Bench) Context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), b.limit())
	b.t.Cleanup(cancel)
	return ctx
}

// Must ends the test on an error.
func (b *Bench) Must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("got error %v, want none", err)
	}
}

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
		line.mend()
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
func (c *Client) Subscribe(s rehop.Subscription) *rehop.Subscriber {
	c.b.t.Helper()
	sub, err := c.Client.Subscribe(c.b.Context(), s)
	if err != nil {
		c.b.t.Fatalf("subscribe to %q: %v", s.Queue, err)
	}
	return sub
}

// Declare makes all that a subscription has on the broker, and leaves.
func (c *Client) Declare(s rehop.Subscription) {
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

// FailAndLeave has a subscription fail the next message until it has failed attempts times in all, and then ends it: what it
// wrote down is left for others. The wait that follows must not be short, or the message would be back before that.
func (c *Client) FailAndLeave(s rehop.Subscription, attempts int) {
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
	go func() {
		close(leaving)
		drained <- sub.Drain(c.b.Context())
	}()
	c.b.Must(receive(c.b, drained, soon, "the subscription has ended"))
}

// Admin looks after the queues of a layout.
func (b *Bench) Admin(l layout.Layout) *Admin {
	b.t.Helper()
	a, err := admin.Open(b.Context(), admin.Config{URL: b.URL, Dial: b.Dial, Layout: l})
	if err != nil {
		b.t.Fatalf("open an admin: %v", err)
	}
	b.t.Cleanup(a.Close)
	return &Admin{a, b}
}

// Admin is package admin's, with what nearly every case does as methods that end the test where they fail.
type Admin struct {
	*admin.Admin
	b *Bench
}

// WantFailed waits until so many messages of a queue rest, and returns them.
func (a *Admin) WantFailed(queue string, n int) []admin.Message {
	a.b.t.Helper()
	var found []admin.Message
	a.b.Eventually(a.b.limit(), "messages rest that "+queue+" has failed", func() bool {
		var err error
		found, err = a.Failed(a.b.Context(), queue, n+1, admin.Filter{})
		a.b.Must(err)
		return len(found) == n
	})
	return found
}

// Replay replays all that rests of a queue, and checks how many that is.
func (a *Admin) Replay(queue string, n int) {
	a.b.t.Helper()
	p, err := a.Admin.Replay(a.b.Context(), queue, admin.Options{})
	if err != nil || p.Done != n {
		a.b.t.Fatalf("replay of %q: got %+v, %v, want %d done and no error", queue, p, err, n)
	}
}

// Eventually waits for a condition that no event announces. Where the limit is long the looks become rare.
func (b *Bench) Eventually(limit time.Duration, what string, condition func() bool) {
	b.t.Helper()
	began := time.Now()
	for pause := 5 * time.Millisecond; !condition(); pause = min(2*pause, b.Wait(time.Minute, 50*time.Millisecond)) {
		if time.Since(began) > limit {
			b.t.Fatalf("after %v still not: %s", limit, what)
		}
		<-time.After(pause)
	}
}

// receive waits for an event.
func receive[T any](b *Bench, from <-chan T, limit time.Duration, what string) T {
	b.t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v := <-from:
		return v
	case <-timer.C:
		b.t.Fatalf("after %v still not: %s", limit, what)
		panic("unreachable")
	}
}

// equal checks a value.
func equal[T comparable](b *Bench, what string, got, want T) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// equals checks a list.
func equals[T comparable](b *Bench, what string, got, want []T) {
	b.t.Helper()
	if !slices.Equal(got, want) {
		b.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// waited checks how long something took. Where time is virtual it must have been exactly that.
func waited(b *Bench, what string, got, want time.Duration) {
	b.t.Helper()
	slack := b.Wait(time.Second, b.limit())
	if early := 5 * time.Millisecond; got < want-early || got > want+slack {
		b.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

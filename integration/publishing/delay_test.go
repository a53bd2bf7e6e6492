package publishing

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/layouts"
)

// arrival is a delivery and when it came.
type arrival struct {
	d  rehop.Delivery
	at time.Time
}

// subscribe hands on what arrives in a queue.
func subscribe(t testing.TB, c *rehop.Client, s rehop.Subscriber) <-chan arrival {
	t.Helper()
	got := make(chan arrival, 100)
	s.Handler = rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		got <- arrival{*d, time.Now()}
		return nil
	})
	kit.Subscribe(t, c, s)
	return got
}

func TestDelay(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL})
	got := subscribe(t, c, rehop.Subscriber{Queue: "q", Exchange: "order", Keys: []string{"order.#"}})
	for _, test := range []struct {
		name string
		m    rehop.Message
		wait time.Duration
	}{
		{"Delay", rehop.Message{Delay: 700 * time.Millisecond}, 700 * time.Millisecond},
		{"At", rehop.Message{At: time.Now().Add(1200 * time.Millisecond)}, 0},
		{"both", rehop.Message{Delay: 300 * time.Millisecond, At: time.Now().Add(-time.Hour)}, 300 * time.Millisecond},
		{"past", rehop.Message{At: time.Now().Add(-time.Hour)}, 0},
		{"not a multiple of the unit", rehop.Message{Delay: 101 * time.Millisecond}, 101 * time.Millisecond},
	} {
		m := test.m
		m.ID, m.Exchange, m.Key, m.Body = test.name, "order", "order.created", []byte("body")
		m.Headers = map[string]any{"h": "v"}
		due := time.Now().Add(test.wait)
		if m.At.After(due) {
			due = m.At
		}
		if err := c.Publish(kit.Context(t), m); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		a := kit.Receive(t, got, "message")
		if early := due.Sub(a.at); early > 0 {
			t.Errorf("%s: arrived %v too early", test.name, early)
		}
		d := a.d
		if d.ID != test.name || d.Exchange != "order" || d.Key != "order.created" || string(d.Body) != "body" {
			t.Errorf("%s: got id %q, exchange %q, key %q, body %q; want them as published: %q, order, order.created, body", test.name, d.ID, d.Exchange, d.Key, d.Body, test.name)
		}
		if len(d.Headers) != 1 || d.Headers["h"] != "v" {
			t.Errorf("%s: got headers %v, want only h=v", test.name, d.Headers)
		}
		if d.Attempt != 1 || d.LastError != "" || d.Redelivered {
			t.Errorf("%s: got attempt %d, last error %q, redelivered %v; want a first attempt", test.name, d.Attempt, d.LastError, d.Redelivered)
		}
	}
}

// Messages with different delays do not wait for each other.
func TestDelaysDoNotQueueUp(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL})
	got := subscribe(t, c, rehop.Subscriber{Queue: "q"})
	for id, d := range map[string]time.Duration{"long": time.Hour, "longer": 24 * time.Hour, "short": 200 * time.Millisecond} {
		kit.Publish(t, c, rehop.Message{ID: id, Key: "q", Delay: d})
	}
	if a := kit.Receive(t, got, "message"); a.d.ID != "short" {
		t.Errorf("got %q first, want short", a.d.ID)
	}
}

// The longest name that AMQP has, on the default exchange, of a queue that rehop did not declare.
func TestDelayToQueueWithLongName(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL})
	ch := r.Channel()
	name := strings.Repeat("ü#*.", 51) // 5 bytes each
	if len(name) != 255 {
		t.Fatalf("the name has %d bytes, want 255", len(name))
	}
	kit.Queue(t, ch, name, nil)
	start := time.Now()
	kit.Publish(t, c, rehop.Message{Key: name, Delay: 300 * time.Millisecond, Body: []byte("later")})
	lab.Eventually(t, kit.Limit, "message in the queue", func() bool { return r.Depth(ch, name) == 1 })
	if took := time.Since(start); took < 300*time.Millisecond {
		t.Errorf("arrived after %v, want 300 ms at least", took)
	}
	if d := kit.TakeAll(t, ch, name)[0]; string(d.Body) != "later" || d.RoutingKey != name {
		t.Errorf("got body %q, key %q; want later and the queue's name", d.Body, d.RoutingKey)
	}
}

func TestDelayRefused(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL, Exchanges: []rehop.Exchange{{Name: "order"}}})
	ch := r.Channel()
	kit.Exchange(t, ch, "foreign", "topic")
	kit.Queue(t, ch, "q", nil, [2]string{"foreign", "#"})
	publish := func(m rehop.Message) error { return c.Publish(kit.Context(t), m) }
	wantError(t, "exchange that rehop does not declare", publish(rehop.Message{Exchange: "foreign", Key: "k", Delay: time.Second}), rehop.ErrInvalid)
	wantError(t, "too long", publish(rehop.Message{Key: "q", Delay: layouts.MaxDelay + time.Hour}), rehop.ErrInvalid)
	wantError(t, "with an expiration", publish(rehop.Message{Key: "q", Delay: time.Second, Expiration: time.Minute}), rehop.ErrInvalid)
	err := publish(rehop.Message{Key: "missing", Delay: time.Second})
	var te *rehop.TopologyError
	if !errors.Is(err, rehop.ErrUnroutable) && !errors.As(err, &te) {
		t.Errorf("missing queue: got %v, want ErrUnroutable or a TopologyError", err)
	}
	promised(t, err)
	// And nothing of it has hurt.
	if err := publish(rehop.Message{Key: "q", Delay: 100 * time.Millisecond}); err != nil {
		t.Errorf("afterwards: got %v, want nil", err)
	}
	lab.Eventually(t, kit.Limit, "message in the queue", func() bool { return r.Depth(ch, "q") == 1 })
}

// When the time has come and nothing is bound, the message is kept where people look; the delay
// queues do not jam.
func TestDelayedUnroutedIsKept(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL, Exchanges: []rehop.Exchange{{Name: "order"}}})
	ch := r.Channel()
	kit.Queue(t, ch, "doomed", nil)
	kit.Queue(t, ch, "alive", nil)
	publish := func(m rehop.Message) {
		t.Helper()
		m.Delay = 200 * time.Millisecond
		kit.Publish(t, c, m)
	}
	publish(rehop.Message{ID: "u", Exchange: "order", Key: "unbound"})
	for range 40 { // more than the window of a dead-letter worker
		publish(rehop.Message{ID: "o", Key: "doomed"})
	}
	kit.DeleteQueue(t, ch, "doomed")
	publish(rehop.Message{ID: "a", Key: "alive"})
	lab.Eventually(t, kit.Limit, "message for the living queue", func() bool { return r.Depth(ch, "alive") == 1 })
	lab.Eventually(t, kit.Limit, "unrouted message kept", func() bool { return r.Depth(ch, layouts.UnroutedQueue) == 1 })
	if d := kit.TakeAll(t, ch, layouts.UnroutedQueue)[0]; d.MessageId != "u" || d.RoutingKey != "unbound" {
		t.Errorf("got %q with key %q in %s, want u with key unbound", d.MessageId, d.RoutingKey, layouts.UnroutedQueue)
	}
}

// A delayed batch.
func TestDelayedBatch(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL})
	ch := r.Channel()
	kit.Queue(t, ch, "q", nil)
	messages := make([]rehop.Message, 30)
	for i := range messages {
		messages[i] = rehop.Message{Key: "q", Delay: time.Duration(1+i%4) * 100 * time.Millisecond}
	}
	kit.Publish(t, c, messages...)
	lab.Eventually(t, kit.Limit, "all in the queue", func() bool { return r.Depth(ch, "q") == len(messages) })
}

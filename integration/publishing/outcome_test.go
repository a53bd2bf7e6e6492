package publishing

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/layouts"
)

func TestConfirmedAndRouted(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL, Exchanges: []rehop.Exchange{{Name: "order"}}})
	ch := r.Channel()
	kit.Queue(t, ch, "q", nil, [2]string{"order", "order.#"})
	kit.Publish(t, c, rehop.Message{Exchange: "order", Key: "order.created", Body: []byte("a")})
	kit.Publish(t, c, rehop.Message{Key: "q", Body: []byte("b")})
	// Nil means that it is in the queue: no waiting here.
	got := kit.TakeAll(t, ch, "q")
	if len(got) != 2 || string(got[0].Body) != "a" || string(got[1].Body) != "b" {
		t.Fatalf("got %d messages, want a and b", len(got))
	}
	if got[0].MessageId == "" || got[0].DeliveryMode != amqp.Persistent || got[0].Timestamp.IsZero() {
		t.Errorf("got id %q, delivery mode %d, timestamp %v; want an id, persistent, and a time", got[0].MessageId, got[0].DeliveryMode, got[0].Timestamp)
	}
	if got[0].MessageId == got[1].MessageId {
		t.Errorf("two messages have the same id %q", got[0].MessageId)
	}
}

func TestUnroutable(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		t.Run(map[bool]string{false: "return", true: "keep"}[keeps], func(t *testing.T) {
			t.Parallel()
			r := lab.Single(t)
			c := open(t, rehop.Config{URL: r.URL, KeepUnroutable: keeps, Exchanges: []rehop.Exchange{{Name: "order"}}})
			ch := r.Channel()
			kit.Queue(t, ch, "q", nil, [2]string{"order", "order.#"})
			kit.Exchange(t, ch, "foreign", "topic")
			publish := func(exchange, key string) error {
				return c.Publish(kit.Context(t), rehop.Message{ID: exchange + "/" + key, Exchange: exchange, Key: key})
			}
			wantError(t, "missing exchange", publish("missing", "x"), rehop.ErrUnroutable)
			wantError(t, "missing queue on the default exchange", publish("", "missing"), rehop.ErrUnroutable)
			wantError(t, "foreign exchange without a queue", publish("foreign", "x"), rehop.ErrUnroutable)

			err := publish("order", "unbound")
			if !keeps {
				wantError(t, "unbound key", err, rehop.ErrUnroutable)
				if want := `no queue is bound to exchange "order" for the key "unbound"`; err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want it to say %q", err, want)
				}
				depth(t, r, ch, layouts.UnroutedQueue, 0)
			} else {
				if err != nil {
					t.Errorf("unbound key: got %v, want nil", err)
				}
				kept := kit.TakeAll(t, ch, layouts.UnroutedQueue)
				if len(kept) != 1 || kept[0].MessageId != "order/unbound" || kept[0].RoutingKey != "unbound" {
					t.Errorf("got %d messages in %s, want the one with key unbound", len(kept), layouts.UnroutedQueue)
				}
			}
			// What others publish, without mandatory, is kept under both choices.
			if err := ch.PublishWithContext(t.Context(), "order", "lost", false, false, amqp.Publishing{MessageId: "raw"}); err != nil {
				t.Fatal(err)
			}
			lab.Eventually(t, kit.Limit, "raw message kept", func() bool { return r.Depth(ch, layouts.UnroutedQueue) == 1 })
			if kept := kit.TakeAll(t, ch, layouts.UnroutedQueue); kept[0].MessageId != "raw" {
				t.Errorf("got %q in %s, want the raw message", kept[0].MessageId, layouts.UnroutedQueue)
			}
			// And the channel still works.
			if err := publish("order", "order.created"); err != nil {
				t.Errorf("routable after unroutable ones: got %v, want nil", err)
			}
			depth(t, r, ch, "q", 1)
		})
	}
}

// The exchange is there at the first message and gone at the second: the broker closes the channel.
func TestExchangeDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL})
	ch := r.Channel()
	kit.Exchange(t, ch, "x", "fanout")
	kit.Queue(t, ch, "q", nil, [2]string{"x", ""})
	kit.Publish(t, c, rehop.Message{Exchange: "x"})
	if err := ch.ExchangeDelete("x", false, false); err != nil {
		t.Fatal(err)
	}
	err := c.Publish(kit.Context(t), rehop.Message{Exchange: "x"})
	if !errors.Is(err, rehop.ErrUnroutable) {
		t.Errorf("got %v, want %v", err, rehop.ErrUnroutable)
	}
	if err := c.Publish(kit.Context(t), rehop.Message{Key: "q"}); err != nil {
		t.Errorf("publishing elsewhere afterwards: got %v, want nil", err)
	}
	depth(t, r, ch, "q", 2)
}

func TestRefusedByFullQueue(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL, Exchanges: []rehop.Exchange{{Name: "all", Type: "fanout"}}})
	ch := r.Channel()
	full := amqp.Table{"x-max-length": int32(5), "x-overflow": "reject-publish"}
	kit.Queue(t, ch, "full", full, [2]string{"all", ""})
	kit.Queue(t, ch, "roomy", nil, [2]string{"all", ""})
	publish := func(m rehop.Message) error { return c.Publish(kit.Context(t), m) }
	for range 5 {
		if err := publish(rehop.Message{Key: "full"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 30 { // enough for the longest pause
		wantError(t, "full queue", publish(rehop.Message{Key: "full"}), rehop.ErrRefused)
	}
	wantError(t, "fan-out, one of two queues full", publish(rehop.Message{Exchange: "all"}), rehop.ErrRefused)
	depth(t, r, ch, "full", 5)

	if _, err := ch.QueuePurge("full", false); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := publish(rehop.Message{Key: "full"}); err != nil {
			t.Errorf("after space was made: got %v, want nil", err)
		}
	}
}

// Publishers that hammer a full queue are slowed down.
func TestNackStorm(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL})
	ch := r.Channel()
	kit.Queue(t, ch, "full", amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
	kit.Publish(t, c, rehop.Message{Key: "full"})
	const publishers, enough = 8, 600
	ctx, stop := context.WithCancel(kit.Context(t))
	defer stop()
	began := time.Now()
	var tries atomic.Int64
	var all sync.WaitGroup
	for range publishers {
		all.Go(func() {
			for ctx.Err() == nil {
				err := c.Publish(ctx, rehop.Message{Key: "full"})
				if tries.Add(1) == enough {
					stop()
				}
				if err == nil {
					t.Error("got nil from a full queue")
				} else if ctx.Err() == nil && !errors.Is(err, rehop.ErrRefused) {
					t.Errorf("got %v, want %v", err, rehop.ErrRefused)
				}
			}
		})
	}
	all.Wait()
	// The longest pause is between 50 and 100 ms: at most 20 tries a second for each, and those before.
	took := time.Since(began)
	if got, most := tries.Load(), int64(publishers*20*took.Seconds())+200; got > most || got < enough {
		t.Errorf("got %d tries in %v by %d publishers, want from %d to %d", got, took, publishers, enough, most)
	}
}

// The broker closes the channel of whoever publishes to an internal exchange. That must end with an
// error, not in a loop, and must not fail what others publish.
func TestInternalExchange(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL})
	ch := r.Channel()
	if err := ch.ExchangeDeclare("internal", "fanout", true, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	kit.Queue(t, ch, "q", nil)
	ctx, stop := context.WithCancel(kit.Context(t))
	defer stop()
	var others sync.WaitGroup
	var good atomic.Int64
	started := make(chan struct{})
	var once sync.Once
	for range 8 {
		others.Go(func() {
			for ctx.Err() == nil {
				if err := c.Publish(kit.Context(t), rehop.Message{Key: "q"}); err != nil {
					t.Errorf("another's message: got %v, want nil", err)
				}
				if good.Add(1) > 50 {
					once.Do(func() { close(started) })
				}
			}
		})
	}
	<-started
	err := c.Publish(kit.Context(t), rehop.Message{Exchange: "internal"})
	if !errors.Is(err, rehop.ErrRefused) {
		t.Errorf("got %v, want %v", err, rehop.ErrRefused)
	}
	if err != nil && !strings.Contains(err.Error(), "internal exchange") {
		t.Errorf("got %q, want the broker's reason in it", err)
	}
	stop()
	others.Wait()
	if got := int64(r.Depth(ch, "q")); got < good.Load() {
		t.Errorf("got %d messages in the queue, want at least the %d that were confirmed", got, good.Load())
	}
}

func TestClosedClient(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := open(t, rehop.Config{URL: r.URL})
	if err := c.Close(kit.Context(t)); err != nil {
		t.Fatal(err)
	}
	wantError(t, "publish", c.Publish(kit.Context(t), rehop.Message{Key: "q"}), rehop.ErrClosed)
	err := c.PublishBatch(kit.Context(t), []rehop.Message{{Key: "q"}, {Key: "q"}})
	wantError(t, "batch", err, rehop.ErrClosed)
	_, err = c.Subscribe(kit.Context(t), rehop.Subscriber{Queue: "q", Handler: kit.Nop})
	if !errors.Is(err, rehop.ErrClosed) {
		t.Errorf("subscribe: got %v, want %v", err, rehop.ErrClosed)
	}
	if got := c.State(); got != rehop.StateClosed {
		t.Errorf("got state %s, want %s", got, rehop.StateClosed)
	}
}

// Close waits for the outcomes of what is under way.
func TestCloseWaitsForConfirms(t *testing.T) {
	t.Parallel()
	r, ch, w, c := wired(t, rehop.Config{})
	kit.Publish(t, c, rehop.Message{Key: "q"})
	release := w.Newest(t, "publish").Hold()
	result := make(chan error, 1)
	go func() { result <- c.Publish(kit.Context(t), rehop.Message{Key: "q"}) }()
	lab.Eventually(t, kit.Limit, "second message on the broker", func() bool { return r.Depth(ch, "q") == 2 })
	closed := make(chan error, 1)
	go func() { closed <- c.Close(kit.Context(t)) }()
	// New messages are turned away while Close waits.
	lab.Eventually(t, kit.Limit, "new messages turned away", func() bool {
		return errors.Is(c.Publish(kit.Timeout(t, 50*time.Millisecond), rehop.Message{Key: "missing"}), rehop.ErrClosed)
	})
	select {
	case err := <-closed:
		t.Fatalf("Close returned %v before the confirm came", err)
	default:
	}
	release()
	if err := <-result; err != nil {
		t.Errorf("message under way at Close: got %v, want nil", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: got %v, want nil", err)
	}
}

package rehop_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// succeed is the answer of a handler that has nothing to do.
func succeed(context.Context, *rehop.Delivery) error { return nil }

// outcome is what became of the message with an index, and when.
type outcome struct {
	index int
	err   error
	at    time.Duration
}

// each publishes in the background. What it returns is closed at the end.
func each(ctx context.Context, c *rehop.Client, messages ...rehop.Message) <-chan outcome {
	outcomes, clock := make(chan outcome, len(messages)), startClock()
	go func() {
		defer close(outcomes)
		c.PublishEach(ctx, messages, func(i int, err error) { outcomes <- outcome{i, err, clock.now()} })
	}()
	return outcomes
}

// A message that is not confirmed delays the report of no other, wherever it is in the batch.
func TestEachByItself(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		for _, q := range []string{"slow", "quick"} {
			subscribe(t, b.Client, rehop.Subscriber{Queue: q, Handler: newLogbook(succeed)})
		}
		b.HoldConfirmsOf(func(_, key string) bool { return key == "slow" })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		outcomes := each(ctx, b.Client, rehop.Message{Key: "slow"}, rehop.Message{Key: "quick"}, rehop.Message{Exchange: "missing"}, rehop.Message{Key: "quick"})
		for o := range outcomes {
			switch {
			case o.index == 0 && (!errors.Is(o.err, rehop.ErrUnknown) || o.at != 10*time.Second):
				t.Errorf("slow one: got %v after %v, want ErrUnknown after 10s", o.err, o.at)
			case o.index == 2 && (!errors.Is(o.err, rehop.ErrUnroutable) || o.at > time.Second):
				t.Errorf("one without an exchange: got %v after %v, want ErrUnroutable at once", o.err, o.at)
			case o.index%2 == 1 && (o.err != nil || o.at > time.Second):
				t.Errorf("quick one: got %v after %v, want nil at once", o.err, o.at)
			}
		}
	})
}

// A message whose id is under way does not hold up those behind it, and is sent when the other one has its answer.
func TestEachWithTheIDOfAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		for _, q := range []string{"slow", "quick"} {
			subscribe(t, b.Client, rehop.Subscriber{Queue: q, Handler: newLogbook(succeed)})
		}
		b.HoldConfirmsOf(func(_, key string) bool { return key == "slow" })
		first := each(t.Context(), b.Client, rehop.Message{ID: "same", Key: "slow"})
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		second := each(ctx, b.Client, rehop.Message{ID: "same", Key: "slow"}, rehop.Message{Key: "quick"})
		if o := <-second; o.index != 1 || o.err != nil || o.at > time.Second {
			t.Errorf("got message %d with %v after %v, want the one with another id at once", o.index, o.err, o.at)
		}
		if o := <-second; !errors.Is(o.err, rehop.ErrUnknown) {
			t.Errorf("while the first is not confirmed: got %v, want ErrUnknown", o.err)
		}
		third := each(t.Context(), b.Client, rehop.Message{ID: "same", Key: "quick"})
		time.Sleep(time.Second)
		b.HoldConfirmsOf(nil)
		for name, outcomes := range map[string]<-chan outcome{"first": first, "third": third} {
			if o := <-outcomes; o.err != nil {
				t.Errorf("%s: got %v, want nil when the first is confirmed", name, o.err)
			}
		}
	})
}

// Messages with the same id in one batch are sent one after the other.
func TestEachWithOneID(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(succeed)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log})
		if err := b.Client.PublishBatch(t.Context(), []rehop.Message{{ID: "same", Key: "q"}, {ID: "same", Key: "q"}, {ID: "same", Key: "q"}}); err != nil {
			t.Errorf("got %v, want nil", err)
		}
		b.AwaitEmpty("q")
		if got := len(log.all()); got != 3 {
			t.Errorf("handled: got %d, want 3", got)
		}
	})
}

// onPublished calls a function for each message of which it is known what became of it.
func onPublished(call func()) rehop.Hooks {
	return rehop.Hooks{OnPublishEnd: func(context.Context, *rehop.Message, time.Duration, error) { call() }}
}

// What is called for the messages of a batch cannot close the client, which would wait for the others: Close returns an error at once, on whichever
// goroutine it is, and everything continues.
func TestCloseFromEach(t *testing.T) {
	const slow = 10 * time.Second
	messages := []rehop.Message{{Key: "quick"}, {Key: "slow"}, {Exchange: "missing"}, {Key: "slow"}}
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var client *rehop.Client
		var tries atomic.Int64
		try := func() {
			tries.Add(1)
			before := startClock()
			if err := client.Close(context.Background()); err == nil || !strings.Contains(err.Error(), "from another goroutine") {
				t.Errorf("close: got %v, want an error that names the reason", err)
			}
			if took := before.now(); took != 0 {
				t.Errorf("close took %v, want no time", took)
			}
		}
		config := b.Config()
		config.Hooks = append(config.Hooks, onPublished(func() {
			if client.State() == rehop.StateOpen {
				try()
			}
		}))
		var err error
		if client, err = rehop.Open(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		for _, q := range []string{"slow", "quick"} {
			subscribe(t, client, rehop.Subscriber{Queue: q, Handler: newLogbook(succeed)})
		}
		held := func(calls func()) {
			b.HoldConfirmsOf(func(_, key string) bool { return key == "slow" })
			time.AfterFunc(slow, func() { b.HoldConfirmsOf(nil) })
			calls()
		}
		held(func() { client.PublishEach(t.Context(), messages, func(int, error) { try() }) })
		held(func() { _ = client.PublishBatch(t.Context(), messages) })
		if got, want := int(tries.Load()), 3*len(messages); got != want {
			t.Errorf("tries to close: got %d, want %d", got, want)
		}
		if err := client.Close(context.Background()); err != nil {
			t.Errorf("close from outside: got %v, want nil", err)
		}
	})
}

// A handler that publishes a batch is still a handler afterwards.
func TestEachInHandler(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var sub *rehop.Subscription
		subscribed, errs := make(chan struct{}), make(chan error, 2)
		sub = subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(func(ctx context.Context, _ *rehop.Delivery) error {
			<-subscribed
			b.Client.PublishEach(ctx, []rehop.Message{{Exchange: "missing"}}, func(int, error) { errs <- sub.Drain(ctx) })
			errs <- b.Client.Close(ctx)
			return nil
		})})
		close(subscribed)
		publish(t, b.Client, rehop.Message{Key: "q"})
		for _, what := range []string{"drain", "close"} {
			if err := <-errs; err == nil {
				t.Errorf("%s: got nil, want an error", what)
			}
		}
		b.AwaitEmpty("q")
	})
}

// Nothing waits for the hook of a single message, so it may close the client.
func TestCloseFromPublishHook(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var client *rehop.Client
		config := b.Config()
		closed := make(chan error, 1)
		config.Hooks = append(config.Hooks, onPublished(func() { closed <- client.Close(context.Background()) }))
		var err error
		if client, err = rehop.Open(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: newLogbook(succeed)})
		began := startClock()
		publish(t, client, rehop.Message{Key: "q"})
		if err := <-closed; err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
		if took := began.now(); took > time.Second {
			t.Errorf("close took %v, want no time", took)
		}
	})
}

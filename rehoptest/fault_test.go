package rehoptest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// later publishes in the background.
func later(t *testing.T, c *rehop.Client, m rehop.Message) <-chan error {
	done := make(chan error, 1)
	go func() { done <- c.Publish(t.Context(), m) }()
	return done
}

// wantPending checks that a Publish has not returned.
func wantPending(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Errorf("publish returned %v, want it to wait", err)
	default:
	}
}

func wantNil(t *testing.T, done <-chan error) {
	t.Helper()
	if err := <-done; err != nil {
		t.Errorf("publish: got %v, want nil", err)
	}
}

func TestDrop(t *testing.T) {
	everywhere(t, func(t *testing.T, b *rehoptest.Broker) {
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: succeeds})
		for range 3 {
			publish(t, b.Client, rehop.Message{Key: "q"})
			if n := b.Drop(); n == 0 {
				t.Error("dropped no connection, want some")
			}
		}
		publish(t, b.Client, rehop.Message{Key: "q"})
		b.AwaitEmpty("q")
	})
}

func TestDown(t *testing.T) {
	everywhere(t, func(t *testing.T, b *rehoptest.Broker) {
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: succeeds})
		b.Down()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := b.Client.Publish(ctx, rehop.Message{Key: "q"}); !errors.Is(err, rehop.ErrDisconnected) {
			t.Errorf("publish while the broker is down: got %v, want ErrDisconnected", err)
		}
		done := later(t, b.Client, rehop.Message{Key: "q"})
		b.Up()
		wantNil(t, done)
		b.AwaitEmpty("q")
	})
}

func TestBlock(t *testing.T) {
	everywhere(t, func(t *testing.T, b *rehoptest.Broker) {
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: succeeds})
		publish(t, b.Client, rehop.Message{Key: "q"}) // a broker blocks only those who have published
		b.Block()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := b.Client.Publish(ctx, rehop.Message{Key: "q"}); !errors.Is(err, rehop.ErrBlocked) && !errors.Is(err, rehop.ErrUnknown) {
			t.Errorf("publish while the broker is blocked: got %v, want ErrBlocked or, if it was sent, ErrUnknown", err)
		}
		done := later(t, b.Client, rehop.Message{Key: "q"})
		wantPending(t, done)
		b.Unblock()
		wantNil(t, done)
		b.AwaitEmpty("q")
	})
}

func TestRefuse(t *testing.T) {
	everywhere(t, func(t *testing.T, b *rehoptest.Broker) {
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Exchange: "x", Handler: succeeds})
		b.Refuse(func(exchange, key string) bool { return exchange == "x" && key == "bad" })
		publish(t, b.Client, rehop.Message{Exchange: "x", Key: "good"})
		err := b.Client.Publish(t.Context(), rehop.Message{Exchange: "x", Key: "bad"})
		if !errors.Is(err, rehop.ErrRefused) {
			t.Errorf("publish: got %v, want ErrRefused", err)
		}
		b.Refuse(nil)
		publish(t, b.Client, rehop.Message{Exchange: "x", Key: "bad"})
		b.AwaitEmpty("q")
	})
}

// A failed message that the broker refuses to take is not lost: it is offered again until it is taken.
func TestRefuseRetries(t *testing.T) {
	everywhere(t, func(t *testing.T, b *rehoptest.Broker) {
		refused := make(chan struct{}, 100)
		b.Refuse(func(_, key string) bool {
			if key == "q.failed" {
				refused <- struct{}{}
			}
			return key == "q.failed"
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Retry: rehop.NoRetry(), Handler: fails})
		publish(t, b.Client, rehop.Message{Key: "q"})
		<-refused
		<-refused
		b.Refuse(nil)
		if got := len(b.AwaitFailed("q", 1)); got != 1 {
			t.Errorf("failed messages: got %d, want 1", got)
		}
		b.AwaitEmpty("q")
	})
}

func TestHoldConfirms(t *testing.T) {
	everywhere(t, func(t *testing.T, b *rehoptest.Broker) {
		handled := make(chan struct{}, 10)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
			handled <- struct{}{}
			return nil
		})})
		b.HoldConfirms()
		done := later(t, b.Client, rehop.Message{Key: "q"})
		<-handled // the broker has it
		wantPending(t, done)
		b.ReleaseConfirms()
		wantNil(t, done)
	})
}

func TestHoldConfirmsOf(t *testing.T) {
	everywhere(t, func(t *testing.T, b *rehoptest.Broker) {
		handled := make(chan string, 10)
		for _, q := range []string{"slow", "quick"} {
			subscribe(t, b.Client, rehop.Subscriber{Queue: q, Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				handled <- d.Queue
				return nil
			})})
		}
		b.HoldConfirmsOf(func(_, key string) bool { return key == "slow" })
		done := later(t, b.Client, rehop.Message{Key: "slow"})
		if got := <-handled; got != "slow" {
			t.Fatalf("handled: got one of queue %q, want slow", got)
		}
		for range 3 {
			publish(t, b.Client, rehop.Message{Key: "quick"})
		}
		messages := []rehop.Message{{Key: "quick"}, {Key: "quick"}, {Key: "quick"}}
		if err := b.Client.PublishBatch(t.Context(), messages); err != nil {
			t.Errorf("publish others together: got %v, want nil", err)
		}
		wantPending(t, done)
		b.HoldConfirmsOf(nil)
		wantNil(t, done)
	})
}

// The end of a test ends its faults, or the client could not be closed.
func TestFaultsEndWithTheTest(t *testing.T) {
	for name, strike := range map[string]func(*rehoptest.Broker){
		"down": (*rehoptest.Broker).Down, "block": (*rehoptest.Broker).Block, "hold": (*rehoptest.Broker).HoldConfirms, "silence": (*rehoptest.Broker).Silence,
		"hold some": func(b *rehoptest.Broker) { b.HoldConfirmsOf(func(string, string) bool { return true }) },
		"refuse":    func(b *rehoptest.Broker) { b.Refuse(func(string, string) bool { return true }) },
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, b *rehoptest.Broker) {
				subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: succeeds})
				publish(t, b.Client, rehop.Message{Key: "q"})
				strike(b)
			})
		})
	}
}

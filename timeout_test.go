package rehop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// Every handler has the same time, also those after one that took too long.
func TestEachHandlerTimesOut(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		const messages = 5
		took := make(chan time.Duration, messages)
		handler := rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			began := time.Now()
			if deadline, ok := ctx.Deadline(); !ok || deadline.Sub(began) != time.Second {
				t.Errorf("deadline: got %v from now, want 1s", deadline.Sub(began))
			}
			<-ctx.Done()
			if ctx.Err() != context.DeadlineExceeded || context.Cause(ctx) == nil {
				t.Errorf("context: got %v by %v, want its deadline", ctx.Err(), context.Cause(ctx))
			}
			took <- time.Since(began)
			if d.ID == "3" {
				time.Sleep(10 * time.Second) // some notice later than others
			}
			return errors.New("too late")
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Concurrency: 1, Timeout: time.Second, StuckAfter: 30 * time.Second, Retry: rehop.NoRetry(), Handler: handler})
		for i := range messages {
			publish(t, b.Client, rehop.Message{ID: string(rune('1' + i)), Key: "q"})
		}
		for i := range messages {
			if got := <-took; got != time.Second {
				t.Errorf("handler %d: canceled after %v, want 1s", i+1, got)
			}
		}
		for _, m := range b.AwaitFailed("q", messages) {
			if m.Kind != "timeout" {
				t.Errorf("message %s: got kind %q, want timeout", m.ID, m.Kind)
			}
		}
	})
}

// Handlers that begin at different times, and after a pause, each have their whole time.
func TestHandlersTimeOutApart(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		took := make(chan time.Duration, 10)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Concurrency: 3, Timeout: time.Second, Retry: rehop.NoRetry(), Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			began := time.Now()
			if d.ID == "quick" {
				return nil
			}
			<-ctx.Done()
			took <- time.Since(began)
			return ctx.Err()
		})})
		for _, pause := range []time.Duration{0, 300 * time.Millisecond, 400 * time.Millisecond, 500 * time.Millisecond, time.Hour, time.Second} {
			time.Sleep(pause)
			publish(t, b.Client, rehop.Message{ID: "quick", Key: "q"})
			publish(t, b.Client, rehop.Message{ID: "slow", Key: "q"})
		}
		for range 6 {
			if got := <-took; got != time.Second {
				t.Errorf("canceled after %v, want 1s", got)
			}
		}
	})
}

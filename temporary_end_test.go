package rehop_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// temporaries are subscriptions whose queue ends with them, or with the client.
var temporaries = map[string]rehop.Subscriber{
	"auto-delete": {AutoDelete: true}, "exclusive": {Exclusive: true}, "rate": {AutoDelete: true, Rate: 10},
	"batch": {AutoDelete: true, Batch: rehop.Batch{Size: 4}},
}

// handledBy sets the handler of single messages or of batches.
func handledBy(s rehop.Subscriber, handle func(ctx context.Context) error) rehop.Subscriber {
	if s.Batch.Size > 0 {
		s.Batch.Handle = func(ctx context.Context, _ []*rehop.Delivery) error { return handle(ctx) }
	} else {
		s.Handler = rehop.HandlerFunc(func(ctx context.Context, _ *rehop.Delivery) error { return handle(ctx) })
	}
	return s
}

// A drain while the handler returns Unavailable waits for the end of the outage, because a message that goes back to a
// temporary queue is lost.
func TestDrainOfTemporaryQueueInOutage(t *testing.T) {
	for name, s := range temporaries {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				client := openWith(t, b, func(*rehop.Config) {})
				var down atomic.Bool
				var handled atomic.Int64
				down.Store(true)
				s = handledBy(s, func(context.Context) error {
					if down.Load() {
						return rehop.Unavailable(errNotYet)
					}
					handled.Add(1)
					return nil
				})
				s.Queue = "q"
				sub := subscribe(t, client, s)
				for i := range 4 {
					publish(t, client, rehop.Message{ID: fmt.Sprint(i), Key: "q"})
				}
				time.Sleep(5 * time.Second)
				time.AfterFunc(2*time.Minute, func() { down.Store(false) })
				if err := sub.Drain(context.Background()); err != nil {
					t.Errorf("drain: got %v, want nil", err)
				}
				if n := handled.Load(); n != 4 && s.Batch.Size == 0 || n == 0 {
					t.Errorf("got %d runs that succeeded, want all messages handled", n)
				}
				if err := client.Close(context.Background()); err != nil {
					t.Errorf("close: got %v, want nil", err)
				}
			})
		})
	}
}

// A subscription to a temporary queue that ends with messages that it has received reports how many are lost.
func TestEndOfTemporaryQueueIsReported(t *testing.T) {
	down := func(context.Context) error { return rehop.Unavailable(errNotYet) }
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, s := range temporaries {
		for how, end := range map[string]func(sub *rehop.Subscription) error{
			"drain":        func(sub *rehop.Subscription) error { return sub.Drain(context.Background()) },
			"short drain":  func(sub *rehop.Subscription) error { return drainWithin(sub, time.Second) },
			"stop":         (*rehop.Subscription).Stop,
			"stop waiting": (*rehop.Subscription).Stop,
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
					client := openWith(t, b, func(*rehop.Config) {})
					s = handledBy(s, down)
					if how == "stop waiting" {
						s = handledBy(s, wait)
					}
					s.Queue = "q"
					sub := subscribe(t, client, s)
					for i := range 4 {
						publish(t, client, rehop.Message{ID: fmt.Sprint(i), Key: "q"})
					}
					time.Sleep(5 * time.Second)
					if err := end(sub); err == nil || !strings.Contains(err.Error(), "not handled: 4; they are lost") {
						t.Errorf("got %v, want that 4 messages are lost", err)
					}
					if err := client.Close(context.Background()); err != nil {
						t.Errorf("close: got %v, want nil", err)
					}
				})
			})
		}
	}
}

func drainWithin(sub *rehop.Subscription, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return sub.Drain(ctx)
}

// Failed messages that cannot be moved at the end of a temporary queue are reported as lost, not as returned to the queue.
func TestUnmovedAtEndOfTemporaryQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		client := openWith(t, b, func(*rehop.Config) {})
		running, blocked := make(chan struct{}), make(chan struct{})
		sub := subscribe(t, client, rehop.Subscriber{Queue: "q", AutoDelete: true, Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
			close(running)
			<-blocked
			return errNotYet
		})})
		publish(t, b.Client, rehop.Message{Key: "q"})
		<-running
		b.Block()
		close(blocked)
		if err := sub.Drain(context.Background()); err == nil || !strings.Contains(err.Error(), "they are lost") {
			t.Errorf("got %v, want that messages are lost", err)
		}
		b.Unblock()
		if err := client.Close(context.Background()); err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
	})
}

// An existing auto-delete queue that is described as such is not deleted while it is used.
func TestExistingAutoDeleteQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		if _, err := channel(t, b).QueueDeclare("q", true, true, false, false, nil); err != nil {
			t.Fatal(err)
		}
		publishMany(t, b.Client, "q", 10)
		log := newLogbook(succeed)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", ExistingQueue: true, AutoDelete: true, Handler: log})
		b.AwaitEmpty("q")
		if n := len(log.all()); n != 10 {
			t.Errorf("got %d messages handled, want 10", n)
		}
	})
}

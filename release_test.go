package rehop_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

func following(release broker.Compat) rehoptest.Option {
	return rehoptest.WithServer(func(s *broker.Server) { s.Compat = release })
}

// Handlers take longer than the broker's consumer timeout, and the last of them waits for those before it.
func TestTimeoutAboveConsumerTimeout(t *testing.T) {
	for name, s := range map[string]rehop.Subscriber{
		"quorum":         {},
		"classic":        {QueueType: layout.Classic},
		"passive":        {ExistingQueue: true},
		"passive quorum": {ExistingQueue: true, QueueType: layout.Quorum},
		"single active":  {SingleActiveConsumer: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				const messages = 4
				if s.ExistingQueue {
					sub := subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(fail)})
					if err := sub.Stop(); err != nil {
						t.Fatal(err)
					}
				}
				book := newLogbook(func(context.Context, *rehop.Delivery) error {
					time.Sleep(50 * time.Minute)
					return nil
				})
				s.Queue, s.Handler, s.Timeout = "q", book, time.Hour
				subscribe(t, b.Client, s)
				for range messages {
					publish(t, b.Client, rehop.Message{Key: "q"})
				}
				b.AwaitEmpty("q")
				if n := len(book.all()); n != messages {
					t.Errorf("got %d runs for %d messages, want one for each", n, messages)
				}
			}, following(broker.RabbitMQ43), rehoptest.WithTimeout(10*time.Hour))
		})
	}
}

// A passive queue turns out to be a classic one, which has no consumer timeout.
func TestPassiveClassicQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		sub := subscribe(t, b.Client, rehop.Subscriber{Queue: "q", QueueType: layout.Classic, Handler: rehop.HandlerFunc(fail)})
		if err := sub.Stop(); err != nil {
			t.Fatal(err)
		}
		book := newLogbook(func(context.Context, *rehop.Delivery) error { return nil })
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", ExistingQueue: true, Handler: book})
		publish(t, b.Client, rehop.Message{Key: "q"})
		b.AwaitEmpty("q")
		if n := len(book.all()); n != 1 {
			t.Errorf("got %d runs, want 1", n)
		}
	}, following(broker.RabbitMQ43))
}

func TestQuorumPriorities(t *testing.T) {
	subscription := rehop.Subscriber{Queue: "q", QueueType: layout.Quorum, MaxPriority: 31, Concurrency: 1, Prefetch: 1}
	for release, want := range map[broker.Compat][][]uint8{
		broker.RabbitMQ40: {{5, 31, 1, 0, 3}, {5, 1, 31, 0, 3}}, // two priorities; after two high ones comes a normal one, and one may have been taken before
		broker.RabbitMQ43: {{31, 5, 0, 3, 1}},
	} {
		t.Run(release.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				s, blocked := subscription, make(chan struct{})
				var order []uint8
				s.Handler = rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					<-blocked
					if d.Type != "ahead" {
						order = append(order, d.Priority)
					}
					return nil
				})
				subscribe(t, b.Client, s)
				for range s.Prefetch + 1 { // one more may be out in the first moments
					publish(t, b.Client, rehop.Message{Key: "q", Type: "ahead"})
				}
				synctest.Wait()
				for _, p := range []uint8{1, 5, 0, 31, 3} {
					publish(t, b.Client, rehop.Message{Key: "q", Priority: p})
				}
				close(blocked)
				b.AwaitEmpty("q")
				if !slices.ContainsFunc(want, func(w []uint8) bool { return slices.Equal(order, w) }) {
					t.Errorf("got priorities in the order %v, want one of %v", order, want)
				}
			}, following(release))
		})
	}
	t.Run("3.10", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			s := subscription
			s.Handler = rehop.HandlerFunc(fail)
			_, err := b.Client.Subscribe(t.Context(), s)
			if err == nil || !strings.Contains(err.Error(), "RabbitMQ 3.10.8 have no priorities") {
				t.Errorf("got %v, want that quorum queues of this release have no priorities", err)
			}
		}, following(broker.RabbitMQ310))
	})
}

// A broker that is blocked cannot take the copies of failed messages, for longer than it waits for acks. It delivers the messages again, and
// when the alarm ends there must still be one of each.
func TestAlarmLongerThanConsumerTimeout(t *testing.T) {
	for _, release := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ40, broker.RabbitMQ43} {
		t.Run(release.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				const messages = 6
				var mu sync.Mutex
				done, failing, alarmed := make(map[string]int), true, make(chan struct{})
				s := rehop.Subscriber{Queue: "q", Concurrency: 2, Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					if d.ID != "first" {
						<-alarmed
					}
					mu.Lock()
					defer mu.Unlock()
					if failing {
						return errNotYet
					}
					done[d.ID]++
					return nil
				})}
				subscribe(t, b.Client, s)
				// A broker blocks only those who have published. A client that does not know of the alarm yet would have a copy on its way.
				publish(t, b.Client, rehop.Message{Key: "q", ID: "first"})
				time.Sleep(time.Minute)
				publisher, err := rehop.Open(t.Context(), b.Config())
				if err != nil {
					t.Fatal(err)
				}
				for i := range messages {
					publish(t, publisher, rehop.Message{Key: "q", ID: string(rune('a' + i))})
				}
				b.Block()
				if err := publisher.Close(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				close(alarmed)
				time.Sleep(4 * time.Hour)
				mu.Lock()
				failing = false
				mu.Unlock()
				b.Unblock()
				b.AwaitEmpty("q")
				for id, n := range done {
					if n != 1 {
						t.Errorf("message %s: handled %d times, want once", id, n)
					}
				}
				if len(done) != messages+1 {
					t.Errorf("got %d messages handled, want %d", len(done), messages+1)
				}
			}, following(release), rehoptest.WithTimeout(24*time.Hour))
		})
	}
}

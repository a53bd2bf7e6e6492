package rehoptest_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/conformance/await"
	"github.com/rehop/rehop/rehoptest"
)

// fails is a handler that always fails.
var fails = rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return errors.New("no") })

// succeeds is a handler that never does.
var succeeds = rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })

func subscribe(t testing.TB, c *rehop.Client, s rehop.Subscriber) *rehop.Subscription {
	t.Helper()
	sub, err := c.Subscribe(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

func publish(t testing.TB, c *rehop.Client, m rehop.Message) {
	t.Helper()
	if err := c.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// everywhere runs a test in real time, in memory and on disk, and in virtual time.
func everywhere(t *testing.T, test func(t *testing.T, b *rehoptest.Broker)) {
	t.Helper()
	t.Run("real", func(t *testing.T) { test(t, rehoptest.Open(t)) })
	t.Run("disk", func(t *testing.T) {
		dir := t.TempDir()
		test(t, rehoptest.Open(t, rehoptest.WithServer(func(s *broker.Server) { s.Dir = dir })))
	})
	t.Run("virtual", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, rehoptest.Open(t)) })
	})
}

func TestAwaitEmpty(t *testing.T) {
	everywhere(t, func(t *testing.T, b *rehoptest.Broker) {
		const wait = 50 * time.Millisecond
		runs := make(chan int, 10)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(wait),
			Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				runs <- d.Attempt
				if d.Attempt == 1 {
					return errors.New("not yet")
				}
				return nil
			})})
		began := time.Now()
		publish(t, b.Client, rehop.Message{Key: "q"})
		publish(t, b.Client, rehop.Message{Key: "q", Delay: 2 * wait})
		b.AwaitEmpty("q")
		if len(runs) != 4 {
			t.Errorf("runs of the handler when the queue is empty: got %d, want 4", len(runs))
		}
		if took := time.Since(began); took < 3*wait {
			t.Errorf("empty after %v, want at least %v: a message still waited", took, 3*wait)
		}
	})
}

// An owner of an ordered queue always has something unacked, and messages that wait are in a queue of their own.
func TestAwaitEmptyInOrder(t *testing.T) {
	for _, partitions := range []int{1, 4} {
		everywhere(t, func(t *testing.T, b *rehoptest.Broker) {
			var done atomic.Int32
			subscribe(t, b.Client, rehop.Subscriber{Queue: "q", OrderBy: rehop.OrderKey, Partitions: partitions, Retry: rehop.Steps(50 * time.Millisecond),
				Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					if d.Attempt == 1 {
						return errors.New("not yet")
					}
					done.Add(1)
					return nil
				})})
			exchange := ""
			if partitions > 1 {
				exchange = "q.split"
			}
			for i := range 20 {
				publish(t, b.Client, rehop.Message{Exchange: exchange, Key: "q", OrderKey: fmt.Sprint(i % 10)})
			}
			b.AwaitEmpty("q")
			if n := done.Load(); n != 20 {
				t.Errorf("%d partitions: %d messages are done when the queue is empty, want 20", partitions, n)
			}
		})
	}
}

func TestAwaitFailed(t *testing.T) {
	everywhere(t, func(t *testing.T, b *rehoptest.Broker) {
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Exchange: "x", Retry: rehop.Steps(10 * time.Millisecond), Handler: fails})
		headers := map[string]any{"text": "a", "number": int64(7), "list": []any{"b", int32(1)}, "table": map[string]any{"c": true}}
		publish(t, b.Client, rehop.Message{ID: "1", Exchange: "x", Key: "k", Body: []byte("body"), Headers: headers, ContentType: "text/plain",
			Priority: 3, Expiration: time.Hour, Type: "kind", CorrelationID: "c", ReplyTo: "r", AppID: "app"})
		got := b.AwaitFailed("q", 1)
		if len(got) != 1 {
			t.Fatalf("failed messages: got %d, want 1", len(got))
		}
		m := got[0]
		if m.Timestamp.IsZero() || m.FailedAt.Before(m.FirstFailed) || m.FirstFailed.IsZero() {
			t.Errorf("timestamp %v, first failed %v, failed %v: want all set, in order", m.Timestamp, m.FirstFailed, m.FailedAt)
		}
		m.Timestamp, m.FirstFailed, m.FailedAt = time.Time{}, time.Time{}, time.Time{}
		want := rehoptest.Message{
			Message: rehop.Message{ID: "1", Exchange: "x", Key: "k", Body: []byte("body"), Headers: headers, ContentType: "text/plain",
				Priority: 3, Expiration: time.Hour, Type: "kind", CorrelationID: "c", ReplyTo: "r", AppID: "app"},
			Queue: "q", Attempts: 2, Error: "no", Kind: "error",
		}
		if !reflect.DeepEqual(m, want) {
			t.Errorf("got  %+v\nwant %+v", m, want)
		}
		if ready, unacked := b.Depth("q.failed"); ready != 1 || unacked != 0 {
			t.Errorf("failed queue after looking: got %d ready and %d unacked, want 1 and 0", ready, unacked)
		}
	})
}

func TestMessagesOfABusyQueue(t *testing.T) {
	everywhere(t, func(t *testing.T, b *rehoptest.Broker) {
		began, end := make(chan struct{}), make(chan struct{})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Concurrency: 1, Prefetch: 1,
			Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				if d.ID == "1" {
					close(began)
					<-end
				}
				return nil
			})})
		for _, id := range []string{"1", "2", "3"} {
			publish(t, b.Client, rehop.Message{ID: id, Key: "q"})
		}
		<-began
		if _, unacked := b.Depth("q"); unacked == 0 {
			t.Error("in hand: got none, want the one that is being handled at least")
		}
		messages := b.Messages("q")
		if len(messages) == 0 || len(messages) > 2 || messages[len(messages)-1].ID != "3" {
			t.Errorf("ready: got %+v, want the third message, and maybe the second", messages)
		}
		close(end)
		b.AwaitEmpty("q")
	})
}

// What a test gets to hear that has gone wrong.
func TestComplaints(t *testing.T) {
	for name, c := range map[string]struct {
		test func(t testing.TB)
		want []string
	}{
		"queue missing": {
			func(t testing.TB) { rehoptest.Open(t).AwaitEmpty("nowhere") },
			[]string{`there is no queue "nowhere"`},
		},
		"not empty": {
			func(t testing.TB) {
				b := rehoptest.Open(t, rehoptest.WithTimeout(20*time.Millisecond))
				subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(10 * time.Hour), Handler: fails})
				publish(t, b.Client, rehop.Message{Key: "q"})
				await.True(t, time.Minute, time.Millisecond, "message sent to wait", func() bool {
					waiting, _ := b.Depth("rehop.step.10h")
					ready, unacked := b.Depth("q")
					return waiting == 1 && ready+unacked == 0
				})
				b.AwaitEmpty("q")
			},
			[]string{`waited 20ms for queue "q" to be empty: 1 messages wait to return`, "rehop.step.10h: 1 ready", "is due in 9h5", "synctest.Test"},
		},
		"not failed": {
			func(t testing.TB) {
				b := rehoptest.Open(t, rehoptest.WithTimeout(20*time.Millisecond))
				subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: succeeds})
				publish(t, b.Client, rehop.Message{Key: "q"})
				b.AwaitFailed("q", 1)
			},
			[]string{`waited 20ms for 1 messages in "q.failed": 0 messages are there`},
		},
		"a client left open": {
			func(t testing.TB) {
				var forgotten *rehop.Client
				t.Cleanup(func() { _ = forgotten.Close(context.Background()) }) // too late: the broker has gone by then
				config := rehoptest.Open(t).Config()
				config.Name = "forgotten"
				var err error
				if forgotten, err = rehop.Open(t.Context(), config); err != nil {
					t.Fatal(err)
				}
			},
			[]string{"clients are still connected", "forgotten"},
		},
		"a bad config": {
			func(t testing.TB) {
				rehoptest.Open(t, rehoptest.WithConfig(func(c *rehop.Config) { c.Heartbeat = time.Millisecond }))
			},
			[]string{"open a client", "Heartbeat 1ms"},
		},
		"a bad broker": {
			func(t testing.TB) {
				rehoptest.Open(t, rehoptest.WithServer(func(s *broker.Server) { s.ChannelMax = -1 }))
			},
			[]string{"start the broker", "ChannelMax -1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := observe(c.test)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("got %q, want it to contain %q", got, want)
				}
			}
		})
	}
}

// A delivery that somebody still holds when the test ends is given back by closing: the books balance.
func TestStoppedHandlers(t *testing.T) {
	everywhere(t, func(t *testing.T, b *rehoptest.Broker) {
		began := make(chan struct{}, 10)
		sub := subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(func(ctx context.Context, _ *rehop.Delivery) error {
			began <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})})
		publish(t, b.Client, rehop.Message{Key: "q"})
		<-began
		if err := sub.Stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestConfigIsForFurtherClients(t *testing.T) {
	everywhere(t, func(t *testing.T, b *rehoptest.Broker) {
		other, err := rehop.Open(t.Context(), b.Config())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := other.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		subscribe(t, other, rehop.Subscriber{Queue: "q", Handler: fails, Retry: rehop.NoRetry()})
		publish(t, b.Client, rehop.Message{Key: "q"})
		b.AwaitFailed("q", 1)
	})
}

// A plain AMQP client that disappears with unacked messages leaves nothing behind.
func TestForeignClient(t *testing.T) {
	everywhere(t, func(t *testing.T, b *rehoptest.Broker) {
		transport, err := b.Config().Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		conn, err := amqp.Open(transport, amqp.Config{SASL: []amqp.Authentication{&amqp.PlainAuth{Username: "guest", Password: "guest"}}, Vhost: "/"})
		if err != nil {
			t.Fatal(err)
		}
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ch.QueueDeclare("q", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		publish(t, b.Client, rehop.Message{Key: "q"})
		if _, ok, err := ch.Get("q", false); !ok || err != nil {
			t.Fatalf("get: got %v, %v, want a message", ok, err)
		}
		if _, unacked := b.Depth("q"); unacked != 1 {
			t.Errorf("in hand: got %d, want 1", unacked)
		}
		gone := conn.NotifyClose(make(chan *amqp.Error, 1))
		if n := b.Drop(); n != 3 {
			t.Errorf("connections dropped: got %d, want 3", n)
		}
		<-gone
	})
}

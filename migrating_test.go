package rehop_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/rehoptest"
)

// While a queue is being migrated a subscription declares nothing of it: its bindings, in addition to the migration's own, would duplicate messages. It
// begins when the migration is over.
func TestSubscriptionAwaitsMigration(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		ch := channel(t, b)
		keeping := layouts.MigratingQueue("q")
		if _, err := ch.QueueDeclare(keeping, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		log := newLogbook(func(context.Context, *rehop.Delivery) error { return nil })
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log})
		time.Sleep(time.Minute)
		synctest.Wait()
		// The queue is still the migration's to declare.
		if _, err := ch.QueueDeclare("q", true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(7)}); err != nil {
			t.Fatalf("queue q is there, want nothing to be declared while it is being migrated: %v", err)
		}
		for _, q := range []string{"q", keeping} {
			if _, err := ch.QueueDelete(q, false, false, false); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		publish(t, b.Client, rehop.Message{Key: "q"})
		b.AwaitEmpty("q")
		if runs := len(log.all()); runs != 1 {
			t.Errorf("after the migration: %d runs of the handler, want 1", runs)
		}
	})
}

// channel is one of a plain client.
func channel(t *testing.T, b *rehoptest.Broker) *amqp.Channel {
	t.Helper()
	config := b.Config()
	conn, err := amqp.DialConfig(config.URL, amqp.Config{Dial: func(network, addr string) (net.Conn, error) {
		return config.Dial(context.Background(), network, addr)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

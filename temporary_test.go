package rehop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/rehoptest"
)

// A delayed message reaches a temporary queue, and leaves nothing behind that outlives the queue.
func TestDelayToTemporaryQueue(t *testing.T) {
	for name, config := range map[string]rehop.Subscriber{
		"auto-delete": {AutoDelete: true},
		"exclusive":   {Exclusive: true},
		"expires":     {Expires: time.Hour},
		"by argument": {QueueArgs: map[string]any{"x-expires": int64(3_600_000)}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				log := newLogbook(succeed)
				config.Queue, config.Handler = "q", log
				sub := subscribe(t, b.Client, config)
				publish(t, b.Client, rehop.Message{Key: "q", Delay: time.Minute})
				time.Sleep(2 * time.Minute)
				runs := log.all()
				if len(runs) != 1 {
					t.Fatalf("runs: got %d, want 1", len(runs))
				}
				within(t, "arrived after", runs[0].at, time.Minute, time.Minute+time.Second)
				if err := sub.Drain(context.Background()); err != nil {
					t.Fatal(err)
				}
				missing(t, b, layouts.LandingQueue("q"))
			})
		})
	}
	t.Run("named by the broker", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			ch := channel(t, b)
			q, err := ch.QueueDeclare("", true, true, false, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			deliveries, err := ch.Consume(q.Name, "", true, false, false, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			publish(t, b.Client, rehop.Message{Key: q.Name, Delay: time.Minute})
			<-deliveries
			missing(t, b, layouts.LandingQueue(q.Name))
		})
	})
}

// What is delayed to a temporary queue that is gone by then is kept.
func TestDelayToTemporaryQueueThatIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		sub := subscribe(t, b.Client, rehop.Subscriber{Queue: "q", AutoDelete: true, Handler: newLogbook(succeed)})
		publish(t, b.Client, rehop.Message{Key: "q", Delay: time.Hour})
		if err := sub.Drain(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if ready, _ := b.Depth(layouts.OrphansQueue); ready != 1 {
			t.Errorf("orphans: got %d, want 1", ready)
		}
	})
}

// missing checks that a queue is not there.
func missing(t *testing.T, b *rehoptest.Broker, queue string) {
	t.Helper()
	_, err := channel(t, b).QueueDeclarePassive(queue, true, false, false, false, nil)
	var refused *amqp.Error
	if !errors.As(err, &refused) || refused.Code != amqp.NotFound {
		t.Errorf("queue %q: got %v, want that it is not there", queue, err)
	}
}

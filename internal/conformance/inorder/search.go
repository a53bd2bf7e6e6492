package inorder

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
)

// search records which messages are in the queues, when nobody consumes them any more.
func (w *Workload) search(ctx context.Context) error {
	conn, err := w.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	w.read(ctx, conn, layouts.FailedQueue(w.Script.Queue), InFailed, &err)
	for n := range max(1, w.Script.Partitions) {
		queue := layouts.PartitionQueue(w.Script.Queue, n)
		w.read(ctx, conn, queue, InQueue, &err)
		if !w.Script.Unordered {
			w.read(ctx, conn, layouts.HeldQueue(queue), InHeld, &err)
		}
	}
	return err
}

// dial opens a plain connection.
func (w *Workload) dial(ctx context.Context) (*amqp.Connection, error) {
	config := w.Config("audit")
	var plain amqp.Config
	if config.Dial != nil {
		plain.Dial = func(network, address string) (net.Conn, error) { return config.Dial(ctx, network, address) }
	}
	return amqp.DialConfig(slices.Concat(config.URLs, []string{cmp.Or(config.URL, "amqp://guest:guest@localhost:5672/")})[0], plain)
}

// read records what is in a queue. It reads up to a message of its own, and leaves everything there: the broker does not let a
// queue with a single active consumer be read in another way. It does nothing if there was an error before.
func (w *Workload) read(ctx context.Context, conn *amqp.Connection, queue string, place Place, failed *error) {
	if *failed != nil {
		return
	}
	*failed = func() error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		defer ch.Close()
		const last = "the last one to be read"
		deliveries, err := ch.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
		if err != nil {
			return err
		}
		if err := ch.PublishWithContext(ctx, "", queue, true, false, amqp.Publishing{MessageId: last, DeliveryMode: amqp.Persistent}); err != nil {
			return err
		}
		for {
			select {
			case d, ok := <-deliveries:
				switch m := read(d.Body); {
				case !ok:
					return fmt.Errorf("queue %q: the connection was lost", queue)
				case d.MessageId == last:
					return nil
				case m.number > 0:
					w.History.Record(Event{Kind: Found, Queue: queue, Place: place, Key: m.key, Number: m.number})
				case envelope.Text(d.Headers[envelope.OrderKind]) == "block":
					w.History.Record(Event{Kind: Found, Queue: queue, Place: place, Key: envelope.Text(d.Headers[envelope.OrderKey]), Comment: "block of " + d.MessageId})
				}
			case <-ctx.Done():
				return fmt.Errorf("queue %q: %w", queue, ctx.Err())
			}
		}
	}()
}

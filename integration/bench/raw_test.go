package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// raw is amqp091-go by hand: one connection, one channel that all goroutines share.
type raw struct{}

func (raw) name() string { return "amqp091-go" }

func (raw) retryShare() float64 { return 1 }

func open(url string) (*amqp.Connection, *amqp.Channel, error) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return nil, nil, err
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, ch, nil
}

var errNack = errors.New("negative confirm")

// confirming puts a channel into confirm mode and returns a function that publishes one message and
// waits for its confirm.
func confirming(ch *amqp.Channel) (func(ctx context.Context, exchange, key string, msg amqp.Publishing) error, error) {
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	return func(ctx context.Context, exchange, key string, msg amqp.Publishing) error {
		confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, msg)
		if err != nil {
			return err
		}
		if acked, err := confirm.WaitContext(ctx); err != nil || !acked {
			return errors.Join(errNack, err)
		}
		return nil
	}, nil
}

// returned fails if the broker has returned a message.
func returned(returns <-chan amqp.Return) error {
	select {
	case r, ok := <-returns:
		if ok {
			return fmt.Errorf("returned: %s", r.ReplyText)
		}
	default:
	}
	return nil
}

func (raw) publisher(b *bench, queue string) (func(context.Context) error, func() error, error) {
	exchange, err := b.exchange(queue, topicExchange)
	if err != nil {
		return nil, nil, err
	}
	conn, ch, err := open(b.url)
	if err != nil {
		return nil, nil, err
	}
	returns := ch.NotifyReturn(make(chan amqp.Return, *publishers))
	publish, err := confirming(ch)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	one := func(ctx context.Context) error {
		msg := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: b.body}
		if !*bare {
			msg.MessageId, msg.Timestamp = uuid.NewString(), time.Now()
		}
		return publish(ctx, exchange, queue, msg)
	}
	return one, func() error { return errors.Join(returned(returns), conn.Close()) }, nil
}

// work starts the workers. Their stop function ends the connection and waits for them.
func work(b *bench, queue string, handle func(amqp.Delivery) error) (func() error, error) {
	conn, ch, err := open(b.url)
	if err != nil {
		return nil, err
	}
	if err := ch.Qos(b.prefetch, 0, false); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	deliveries, err := ch.Consume(queue, "worker", false, false, false, false, nil)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	faults := make([]error, *concurrency)
	var workers sync.WaitGroup
	for i := range *concurrency {
		workers.Go(func() {
			for d := range deliveries {
				if err := handle(d); err != nil {
					faults[i] = err
					return
				}
			}
		})
	}
	return func() error {
		err := ch.Cancel("worker", false) // the workers end when they have acked what they have
		workers.Wait()
		return errors.Join(errors.Join(faults...), err, conn.Close())
	}, nil
}

func (raw) consumer(b *bench, queue string, handled func()) (func() error, error) {
	return work(b, queue, func(d amqp.Delivery) error {
		handled()
		return d.Ack(false)
	})
}

func (raw) retryQueue(b *bench, queue string) error {
	return errors.Join(b.declare(queue, quorum()), b.declare(waitQueue(queue), waiting(queue)))
}

func waitQueue(queue string) string { return queue + "-wait" }

// waiting are the arguments of a queue in which messages wait and then go to queue. At-least-once
// dead-lettering is what makes it as safe as the rest.
func waiting(queue string) amqp.Table {
	return amqp.Table{
		"x-queue-type": "quorum", "x-message-ttl": wait.Milliseconds(),
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue,
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	}
}

// retrier publishes a failed message to the queue where it waits, with its attempt in a header, and
// acks it when that is confirmed: what rehop does, without its books.
func (raw) retrier(b *bench, queue string, failed, done func()) (func() error, error) {
	conn, ch, err := open(b.url)
	if err != nil {
		return nil, err
	}
	returns := ch.NotifyReturn(make(chan amqp.Return, *concurrency))
	publish, err := confirming(ch)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	stop, err := work(b, queue, func(d amqp.Delivery) error {
		if _, again := d.Headers["attempt"]; again {
			done()
			return d.Ack(false)
		}
		failed()
		err := publish(context.Background(), "", waitQueue(queue), amqp.Publishing{
			Headers: amqp.Table{"attempt": int32(2)}, DeliveryMode: amqp.Persistent,
			MessageId: d.MessageId, Timestamp: d.Timestamp, Body: d.Body,
		})
		if err != nil {
			return err
		}
		return d.Ack(false)
	})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() error { return errors.Join(stop(), returned(returns), conn.Close()) }, nil
}

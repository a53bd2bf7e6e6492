package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
	rabbitmq "github.com/wagslane/go-rabbitmq"
)

// goRabbitMQ is github.com/wagslane/go-rabbitmq.
type goRabbitMQ struct{}

func (goRabbitMQ) name() string { return "go-rabbitmq" }

func (goRabbitMQ) retryShare() float64 { return 1 }

// quietLogger drops what go-rabbitmq would print.
type quietLogger struct{}

func (quietLogger) Fatalf(string, ...any) {}
func (quietLogger) Errorf(string, ...any) {}
func (quietLogger) Warnf(string, ...any)  {}
func (quietLogger) Infof(string, ...any)  {}
func (quietLogger) Debugf(string, ...any) {}

func (goRabbitMQ) open(b *bench) (*rabbitmq.Conn, error) {
	return rabbitmq.NewConn(b.url, rabbitmq.WithConnectionOptionsLogger(quietLogger{}))
}

func (l goRabbitMQ) publisher(b *bench, queue string) (func(context.Context) error, func() error, error) {
	exchange, err := b.exchange(queue, topicExchange)
	if err != nil {
		return nil, nil, err
	}
	conn, err := l.open(b)
	if err != nil {
		return nil, nil, err
	}
	publisher, err := rabbitmq.NewPublisher(conn, rabbitmq.WithPublisherOptionsLogger(quietLogger{}), rabbitmq.WithPublisherOptionsConfirm)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	var returns atomic.Int64
	publisher.NotifyReturn(func(rabbitmq.Return) { returns.Add(1) })
	publish := func(ctx context.Context) error {
		options := []func(*rabbitmq.PublishOptions){
			rabbitmq.WithPublishOptionsExchange(exchange), rabbitmq.WithPublishOptionsMandatory, rabbitmq.WithPublishOptionsPersistentDelivery,
		}
		if !*bare {
			options = append(options, rabbitmq.WithPublishOptionsMessageID(uuid.NewString()), rabbitmq.WithPublishOptionsTimestamp(time.Now()))
		}
		confirms, err := publisher.PublishWithDeferredConfirmWithContext(ctx, b.body, []string{queue}, options...)
		if err != nil {
			return err
		}
		if acked, err := confirms[0].WaitContext(ctx); err != nil || !acked {
			return errors.Join(errNack, err)
		}
		return nil
	}
	return publish, func() error {
		publisher.Close()
		if n := returns.Load(); n > 0 {
			return errors.Join(fmt.Errorf("%d messages returned", n), conn.Close())
		}
		return conn.Close()
	}, nil
}

func (l goRabbitMQ) work(b *bench, queue string, handle rabbitmq.Handler) (func() error, error) {
	conn, err := l.open(b)
	if err != nil {
		return nil, err
	}
	consumer, err := rabbitmq.NewConsumer(conn, queue,
		rabbitmq.WithConsumerOptionsLogger(quietLogger{}), rabbitmq.WithConsumerOptionsQueueNoDeclare,
		rabbitmq.WithConsumerOptionsConcurrency(*concurrency), rabbitmq.WithConsumerOptionsQOSPrefetch(b.prefetch))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(handle) }()
	return func() error {
		consumer.Close()
		// It closes its channel when the handlers have returned, and acks after that. Then the broker closes the connection, and whatever
		// Close meets of that is no matter of the comparison.
		_ = conn.Close()
		return <-ended
	}, nil
}

func (l goRabbitMQ) consumer(b *bench, queue string, handled func()) (func() error, error) {
	return l.work(b, queue, func(rabbitmq.Delivery) rabbitmq.Action {
		handled()
		return rabbitmq.Ack
	})
}

// retryQueue dead-letters what is discarded to a queue that dead-letters it back, the usual recipe.
func (goRabbitMQ) retryQueue(b *bench, queue string) error {
	return errors.Join(
		b.declare(queue, amqp.Table{
			"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": waitQueue(queue),
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		}),
		b.declare(waitQueue(queue), waiting(queue)))
}

func (l goRabbitMQ) retrier(b *bench, queue string, failed, done func()) (func() error, error) {
	return l.work(b, queue, func(d rabbitmq.Delivery) rabbitmq.Action {
		if _, again := d.Headers["x-death"]; again {
			done()
			return rabbitmq.Ack
		}
		failed()
		return rabbitmq.NackDiscard
	})
}

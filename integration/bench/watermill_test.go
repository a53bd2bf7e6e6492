package bench

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

// watermillLibrary is github.com/ThreeDotsLabs/watermill with its AMQP Pub/Sub.
type watermillLibrary struct{}

func (watermillLibrary) name() string { return "watermill" }

// retryShare is small because watermill's retries sleep in the handler: *concurrency / *wait is all
// that it can do.
func (watermillLibrary) retryShare() float64 { return 0.1 }

func (watermillLibrary) publisher(b *bench, queue string) (func(context.Context) error, func() error, error) {
	exchange, err := b.exchange(queue, topicExchange)
	if err != nil {
		return nil, nil, err
	}
	config := wamqp.NewDurableQueueConfig(b.url)
	config.Queue.Arguments = quorum()
	if b.byTopic {
		config = wamqp.NewDurableTopicConfig(b.url, exchange, queue)
		config.Exchange.Durable = true
	}
	config.Publish.ConfirmDelivery = true
	config.Publish.Mandatory = true
	config.Publish.ChannelPoolSize = *publishers // without a pool it opens a channel for every message
	publisher, err := wamqp.NewPublisher(config, watermill.NopLogger{})
	if err != nil {
		return nil, nil, err
	}
	publish := func(ctx context.Context) error {
		return publisher.Publish(queue, message.NewMessageWithContext(ctx, watermill.NewUUID(), b.body))
	}
	return publish, publisher.Close, nil
}

// work starts a router. A subscription of watermill-amqp handles one message at a time, so there are
// as many as there are to be handlers, and they share the prefetch.
func (watermillLibrary) work(b *bench, queue string, handle message.NoPublishHandlerFunc, middlewares ...message.HandlerMiddleware) (func() error, error) {
	config := wamqp.NewDurableQueueConfig(b.url)
	config.Queue.Arguments = quorum()
	config.Consume.Qos.PrefetchCount = max(1, b.prefetch / *concurrency)
	subscriber, err := wamqp.NewSubscriber(config, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return nil, errors.Join(err, subscriber.Close())
	}
	router.AddMiddleware(middlewares...)
	for range *concurrency {
		router.AddNoPublisherHandler(watermill.NewUUID(), queue, subscriber, handle)
	}
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.Background()) }()
	return func() error {
		err := router.Close()
		return errors.Join(err, <-ended, subscriber.Close())
	}, nil
}

func (l watermillLibrary) consumer(b *bench, queue string, handled func()) (func() error, error) {
	return l.work(b, queue, func(*message.Message) error {
		handled()
		return nil
	})
}

func (watermillLibrary) retryQueue(b *bench, queue string) error { return b.declare(queue, quorum()) }

func (l watermillLibrary) retrier(b *bench, queue string, failed, done func()) (func() error, error) {
	oops := errors.New("oops")
	again := middleware.Retry{MaxRetries: 1, InitialInterval: *wait, MaxInterval: *wait, Multiplier: 1}
	return l.work(b, queue, func(m *message.Message) error {
		if m.Metadata.Get("failed") == "" {
			m.Metadata.Set("failed", "yes")
			failed()
			return oops
		}
		done()
		return nil
	}, again.Middleware)
}

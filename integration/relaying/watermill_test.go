package relaying

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
)

// watermillLine is Watermill's forwarder between its PostgreSQL and its AMQP Pub/Sub.
type watermillLine struct {
	*bench
	queue string
	topic string // the table of messages that wait
	in    *wsql.Subscriber
}

func openWatermill(b *bench, queue string) (carrier, error) {
	l := &watermillLine{bench: b, queue: "watermill-" + queue, topic: "watermill_" + strings.ReplaceAll(queue, "-", "_")}
	var err error
	l.in, err = wsql.NewSubscriber(b.db, wsql.SubscriberConfig{
		SchemaAdapter: wsql.DefaultPostgreSQLSchema{}, OffsetsAdapter: wsql.DefaultPostgreSQLOffsetsAdapter{}, InitializeSchema: true,
		PollInterval: 10 * time.Millisecond, // the default of 1 s would be its latency
	}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	if err := l.in.SubscribeInitialize(l.topic); err != nil {
		return nil, err
	}
	return l, b.declare(l.queue)
}

func (l *watermillLine) put(ctx context.Context, numbers []int) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	table, err := wsql.NewPublisher(tx, wsql.PublisherConfig{SchemaAdapter: wsql.DefaultPostgreSQLSchema{}}, watermill.NopLogger{})
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	all := make([]*message.Message, len(numbers))
	for i, n := range numbers {
		all[i] = message.NewMessageWithContext(ctx, watermill.NewUUID(), body(n))
	}
	if err := forwarder.NewPublisher(table, forwarder.PublisherConfig{ForwarderTopic: l.topic}).Publish(l.queue, all...); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (l *watermillLine) carry(ctx context.Context, got func(n int)) (func() error, error) {
	stopConsumer, err := l.consume(l.queue, got)
	if err != nil {
		return nil, err
	}
	config := wamqp.NewDurableQueueConfig(l.url)
	config.Queue.Arguments = map[string]any{"x-queue-type": "quorum"}
	config.Publish.ConfirmDelivery = true
	config.Publish.Mandatory = true
	config.Publish.ChannelPoolSize = 16 // without a pool it opens a channel for every message
	out, err := wamqp.NewPublisher(config, watermill.NopLogger{})
	if err != nil {
		return nil, errors.Join(err, stopConsumer())
	}
	f, err := forwarder.NewForwarder(l.in, out, watermill.NopLogger{}, forwarder.Config{ForwarderTopic: l.topic})
	if err != nil {
		return nil, errors.Join(err, stopConsumer(), out.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	return func() error {
		return errors.Join(f.Close(), <-ended, l.in.Close(), out.Close(), stopConsumer())
	}, nil
}

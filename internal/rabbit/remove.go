package rabbit

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ErrInUse: a queue was not deleted because it has messages or consumers.
var ErrInUse = errors.New("it has messages or consumers")

// DeleteQueue deletes a queue, and returns how many ready messages were deleted with it. With spare it
// fails with ErrInUse if the queue has ready messages or consumers, which quorum queues do not support. A
// missing queue is no error.
func (l *Link) DeleteQueue(ctx context.Context, queue string, spare bool) (int, error) {
	s, err := l.Conn(ctx)
	if err != nil {
		return 0, err
	}
	return s.DeleteQueue(ctx, queue, spare)
}

func deleteQueue(ch *amqp.Channel, queue string, spare bool) (int, error) {
	messages, err := ch.QueueDelete(queue, spare, spare, false)
	return messages, removeError("queue", queue, err)
}

// DeleteExchange deletes an exchange with its bindings. A missing one is no error.
func (l *Link) DeleteExchange(ctx context.Context, name string) error {
	return l.briefly(ctx, func(ch *amqp.Channel) error {
		return removeError("exchange", name, ch.ExchangeDelete(name, false, false))
	})
}

func removeError(object, name string, err error) error {
	e, is := errors.AsType[*amqp.Error](err)
	switch {
	case err == nil:
		return nil
	case is && e.Code == amqp.PreconditionFailed:
		err = fmt.Errorf("%w: %s (%d)", ErrInUse, e.Reason, e.Code)
	case is && e.Code == amqp.AccessRefused:
		err = fmt.Errorf("%w; grant the user configure permission for it", err)
	}
	return fmt.Errorf("delete %s %q: %w", object, name, err)
}

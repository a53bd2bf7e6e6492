package rabbit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Reader takes messages from a queue one by one, for people who look at it. What is neither acked
// nor requeued goes back to its place when the reader closes.
type Reader struct {
	ch    *amqp.Channel
	queue string
	held  []uint64 // tags that were not acked, in order
}

// OpenReader opens a reader of a queue, and tells how many messages are ready in it. A missing queue
// is a *DeclareError with code 404.
func (l *Link) OpenReader(ctx context.Context, queue string) (*Reader, int, error) {
	var q amqp.Queue
	ch, err := l.on(ctx, func(ch *amqp.Channel) (err error) {
		q, err = ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return declareError("queue", queue, err)
	})
	if err != nil {
		return nil, 0, err
	}
	return &Reader{ch: ch, queue: queue}, q.Messages, nil
}

// Next takes the next message. False: there is none.
func (r *Reader) Next() (amqp.Delivery, bool, error) {
	d, ok, err := r.ch.Get(r.queue, false)
	if err != nil {
		return d, false, fmt.Errorf("read queue %q: %w", r.queue, lost(err))
	}
	if ok {
		r.held = append(r.held, d.DeliveryTag)
	}
	return d, ok, nil
}

// Ack removes a message from the queue.
func (r *Reader) Ack(tag uint64) error {
	if i, held := slices.BinarySearch(r.held, tag); held {
		r.held = slices.Delete(r.held, i, i+1)
	}
	return lost(r.ch.Ack(tag, false))
}

// lost is an error as ErrDisconnected, unless it is the broker's answer to what was asked.
func lost(err error) error {
	var said *amqp.Error
	if err == nil || errors.As(err, &said) && said.Server && said.Code != amqp.ConnectionForced {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDisconnected, err)
}

// Close gives back what was not acked. When it returns, the broker has taken note of every ack.
func (r *Reader) Close() error {
	if n := len(r.held); n > 0 {
		// A channel that closes gives back everything too, but a quorum queue learns of that later than
		// of an explicit nack, and whoever looks next would find messages missing.
		_ = r.ch.Nack(r.held[n-1], true, true)
	}
	return r.ch.Close()
}

// Message is a message as the broker delivered it.
type Message = amqp.Delivery

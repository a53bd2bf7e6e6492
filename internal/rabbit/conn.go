package rabbit

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/topology"
)

// Conn is one connection of a link. When it is lost, the link connects again, and the Conn ends: the next
// connection does not have its exclusive queues.
type Conn struct {
	link *Link
	amqp *amqp.Connection
}

// Conn is the current connection. It waits for one if there is none.
func (l *Link) Conn(ctx context.Context) (*Conn, error) {
	conn, err := l.Connection(ctx)
	if err != nil {
		return nil, err
	}
	return &Conn{link: l, amqp: conn}, nil
}

// errConnLost is the error of a connection that has ended.
var errConnLost = fmt.Errorf("%w: the connection was lost; run the command again", ErrDisconnected)

// Lost is an ErrDisconnected if the connection is lost.
func (s *Conn) Lost() error {
	if s.amqp.IsClosed() {
		return errConnLost
	}
	return nil
}

// ended adds to an error that the connection is lost, if it is.
func (s *Conn) ended(err error) error {
	if err == nil || s.Lost() == nil || errors.Is(err, errConnLost) {
		return err
	}
	return fmt.Errorf("%w: %w", errConnLost, err)
}

// Declare is Declare of the link, on this connection.
func (s *Conn) Declare(ctx context.Context, plan topology.Plan) error {
	return s.ended(s.briefly(ctx, func(ch *amqp.Channel) error { return declare(ch, plan) }))
}

// DeleteQueue is DeleteQueue of the link, on this connection.
func (s *Conn) DeleteQueue(ctx context.Context, queue string, spare bool) (int, error) {
	messages := 0
	err := s.briefly(ctx, func(ch *amqp.Channel) (err error) {
		messages, err = deleteQueue(ch, queue, spare)
		return err
	})
	if err != nil {
		return 0, s.ended(err) // the call may still run in the background
	}
	return messages, nil
}

func (s *Conn) channel(ctx context.Context) (*amqp.Channel, error) {
	var ch *amqp.Channel
	err := s.link.call(ctx, func() (err error) {
		ch, err = s.amqp.Channel()
		return err
	}, func() { _ = ch.Close() })
	if err != nil {
		return nil, fmt.Errorf("open channel: %w", err)
	}
	return ch, nil
}

// on opens a channel and makes a call on it that waits for the broker. The channel is closed if that
// fails or ctx ends, and is the caller's otherwise.
func (s *Conn) on(ctx context.Context, do func(*amqp.Channel) error) (*amqp.Channel, error) {
	ch, err := s.channel(ctx)
	if err != nil {
		return nil, err
	}
	closeChannel := func() { _ = ch.Close() }
	// Not before do has ended: a method on a channel that is being closed ends the whole connection.
	err = s.link.call(ctx, func() error {
		err := do(ch)
		if err != nil {
			closeChannel()
		}
		return err
	}, closeChannel)
	if err != nil {
		return nil, err
	}
	return ch, nil
}

// briefly makes a call on a channel of its own, and closes it.
func (s *Conn) briefly(ctx context.Context, do func(*amqp.Channel) error) error {
	ch, err := s.channel(ctx)
	if err != nil {
		return err
	}
	return s.link.call(ctx, func() error {
		err := do(ch)
		_ = ch.Close()
		return err
	}, func() {})
}

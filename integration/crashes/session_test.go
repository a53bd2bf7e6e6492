package crashes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// session is a connection to one life of the broker.
type session struct {
	*amqp.Channel
	conn       *amqp.Connection
	closed     chan *amqp.Error
	generation int
}

// keep does something again in each life of the broker.
func (w *traffic) keep(ctx context.Context, work func(context.Context, *session) error) {
	generation := 0
	for {
		p, err := w.broker.await(ctx, generation)
		if err != nil {
			return
		}
		generation = p.generation
		err = w.session(ctx, generation, work)
		if ctx.Err() != nil {
			return
		}
		// A connection may be lost only with the broker.
		select {
		case <-p.ended:
		case <-ctx.Done():
			return
		case <-time.After(soon):
			w.books.fault("life %d: a client ended and the broker did not: %v", generation, err)
		}
	}
}

func (w *traffic) session(ctx context.Context, generation int, work func(context.Context, *session) error) error {
	conn, err := w.broker.dial()
	if err != nil {
		return err
	}
	var listening sync.WaitGroup
	defer listening.Wait()
	defer conn.Close()
	blocking := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	listening.Go(func() {
		for b := range blocking {
			if b.Active {
				w.books.blocked()
			}
		}
	})
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return work(ctx, &session{Channel: ch, conn: conn, closed: conn.NotifyClose(make(chan *amqp.Error, 1)), generation: generation})
}

var errLost = errors.New("the connection was lost")

// confirmed waits for a confirm, or for the loss of the connection: no confirm comes after that.
func (s *session) confirmed(c *amqp.DeferredConfirmation) (bool, error) {
	select {
	case <-c.Done():
	case <-s.closed:
		return c.Acked(), nil
	case <-time.After(soon):
		return false, fmt.Errorf("message %d on its channel has no confirm after %v", c.DeliveryTag, soon)
	}
	if !c.Acked() && !s.conn.IsClosed() {
		return false, fmt.Errorf("message %d on its channel was refused", c.DeliveryTag)
	}
	return c.Acked(), nil
}

// tick publishes something that is only there to be confirmed.
func (s *session) tick() (*amqp.DeferredConfirmation, error) {
	return s.PublishWithDeferredConfirm("", queueTicks, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("tick")})
}

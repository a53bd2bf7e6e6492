package rabbit

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Depth is what a passive declare returns for a queue.
//
// RabbitMQ asks the leader of a quorum queue, for up to 250 ms. If it has no answer by then, or if there is
// no leader, as during an election, it reports no messages and no consumers. So a Depth of 0 may be wrong.
type Depth struct {
	Messages, Consumers int
}

const (
	// slowAnswer is longer than a healthy leader takes, and shorter than RabbitMQ waits for it.
	slowAnswer = 200 * time.Millisecond
	// inspections is how often the depth of a queue is asked for that may wrongly seem empty.
	inspections = 20
)

// Inspect asks for a queue's depth, and asks again if the answer is 0 and so late that it may not be the
// leader's. A missing queue is a *DeclareError that is Missing.
func (l *Link) Inspect(ctx context.Context, queue string) (d Depth, err error) {
	return l.inspect(ctx, queue, false)
}

// InspectClosely is Inspect for a caller that would lose messages of a queue that is not empty. If it
// seems to be empty, a message is got from it, which only the leader can answer; if there is one, it is
// requeued, which counts as a return.
func (l *Link) InspectClosely(ctx context.Context, queue string) (d Depth, err error) {
	return l.inspect(ctx, queue, true)
}

func (l *Link) inspect(ctx context.Context, queue string, closely bool) (Depth, error) {
	s, err := l.Conn(ctx)
	if err != nil {
		return Depth{}, err
	}
	return s.inspect(ctx, queue, closely)
}

func (s *Conn) inspect(ctx context.Context, queue string, closely bool) (Depth, error) {
	found := 0
	for range inspections {
		var d Depth
		var late bool
		err := s.briefly(ctx, func(ch *amqp.Channel) (err error) {
			d, late, err = inspectTimed(ch, queue)
			return err
		})
		if err != nil {
			return Depth{}, s.ended(err) // the call may still run in the background
		}
		if d != (Depth{}) {
			// The queue may not have requeued the message that was got yet.
			return Depth{Messages: max(d.Messages, found), Consumers: d.Consumers}, nil
		}
		if closely && found == 0 {
			if found, err = s.countByGet(ctx, queue); err != nil {
				return Depth{}, err
			}
		}
		if !late && found == 0 {
			return Depth{}, nil
		}
		if err = Pause(ctx, pollInterval); err != nil {
			return Depth{}, err
		}
	}
	return Depth{Messages: found}, nil
}

// inspectTimed asks for a queue's depth. late: the answer took longer than others do, by more than a leader needs.
func inspectTimed(ch *amqp.Channel, queue string) (d Depth, late bool, err error) {
	began := time.Now()
	d, err = inspect(ch, queue)
	took := time.Since(began)
	if err != nil || d != (Depth{}) || took < slowAnswer {
		return d, false, err
	}
	began = time.Now()
	err = ch.Qos(1, 0, false) // which no queue has to answer
	return d, took-time.Since(began) >= slowAnswer, err
}

// countByGet is how many messages a queue has, by the answer to basic.get. The message that it gets is requeued at once. If the
// broker allows no basic.get on the queue, it returns 0.
func (s *Conn) countByGet(ctx context.Context, queue string) (int, error) {
	found := 0
	err := s.briefly(ctx, func(ch *amqp.Channel) error {
		d, ok, err := ch.Get(queue, false)
		if err != nil || !ok {
			return err
		}
		found = 1 + int(d.MessageCount)
		return d.Nack(false, true)
	})
	if e, is := errors.AsType[*amqp.Error](err); is && (e.Code == amqp.AccessRefused || e.Code == amqp.ResourceLocked || e.Code == amqp.NotAllowed) {
		return 0, nil // it is exclusive, or has a single active consumer
	}
	if err != nil {
		return 0, s.ended(fmt.Errorf("find out whether queue %q is empty: %w", queue, declareError("queue", queue, err)))
	}
	return found, nil
}

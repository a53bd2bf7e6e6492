package rabbit

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// keepOrder is how many messages are taken only to be returned in their order.
const keepOrder = 1000

// followed returns a window that had no room, and behind it windows with all messages that were returned
// to the queue before: a quorum queue would put what the first returns behind those. They are to be
// returned in this order. If those are many messages, the order is given up.
func (s *Sweep) followed(ctx context.Context, w *window) []*window {
	all := []*window{w}
	for {
		last := all[len(all)-1]
		left := s.settled(ctx, last)
		if len(all) > 1 || left > 0 {
			// Otherwise it would get what the others return.
			if s.cancel(ctx, last) != nil {
				return all
			}
		}
		if left == 0 || left > keepOrder || !last.isAgain() {
			return all
		}
		next := newWindow(left, s.room)
		next.spill = true // nothing of it is kept
		next.again = true // until a message comes that was not returned before: canceled earlier, it would miss some
		if _, err := s.conn.on(ctx, func(ch *amqp.Channel) error { return next.open(ch, s.queue) }); err != nil {
			s.stranded = s.stranded || ctx.Err() != nil
			return all
		}
		s.opened++
		all = append(all, next)
	}
}

// settled waits until a window has all that the broker has for it, and returns how many messages are left
// in the queue. It does not wait if no others that were returned before may follow.
func (s *Sweep) settled(ctx context.Context, w *window) (left int) {
	timer := time.NewTimer(onTheirWay)
	defer timer.Stop()
	for w.isAgain() {
		d, err := s.depth(ctx)
		if err != nil {
			return 0
		}
		if w.isComplete() || w.canceled {
			return d.Messages
		}
		if d.Messages == 0 {
			// What is on its way comes before this answer.
			_ = s.call(ctx, w.turn, func() error {
				_, err := inspect(w.ch, s.queue)
				return err
			})
			return 0
		}
		select {
		case <-w.more:
			timer.Reset(onTheirWay)
		case <-timer.C:
			return 0
		case <-w.ended:
			return 0
		case <-ctx.Done():
			return 0
		}
	}
	return 0
}

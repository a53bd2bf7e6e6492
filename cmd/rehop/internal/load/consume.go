package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// consuming consumes until the time is up or, when publishing has ended, until all published messages have arrived.
func (r *run) consuming(ctx context.Context, published <-chan struct{}) (*histogram, time.Duration, error) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	enough := &finish{run: r, all: done}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-published:
			enough.arm()
		case <-ctx.Done():
			return
		}
		limit := r.settleTimeout
		if r.Mode == Consume {
			limit = r.For
		}
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case <-timer.C:
			done()
		case <-ctx.Done():
		}
	})
	h, took, err := r.together(ctx, r.Consumers, func(ctx context.Context, l line, h *histogram) error {
		return r.consumer(ctx, l.Channel, h, enough)
	})
	done()
	waiting.Wait()
	return h, took, err
}

// finish calls all when all published messages have been consumed.
type finish struct {
	run *run
	all func()

	armed atomic.Bool // publishing has ended
}

func (f *finish) arm() {
	f.armed.Store(true)
	f.check()
}

func (f *finish) check() {
	if f.armed.Load() && f.run.consumed.Load() >= f.run.published.Load() {
		f.all()
	}
}

// consumer consumes until ctx ends. It acks several messages at once, as clients do.
func (r *run) consumer(ctx context.Context, ch *amqp.Channel, h *histogram, enough *finish) error {
	if err := ch.Qos(r.Prefetch, 0, false); err != nil {
		return fmt.Errorf("set the prefetch: %w", err)
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	deliveries, err := ch.Consume(r.queue, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume from queue %q: %w", r.queue, err)
	}
	together := max(1, r.Prefetch/4)
	for n := 1; ; n++ {
		var d amqp.Delivery
		select {
		case <-ctx.Done():
			return nil
		case err := <-closed:
			return fmt.Errorf("consume: the channel is lost: %w", reason(err))
		case d = <-deliveries:
			if d.Acknowledger == nil { // the channel is closed
				return ended(closed)
			}
		}
		if sent, ok := d.Headers[headerSent].(int64); ok {
			h.add(time.Since(time.Unix(0, sent)))
		}
		r.consumed.Add(1)
		if n%together == 0 || len(deliveries) == 0 {
			if err := d.Ack(true); err != nil {
				return fmt.Errorf("ack: %w", err)
			}
		}
		enough.check()
	}
}

// ended returns why no more messages arrive.
func ended(closed <-chan *amqp.Error) error {
	select {
	case err := <-closed:
		return fmt.Errorf("consume: the channel is lost: %w", reason(err))
	default:
		return errors.New("consume: the broker has canceled the consumer, because the queue was deleted")
	}
}

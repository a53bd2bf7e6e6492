package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// warmup is how many messages pass before the clock starts: connections, channels, buffers and the
// queue are then as they stay.
func warmup(n int) int { return max(n/10, *concurrency, *publishers) }

// publishing fills a queue, which consuming empties.
func (b *bench) publishing(ctx context.Context, c contender, queue string) (sample, error) {
	if err := b.declare(queue, quorum()); err != nil {
		return sample{}, err
	}
	publish, stop, err := c.publisher(b, queue)
	if err != nil {
		return sample{}, err
	}
	if err := publishAll(ctx, publish, warmup(*messages)); err != nil {
		return sample{}, errors.Join(err, stop())
	}
	var watch stopwatch
	watch.start()
	err = publishAll(ctx, publish, *messages)
	watch.stop()
	if err := errors.Join(err, stop()); err != nil {
		return sample{}, err
	}
	if err := b.depthIs(queue, warmup(*messages)+*messages); err != nil {
		return sample{}, err
	}
	return watch.sample(*messages), nil
}

// publishAll publishes n messages from many goroutines.
func publishAll(ctx context.Context, publish func(context.Context) error, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var begun atomic.Int64
	var group sync.WaitGroup
	for range *publishers {
		group.Go(func() {
			for begun.Add(1) <= int64(n) {
				if err := publish(ctx); err != nil {
					cancel(fmt.Errorf("publish: %w", err))
					return
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// consuming empties the queue that publishing has filled.
func (b *bench) consuming(ctx context.Context, c contender, queue string) (sample, error) {
	warm, all := int64(warmup(*messages)), int64(warmup(*messages)+*messages)
	if err := b.depthIs(queue, int(all)); err != nil {
		return sample{}, err
	}
	var watch stopwatch
	var handled atomic.Int64
	finished := make(chan struct{})
	stop, err := c.consumer(b, queue, func() {
		switch handled.Add(1) {
		case warm:
			watch.start()
		case all:
			watch.stop()
			close(finished)
		}
	})
	if err != nil {
		return sample{}, err
	}
	if err := errors.Join(await(ctx, finished), stop()); err != nil {
		return sample{}, fmt.Errorf("%d of %d messages handled: %w", handled.Load(), all, err)
	}
	if n := handled.Load(); n != all {
		return sample{}, fmt.Errorf("%d messages handled, want %d", n, all)
	}
	return watch.sample(*messages), b.finish(queue)
}

// retrying measures from when the warm-up messages have failed until as many as are measured have
// come back, so that the clock sees as many failures as returns.
func (b *bench) retrying(ctx context.Context, c contender, queue string) (sample, error) {
	n := max(1, int(float64(*retries)*c.retryShare()))
	warm := int64(min(n, warmup(n)))
	all := int64(n) + warm
	if err := c.retryQueue(b, queue); err != nil {
		return sample{}, err
	}
	publish, closePublisher, err := c.publisher(b, queue)
	if err != nil {
		return sample{}, err
	}
	if err := errors.Join(publishAll(ctx, publish, int(all)), closePublisher()); err != nil {
		return sample{}, err
	}
	if err := b.depthIs(queue, int(all)); err != nil {
		return sample{}, err
	}
	var watch stopwatch
	var failed, done atomic.Int64
	finished := make(chan struct{})
	stop, err := c.retrier(b, queue, func() {
		if failed.Add(1) == warm {
			watch.start()
		}
	}, func() {
		switch done.Add(1) {
		case int64(n):
			watch.stop()
		case all:
			close(finished)
		}
	})
	if err != nil {
		return sample{}, err
	}
	if err := errors.Join(await(ctx, finished), stop()); err != nil {
		return sample{}, fmt.Errorf("%d of %d messages came back: %w", done.Load(), all, err)
	}
	if failed.Load() != all || done.Load() != all {
		return sample{}, fmt.Errorf("%d messages failed and %d came back, want %d each", failed.Load(), done.Load(), all)
	}
	return watch.sample(n), b.finish(queue)
}

func await(ctx context.Context, event <-chan struct{}) error {
	select {
	case <-event:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settleTime is how long a queue may take to show what a closed connection has left in it.
const settleTime = 10 * time.Second

// depthIs waits for a queue to have so many messages ready.
func (b *bench) depthIs(queue string, want int) error {
	return b.depthBetween(queue, want, want)
}

// depthBetween waits for a queue to have from least to most messages ready.
func (b *bench) depthBetween(queue string, least, most int) error {
	deadline := time.Now().Add(settleTime)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		q, err := b.ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			return err
		}
		if least <= q.Messages && q.Messages <= most {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("queue %q has %d messages, want %d to %d", queue, q.Messages, least, most)
		}
		<-tick.C
	}
}

// finish deletes a queue whose consumer is closed and has handled everything. What the broker does not
// know to be acked is back in it. Not more than the prefetch may be: under load, acks sent just before
// the end of a connection have been seen not to count.
func (b *bench) finish(queue string) error {
	if err := b.depthBetween(queue, 0, *prefetch); err != nil {
		return err
	}
	_, err := b.ch.QueueDelete(queue, false, false, false)
	return err
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// warmup is how many messages pass before the clock starts: connections, channels, buffers and the
// queue are then as they stay.
func warmup(n int) int { return max(n/10, *concurrency, *publishers) }

// turns is how many turns each library has in a round of publishing. Turns are short, so that whatever makes the machine and the broker
// slow or quick for a while does so to all.
const turns = 20

// lane is one library's part in a round of publishing.
type lane struct {
	contender contender
	queue     string
	publish   func(context.Context) error
	stop      func() error
	watch     stopwatch
}

// publishing has all libraries fill their queues in turns.
func (b *bench) publishing(ctx context.Context, contenders []contender, round int) (_ map[string]sample, err error) {
	lanes := make([]*lane, 0, len(contenders))
	defer func() {
		for _, l := range lanes {
			err = errors.Join(err, l.stop())
		}
	}()
	for _, c := range contenders {
		l := &lane{contender: c, queue: queueOf(c, round)}
		if err := b.declare(l.queue, quorum()); err != nil {
			return nil, err
		}
		if l.publish, l.stop, err = c.publisher(b, l.queue); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name(), err)
		}
		lanes = append(lanes, l)
		if err := publishAll(ctx, l.publish, warmup(*messages)); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name(), err)
		}
	}
	for turn := range turns {
		n := (turn+1)**messages/turns - turn**messages/turns
		for _, i := range rand.Perm(len(lanes)) { // so that none always has to do with what the same other has left
			l := lanes[i]
			if err := publishAll(ctx, l.publish, *publishers); err != nil { // after the pause
				return nil, fmt.Errorf("%s: %w", l.contender.name(), err)
			}
			l.watch.start()
			err := publishAll(ctx, l.publish, n)
			l.watch.stop()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l.contender.name(), err)
			}
		}
	}
	samples := make(map[string]sample)
	for _, l := range lanes {
		if err := b.depthIs(l.queue, warmup(*messages)+turns**publishers+*messages); err != nil {
			return nil, fmt.Errorf("%s: %w", l.contender.name(), err)
		}
		if _, err := b.ch.QueueDelete(l.queue, false, false, false); err != nil {
			return nil, err
		}
		samples[l.contender.name()] = l.watch.sample(*messages)
	}
	return samples, nil
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

// pieces is how many times in a round each library empties a queue.
const pieces = 4

// consuming has all libraries empty queues in turns. The messages in them are the same for all, published by raw: those of some
// libraries carry headers.
func (b *bench) consuming(ctx context.Context, contenders []contender, round int) (map[string]sample, error) {
	watches, counts := make([]stopwatch, len(contenders)), make([]int, len(contenders))
	for range pieces {
		for _, i := range rand.Perm(len(contenders)) {
			n, err := b.emptying(ctx, contenders[i], queueOf(contenders[i], round), max(1, *messages/pieces), &watches[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", contenders[i].name(), err)
			}
			counts[i] += n
		}
	}
	samples := make(map[string]sample)
	for i, c := range contenders {
		samples[c.name()] = watches[i].sample(counts[i])
	}
	return samples, nil
}

// emptying measures how a queue is emptied of n messages, after some more, and returns how many it was exactly: others continue while one
// starts the watch.
func (b *bench) emptying(ctx context.Context, c contender, queue string, n int, watch *stopwatch) (int, error) {
	warm := int64(max(warmup(n), b.prefetch))
	all := warm + int64(n)
	if err := b.declare(queue, quorum()); err != nil {
		return 0, err
	}
	if err := b.fill(ctx, raw{}, queue, int(all)); err != nil {
		return 0, err
	}
	var handled, before atomic.Int64
	finished := make(chan struct{})
	stop, err := c.consumer(b, queue, func() {
		switch handled.Add(1) {
		case warm:
			watch.start()
			before.Store(handled.Load())
		case all:
			watch.stop()
			close(finished)
		}
	})
	if err != nil {
		return 0, err
	}
	if err := errors.Join(await(ctx, finished), stop()); err != nil {
		return 0, fmt.Errorf("%d of %d messages handled: %w", handled.Load(), all, err)
	}
	if n := handled.Load(); n != all {
		return 0, fmt.Errorf("%d messages handled, want %d", n, all)
	}
	return int(all - before.Load()), b.finish(queue)
}

// retryingAll has one library after the other retry.
func (b *bench) retryingAll(ctx context.Context, contenders []contender, round int) (map[string]sample, error) {
	samples := make(map[string]sample)
	for _, c := range contenders {
		s, err := b.retrying(ctx, c, queueOf(c, round))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name(), err)
		}
		samples[c.name()] = s
	}
	return samples, nil
}

// retrying measures from when the warm-up messages have failed until as many as are measured have
// come back, so that the clock sees as many failures as returns.
func (b *bench) retrying(ctx context.Context, c contender, queue string) (sample, error) {
	queue += "-retry"
	n := max(1, int(float64(*retries)*c.retryShare()))
	warm := int64(min(n, warmup(n)))
	all := int64(n) + warm
	if err := c.retryQueue(b, queue); err != nil {
		return sample{}, err
	}
	if err := b.fill(ctx, c, queue, int(all)); err != nil {
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

// fill publishes n messages, unmeasured.
func (b *bench) fill(ctx context.Context, c contender, queue string, n int) error {
	publish, stop, err := c.publisher(b, queue)
	if err != nil {
		return err
	}
	if err := errors.Join(publishAll(ctx, publish, n), stop()); err != nil {
		return err
	}
	return b.depthIs(queue, n)
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

// depthIs waits for a queue to have n messages ready.
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
	if err := b.depthBetween(queue, 0, b.prefetch); err != nil {
		return err
	}
	_, err := b.ch.QueueDelete(queue, false, false, false)
	return err
}

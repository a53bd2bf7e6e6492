package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
)

const (
	heartbeat = 10 * time.Second
	// leftAlone is after how long the broker deletes the queue of a run that was killed.
	leftAlone = 10 * time.Minute
	// moment is the resolution of the timeline.
	moment = 250 * time.Millisecond
)

// run is one measurement.
type run struct {
	Options
	queue               string
	published, consumed atomic.Int64
	refused             atomic.Int64
	timeline            []Moment // of watch, until it ends
}

// Run puts load on the broker and measures. If ctx ends early, it returns the results so far and the error of ctx. It uses a queue of its
// own and deletes it.
func Run(ctx context.Context, o Options) (Result, error) {
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	if o.settleTimeout == 0 {
		o.settleTimeout = 10 * time.Second
	}
	r := &run{Options: o, queue: "rehop-bench-" + rehop.NewID()}
	conn, err := connect(ctx, o)
	if err != nil {
		return Result{}, err
	}
	result := Result{Broker: nameOf(conn), Mode: o.Mode, QueueType: o.QueueType, Size: o.Size}
	err = r.declare(conn)
	if err == nil {
		err = r.measure(ctx, &result)
		var fault error
		result.Left, fault = r.clean(conn)
		err = errors.Join(err, fault)
	}
	hangUp(conn)
	result.Refused, result.Timeline = r.refused.Load(), r.timeline
	if err == nil {
		err = ctx.Err()
	}
	return result, err
}

func (r *run) declare(conn *amqp.Connection) error {
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	defer ch.Close()
	_, err = ch.QueueDeclare(r.queue, true, false, false, false, amqp.Table{"x-queue-type": r.QueueType, "x-expires": leftAlone.Milliseconds()})
	if err != nil {
		return fmt.Errorf("declare queue %q: %w", r.queue, err)
	}
	return nil
}

// clean deletes the queue, on a new connection if the first one was lost.
func (r *run) clean(conn *amqp.Connection) (left int64, err error) {
	if conn.IsClosed() {
		ctx, cancel := context.WithTimeout(context.Background(), r.settleTimeout)
		defer cancel()
		if conn, err = connect(ctx, r.Options); err != nil {
			return 0, fmt.Errorf("delete queue %q (the broker deletes it in %v): %w", r.queue, leftAlone, err)
		}
		defer hangUp(conn)
	}
	ch, err := conn.Channel()
	if err != nil {
		return 0, fmt.Errorf("open a channel to delete queue %q: %w", r.queue, err)
	}
	n, err := ch.QueueDelete(r.queue, false, false, false)
	if err != nil {
		return 0, fmt.Errorf("delete queue %q: %w", r.queue, err)
	}
	return int64(n), nil
}

// measure runs the publishers and consumers of the mode.
func (r *run) measure(ctx context.Context, result *Result) error {
	if r.Mode == Consume {
		if _, _, err := r.publishing(ctx); err != nil { // only to fill the queue
			return err
		}
	}
	watching := r.watch()
	defer watching()
	var publishing, consuming outcome
	var both sync.WaitGroup
	sent := make(chan struct{}) // closed when nothing more will be published
	if r.Mode == Consume {
		close(sent)
	} else {
		both.Go(func() {
			defer close(sent)
			publishing.latency, publishing.took, publishing.err = r.publishing(ctx)
		})
	}
	if r.Mode != Publish {
		both.Go(func() { consuming.latency, consuming.took, consuming.err = r.consuming(ctx, sent) })
	}
	both.Wait()
	if publishing.latency != nil {
		result.Published = flowOf(r.Publishers, publishing.took, publishing.latency)
	}
	if consuming.latency != nil {
		result.Consumed = flowOf(r.Consumers, consuming.took, consuming.latency)
		if r.Mode == Consume {
			result.Consumed.Latency = nil // the time in the queue is not a latency
		}
	}
	return errors.Join(publishing.err, consuming.err)
}

type outcome struct {
	latency *histogram
	took    time.Duration
	err     error
}

// watch keeps the timeline until the function that it returns is called.
func (r *run) watch() (end func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	published, consumed := r.published.Load(), r.consumed.Load()
	sample := func() {
		p, c := r.published.Load(), r.consumed.Load()
		r.timeline = append(r.timeline, Moment{At: time.Since(began).Seconds(), Published: p - published, Consumed: c - consumed})
		published, consumed = p, c
		if r.Progress != nil {
			r.Progress(p, c)
		}
	}
	go func() {
		defer close(ended)
		ticker := time.NewTicker(moment)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				sample()
			case <-done:
				sample()
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// together runs workers, a few per connection, and adds up their measurements. The first error ends all.
func (r *run) together(ctx context.Context, workers int, work func(ctx context.Context, l line, h *histogram) error) (*histogram, time.Duration, error) {
	const perConnection = 8
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var once sync.Once
	var fault error // the first one
	fail := func(err error) {
		once.Do(func() { fault = err })
		cancel()
	}
	var conns []*amqp.Connection
	defer func() {
		for _, conn := range conns {
			hangUp(conn)
		}
	}()
	lines := make([]line, workers)
	for i := range lines {
		if i%perConnection == 0 {
			conn, err := connect(ctx, r.Options)
			if err != nil {
				return nil, 0, err
			}
			conns = append(conns, conn)
		}
		ch, err := conns[len(conns)-1].Channel()
		if err != nil {
			return nil, 0, fmt.Errorf("open a channel: %w", err)
		}
		lines[i] = line{ch, conns[len(conns)-1], fail}
	}
	parts := make([]histogram, workers)
	began := time.Now()
	var group sync.WaitGroup
	for i, l := range lines {
		group.Go(func() {
			if err := work(ctx, l, &parts[i]); err != nil {
				fail(err)
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	sum := &parts[0]
	for i := range parts[1:] {
		sum.merge(&parts[i+1])
	}
	return sum, took, fault
}

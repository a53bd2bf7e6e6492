package crashes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	publishers = 3
	window     = 64   // messages that a publisher has under way
	backlog    = 3000 // unanswered messages at which publishers pause
	prefetch   = 50
)

// traffic publishes, consumes and declares on a broker that comes and goes.
type traffic struct {
	t      *testing.T
	ctx    context.Context
	broker *broker
	books  *books

	publishing crew
	consuming  crew
	rejectAll  bool // consumers that start reject everything
	takeOnly   bool // clients that start as consumers publish and declare nothing
	known      definitions
}

// crew are clients that start and stop together.
type crew struct {
	stop context.CancelFunc
	all  sync.WaitGroup
}

// newTraffic declares what there is to declare on a broker that serves.
func newTraffic(t *testing.T, b *broker, seed uint64) *traffic {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	w := &traffic{t: t, ctx: ctx, broker: b, books: newBooks(script{seed})}
	t.Cleanup(func() {
		cancel()
		b.end() // clients may wait for it
		w.stopPublishing()
		w.stopConsuming()
	})
	if err := b.channel(declare); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *traffic) start() {
	w.startPublishing()
	w.startConsuming()
}

func (w *traffic) startPublishing() {
	ctx := w.publishing.begin(w.ctx)
	for i := range publishers {
		w.publishing.all.Go(func() {
			w.keep(ctx, func(ctx context.Context, s *session) error { return w.publish(ctx, s, i) })
		})
	}
}

func (w *traffic) startConsuming() {
	ctx := w.consuming.begin(w.ctx)
	rejectAll, takeOnly := w.rejectAll, w.takeOnly
	for _, queue := range []string{queueA, queueB, queueC} {
		w.consuming.all.Go(func() {
			w.keep(ctx, func(ctx context.Context, s *session) error { return w.consume(ctx, s, queue, rejectAll, takeOnly) })
		})
	}
	if takeOnly {
		return
	}
	w.consuming.all.Go(func() { w.keep(ctx, w.move) })
	w.consuming.all.Go(func() { w.keep(ctx, w.define) })
}

func (c *crew) begin(ctx context.Context) context.Context {
	ctx, c.stop = context.WithCancel(ctx)
	return ctx
}

func (c *crew) end() {
	if c.stop != nil {
		c.stop()
		c.all.Wait()
	}
}

// stopPublishing returns when every message that was sent has an outcome.
func (w *traffic) stopPublishing() { w.publishing.end() }

// stopConsuming returns when what was answered is sealed, if the broker lives.
func (w *traffic) stopConsuming() { w.consuming.end() }

// publish publishes with a window of unconfirmed messages. What is in doubt is given up.
func (w *traffic) publish(ctx context.Context, s *session, publisher int) error {
	if err := s.Confirm(false); err != nil {
		return err
	}
	type sent struct {
		id      string
		confirm *amqp.DeferredConfirmation
	}
	var underway []sent
	settle := func(keep int) {
		for ; len(underway) > keep; underway = underway[1:] {
			ok, err := s.confirmed(underway[0].confirm)
			if err != nil {
				w.books.fault("life %d: %s: %v", s.generation, underway[0].id, err)
			}
			o := unknown
			if ok {
				o = confirmed
			}
			w.books.concluded(underway[0].id, s.generation, o)
		}
	}
	defer func() { settle(0) }()
	for ctx.Err() == nil {
		if w.crowded() {
			settle(0)
			if w.awaitRoom(ctx, s) != nil {
				return errLost
			}
		}
		id := w.books.attempt(publisher, s.generation)
		r := w.books.script.route(id)
		confirm, err := s.PublishWithDeferredConfirm(r.exchange, r.key, true, false, w.books.script.publishing(id))
		if err != nil {
			w.books.concluded(id, s.generation, unknown)
			return err
		}
		underway = append(underway, sent{id, confirm})
		settle(window - 1)
	}
	return nil
}

func (w *traffic) crowded() bool {
	w.books.mu.Lock()
	defer w.books.mu.Unlock()
	return w.books.pending > w.books.limit
}

// awaitRoom waits until consumers have caught up; the error is the loss of the connection.
func (w *traffic) awaitRoom(ctx context.Context, s *session) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lost := make(chan error, 1)
	go func() {
		defer close(lost)
		select {
		case <-s.closed:
			cancel()
			lost <- errLost
		case <-ctx.Done():
		}
	}()
	_ = w.books.await(ctx, "room", func() bool { return w.books.pending < w.books.limit/2 })
	cancel()
	return <-lost
}

// consume answers deliveries. After each answer, or several, it publishes a tick: when that is confirmed, everything
// that was answered before on the same channel is on disk.
func (w *traffic) consume(ctx context.Context, s *session, queue string, rejectAll, takeOnly bool) error {
	if err := errors.Join(s.Confirm(false), s.Qos(prefetch, 0, false)); err != nil {
		return err
	}
	deliveries, err := s.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	var (
		answered []string // ids, since the last tick
		sealing  []string // ids, before it
		tick     *amqp.DeferredConfirmation
		ticked   <-chan struct{}
	)
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return errLost
			}
			requeued := w.books.delivered(queue, d.MessageId, d.Body, d.Redelivered, s.generation)
			a := w.books.script.answer(queue, d.MessageId, requeued)
			if rejectAll {
				a = reject
			}
			w.books.answered(queue, d.MessageId, a)
			if err := give(d, a); err != nil {
				return err
			}
			if a != giveBack && !takeOnly {
				answered = append(answered, d.MessageId)
			}
		case <-ticked:
			if tick.Acked() {
				w.books.sealed(queue, sealing)
			}
			tick, ticked = nil, nil
		case <-ctx.Done():
			if takeOnly {
				return nil
			}
			return w.lastTick(s, queue, tick, sealing, answered)
		}
		if tick == nil && len(answered) > 0 {
			if tick, err = s.tick(); err != nil {
				return err
			}
			ticked = tick.Done()
			sealing, answered = answered, nil
		}
	}
}

func give(d amqp.Delivery, a answer) error {
	switch a {
	case reject:
		return d.Reject(false)
	case giveBack:
		return d.Nack(false, true)
	}
	return d.Ack(false)
}

// lastTick seals what is left.
func (w *traffic) lastTick(s *session, queue string, tick *amqp.DeferredConfirmation, sealing, answered []string) error {
	last, err := s.tick()
	if err != nil {
		return err
	}
	if tick != nil {
		if ok, err := s.confirmed(tick); err != nil || !ok {
			return errors.Join(errLost, err)
		}
		w.books.sealed(queue, sealing)
	}
	if ok, err := s.confirmed(last); err != nil || !ok {
		return errors.Join(errLost, err)
	}
	w.books.sealed(queue, answered)
	return nil
}

// move moves messages from one queue to another in transactions.
func (w *traffic) move(ctx context.Context, s *session) error {
	if err := errors.Join(s.Tx(), s.Qos(10, 0, false)); err != nil {
		return err
	}
	deliveries, err := s.Consume(queueTx, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for {
		var ids []string
		take := func(d amqp.Delivery) error {
			w.books.delivered(queueTx, d.MessageId, d.Body, d.Redelivered, s.generation)
			ids = append(ids, d.MessageId)
			p := amqp.Publishing{MessageId: d.MessageId, DeliveryMode: amqp.Persistent, Body: d.Body}
			return errors.Join(s.Publish("", queueMoved, true, false, p), d.Ack(false))
		}
		select {
		case d, ok := <-deliveries:
			if !ok {
				return errLost
			}
			err = take(d)
		case <-ctx.Done():
			return nil
		}
		for more := true; more && err == nil; {
			select {
			case d, ok := <-deliveries:
				if more = ok; ok {
					err = take(d)
				}
			default:
				more = false
			}
		}
		if err == nil {
			err = s.TxCommit()
		}
		if err != nil {
			w.books.doubted(queueTx, ids)
			return err
		}
		for _, id := range ids {
			w.books.answered(queueTx, id, ack)
		}
		w.books.sealed(queueTx, ids)
	}
}

// works waits until something is confirmed in this life of the broker, and returns how long after the start of its
// process that was.
func (w *traffic) works(p *process) time.Duration {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, soon)
	defer cancel()
	var first time.Time
	w.must(w.books.await(ctx, fmt.Sprintf("a confirm in life %d", p.generation), func() bool {
		first = w.books.began[p.generation]
		return !first.IsZero()
	}))
	return first.Sub(p.began)
}

// shows waits until the books show something.
func (w *traffic) shows(what string, shows func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, soon)
	defer cancel()
	w.must(w.books.await(ctx, what, shows))
}

func (w *traffic) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v\n%s", err, w.broker.logEnd())
	}
}

// finish waits until everything confirmed was answered, kills the broker once more, and looks into the queues.
func (w *traffic) finish() tally {
	w.t.Helper()
	w.stopPublishing()
	ctx, cancel := context.WithTimeout(w.ctx, 2*soon)
	defer cancel()
	if err := w.books.await(ctx, "an answer to every confirmed message", func() bool { return w.books.pending == 0 }); err != nil {
		w.t.Error(err) // the audit names them
	}
	w.stopConsuming()
	w.broker.kill()
	w.broker.serve()
	w.drain()
	w.broker.stop()
	w.broker.checkStore()
	return w.books.close(w.t)
}

// drain takes everything out of the queues. Those in which messages wait come first: what they still let go is then
// found where it goes.
func (w *traffic) drain() {
	w.t.Helper()
	names := []string{queueWait, queueLater}
	for _, q := range queues() {
		if !slices.Contains(names, q.name) && q.name != queueTicks {
			names = append(names, q.name)
		}
	}
	w.must(w.broker.channel(func(ch *amqp.Channel) error {
		for _, name := range names {
			for {
				d, ok, err := ch.Get(name, true)
				if err != nil {
					return fmt.Errorf("look into %s: %w", name, err)
				}
				if !ok {
					break
				}
				w.books.found(name, d.MessageId, d.Body)
			}
		}
		return nil
	}))
}

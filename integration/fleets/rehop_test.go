package fleets

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// worker is rehop in a fleet.
type worker struct {
	t             testing.TB
	subscriptions []rehop.Subscriber // the first is the one that messages are published for
	classic       bool               // the queue is
	exchange, key string
	compose       func(message) rehop.Message
	client        *rehop.Client
	admin         *admin.Admin
	seen          deliveries
	strays        atomic.Int32 // copies that were meant for other queues
	sub           *rehop.Subscription
}

func startRehop(t testing.TB, f fleet, r *lab.Rabbit) *worker {
	t.Helper()
	w := &worker{t: t, subscriptions: f.subscriptions, classic: !f.quorum, exchange: f.exchange, key: f.key, compose: f.compose, seen: newDeliveries()}
	if w.compose == nil {
		w.compose = w.plain
	}
	w.client = kit.Open(t, rehop.Config{URL: r.URL, Hooks: []rehop.Hooks{{OnResult: w.OnResult}}})
	var err error
	if w.admin, err = admin.Open(kit.Context(t), admin.Config{URL: r.URL, Layout: f.subscriptions[0].Layout}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.admin.Close)
	return w
}

func (w *worker) name() string                { return "rehop" }
func (w *worker) isRehop() bool               { return true }
func (w *worker) deliveries() <-chan delivery { return w.seen }
func (w *worker) queue() string               { return w.subscriptions[0].Queue }

func (w *worker) declare() {
	w.t.Helper()
	for _, s := range w.subscriptions {
		s.Handler = kit.Nop
		kit.Drain(w.t, kit.Subscribe(w.t, w.client, s))
	}
}

func (w *worker) publish(messages ...message) {
	w.t.Helper()
	all := make([]rehop.Message, len(messages))
	for i, m := range messages {
		all[i] = w.compose(m)
	}
	kit.Publish(w.t, w.client, all...)
}

func (w *worker) plain(m message) rehop.Message {
	return rehop.Message{ID: m.ID, Exchange: w.exchange, Key: w.key, Body: []byte(m.Body), Headers: m.Headers, ContentType: "application/json"}
}

func (w *worker) consume(fixed bool) {
	w.t.Helper()
	s := w.subscriptions[0]
	s.Prefetch = 10
	s.Handler = handler(fixed)
	w.sub = kit.Subscribe(w.t, w.client, s)
}

func (w *worker) cancel() {
	w.t.Helper()
	kit.Drain(w.t, w.sub)
}

func (w *worker) take(n int, fixed bool) []delivery {
	w.t.Helper()
	begun, ended := make(chan *rehop.Subscription, 1), make(chan error, 1)
	var taken atomic.Int32
	s := w.subscriptions[0]
	s.Prefetch = 1
	s.ExclusiveConsumer = w.classic // so that the one consumer is not replaced by another one when it has shown that it lives
	s.Handler = rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
		switch k := int(taken.Add(1)); {
		case k > n: // on a busy machine, from a quorum queue: it goes back, and no attempt is used
			sub := <-begun
			begun <- sub
			go func() { _ = sub.Stop() }() // which makes that the drain ends
			<-ctx.Done()
			return ctx.Err()
		case k == n: // another one must not come, not even this one again: the consumer ends before it is settled
			sub := <-begun
			begun <- sub
			go func() { ended <- sub.Drain(context.WithoutCancel(ctx)) }()
			if err := w.awaitNoConsumer(ctx); err != nil {
				return err
			}
		}
		return handler(fixed)(ctx, d)
	})
	begun <- kit.Subscribe(w.t, w.client, s)
	all := nextOf(w.t, w, n)
	if err := kit.Receive(w.t, ended, "rehop to end its subscription"); err != nil {
		w.t.Fatal(err)
	}
	return all
}

// awaitNoConsumer waits until nobody consumes from the queue. A quorum queue counts a consumer until its messages are settled, so
// there it does not; what fails there mostly comes back later than a consumer ends.
func (w *worker) awaitNoConsumer(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for w.classic {
		q, err := w.admin.Queue(ctx, w.queue())
		if err != nil || q.Consumers == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// handler fails what is to fail, unless that is fixed.
func handler(fixed bool) rehop.HandlerFunc {
	return func(_ context.Context, d *rehop.Delivery) error {
		o, err := message{Body: string(d.Body)}.order()
		switch {
		case err != nil:
			return rehop.Permanent(err)
		case fixed:
			return nil
		case o.Permanent:
			return rehop.Permanent(errToFail)
		case d.Attempt <= o.Fails:
			return errToFail
		}
		return nil
	}
}

const toFail = "the message is to fail"

var errToFail = errors.New(toFail)

// OnResult is called with what became of a message.
func (w *worker) OnResult(_ context.Context, d *rehop.Delivery, r rehop.Result) {
	seen := delivery{message: message{ID: d.ID, Body: string(d.Body), Headers: d.Headers}, Count: d.Attempt - 1, Redelivered: d.Redelivered,
		Exchange: d.Exchange, Key: d.Key}
	switch r.Outcome {
	case rehop.OutcomeDone:
		seen.Outcome = handled
	case rehop.OutcomeRetry:
		seen.Outcome = retried
	case rehop.OutcomeFailed:
		seen.Outcome = failed
	case rehop.OutcomeDiscarded:
		w.strays.Add(1)
		return
	case rehop.OutcomeReturned:
		return // no handler has seen it
	default:
		w.t.Errorf("outcome of %s: got %v (%v), want none that makes a duplicate", d.Body, r.Outcome, r.Err)
		return
	}
	w.seen.add(seen)
}

func (w *worker) failed() (found []message) {
	w.t.Helper()
	resting, err := w.admin.Failed(kit.Context(w.t), w.queue(), 1000, admin.Filter{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range resting {
		found = append(found, message{ID: m.ID, Body: string(m.Body), Headers: m.Headers, Reason: m.Error})
	}
	return found
}

func (w *worker) replay() int {
	w.t.Helper()
	done, err := w.admin.Replay(kit.Context(w.t), w.queue(), admin.Options{})
	if err != nil {
		w.t.Errorf("replay what %q has failed: got %v, want nil", w.queue(), err)
	}
	return done.Done
}

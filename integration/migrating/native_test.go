package migrating

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// fleet is a subscription in a layout that others use too.
type fleet struct {
	rehop.Subscriber
	exchange, key string // by which its messages are published
	// By which a program of the fleet has a message wait. Empty: the layout has no place for that.
	retryExchange, retryKey string
}

func fleets() map[string]fleet {
	const wait = 3 * time.Second
	return map[string]fleet{
		"pubsub": {rehop.Subscriber{Queue: "ucenter@user", Exchange: layouts.MasterExchange, Keys: []string{"user.#"}, Layout: layout.PubSub{Delay: wait}},
			layouts.MasterExchange, "user.created", layouts.MasterExchange + ".retry", "ucenter@user"},
		"dlx": {rehop.Subscriber{Queue: "order-summary-queue", Exchange: "order", Keys: []string{"order.#"}, MaxLength: 1_000_000, Layout: layout.DLX{}},
			"order", "order.created", "", ""},
		"tiers": {rehop.Subscriber{Queue: "notices", Exchange: "notice", Keys: []string{"#"}, Layout: layout.Tiers{Tiers: []time.Duration{wait}, Waits: []time.Duration{wait}}},
			"notice", "notice.1", "delay.3s", "notices"},
		"pubsub by key": {rehop.Subscriber{Queue: "ucenter@user", Exchange: layouts.MasterExchange, Keys: []string{"user.#"}, Layout: layout.PubSub{Delay: wait, Form: layout.PubSubByKey}},
			layouts.MasterExchange, "user.created", layouts.MasterExchange + ".retry", "user.created"},
		"sneakers": {rehop.Subscriber{Queue: "mail", Layout: layout.Sneakers{Delay: wait}},
			layouts.SneakersExchange, "mail", "mail-retry", "mail"},
		"sneakers with documents": {rehop.Subscriber{Queue: "mail", Layout: layout.Sneakers{Delay: wait, Document: true}},
			layouts.SneakersExchange, "mail", "mail-retry", "mail"},
		"sneakers that reject": {rehop.Subscriber{Queue: "mail", Layout: layout.Sneakers{Delay: wait, Reject: true}, QueueType: layout.Quorum},
			layouts.SneakersExchange, "mail", "mail-retry", "mail"},
		"envelope": {rehop.Subscriber{Queue: "order.main.q", Exchange: "order.main.x", Keys: []string{"order.created"}, Layout: layout.Envelope{Delay: wait}},
			"order.main.x", "order.created", "order.retry.x", "order.retry"},
	}
}

// TestFromLayoutToNative follows the way that docs/topology.md shows: a queue in the layout of a fleet becomes one of the native layout while
// messages are published, with messages that wait, in the fleet's queues and in rehop's, and messages that have failed. All of them are handled
// in the end, each once.
func TestFromLayoutToNative(t *testing.T) {
	t.Parallel()
	for name, f := range fleets() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) { moveToNative(t, r, f) })
		})
	}
}

func moveToNative(t *testing.T, r *lab.Rabbit, f fleet) {
	s := newSite(t, r)
	client := kit.Open(t, rehop.Config{URL: r.URL})
	shift := newShift()

	before := f.Subscriber
	before.Concurrency, before.Handler = 4, shift.handler(func(n int, d *rehop.Delivery) error {
		switch {
		case n%3 == 1:
			return errors.New("not today")
		case n%3 == 2:
			return rehop.Permanent(errors.New("never"))
		}
		return nil
	})
	old := kit.Subscribe(t, client, before)
	flow := shift.publish(s, f)
	shift.await(t, "each answer a few times", func() bool { return len(shift.done) > 5 && shift.failed > 10 })
	if f.retryExchange != "" {
		for range 5 {
			flow.send(f.retryExchange, f.retryKey)
		}
	}
	if err := old.Drain(s.ctx); err != nil {
		t.Fatal(err)
	}

	native := rehop.Subscriber{Queue: f.Queue, Exchange: f.exchange, ExchangeType: before.ExchangeType, ExistingExchange: true, Keys: f.Keys, Concurrency: 4,
		Retry: rehop.Steps(time.Second), Handler: shift.handler(func(int, *rehop.Delivery) error { return nil })}
	if len(native.Keys) == 0 {
		native.Keys = []string{f.key}
	}
	s.migrate(plan(t, native), f.Queue, admin.MigrateOptions{})
	// The failed queue is there before a subscriber starts. In the layout tiers it has the same name, and messages.
	if _, err := s.ch.QueueDeclarePassive(layouts.FailedQueue(f.Queue), true, false, false, false, nil); err != nil {
		t.Fatalf("got %v, want that the failed queue is there", err)
	}
	kit.Subscribe(t, client, native)
	seen := shift.count()
	shift.await(t, "messages that came after the move", func() bool { return len(shift.done) > seen+5 })
	sent := flow.stop()

	a, err := admin.Open(s.ctx, admin.Config{URL: r.URL, Management: r.Management(), Layout: f.Layout})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if done, err := a.Replay(s.ctx, f.Queue, admin.Options{}); err != nil {
		t.Fatalf("replay what the fleet has failed: %v, %+v", err, done)
	}
	shift.await(t, fmt.Sprintf("all %d messages", sent), func() bool { return len(shift.done) >= sent })
	shift.mu.Lock()
	defer shift.mu.Unlock()
	for n, times := range shift.done {
		if times != 1 || n >= sent {
			t.Errorf("message %d of %d: handled %d times, want once", n, sent, times)
		}
	}
	diff, err := s.admin.Diff(s.ctx, plan(t, native))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range diff {
		if d.Kind != "unexpected" { // the ways by which messages came back that waited remain, and do no harm
			t.Errorf("the broker differs from the native plan: %s", d)
		}
	}
}

// shift counts what was handled.
type shift struct {
	mu      sync.Mutex
	done    map[int]int // how often each message was handled to its end
	failed  int
	changed chan struct{}
}

func newShift() *shift { return &shift{done: make(map[int]int), changed: make(chan struct{}, 1)} }

func (s *shift) handler(answer func(n int, d *rehop.Delivery) error) rehop.Handler {
	return rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		var n int
		if _, err := fmt.Sscanf(d.ID, "m%d", &n); err != nil {
			return rehop.Permanent(fmt.Errorf("id %q: %w", d.ID, err))
		}
		err := answer(n, d)
		s.mu.Lock()
		if err == nil {
			s.done[n]++
		} else {
			s.failed++
		}
		s.mu.Unlock()
		select {
		case s.changed <- struct{}{}:
		default:
		}
		return err
	})
}

func (s *shift) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.done)
}

// await waits until what was handled shows something.
func (s *shift) await(t *testing.T, what string, shows func() bool) {
	t.Helper()
	timer := time.NewTimer(kit.Limit)
	defer timer.Stop()
	for {
		s.mu.Lock()
		ok := shows()
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-s.changed:
		case <-timer.C:
			s.mu.Lock()
			t.Logf("handled: %v", slices.Sorted(func(yield func(int) bool) {
				for n := range s.done {
					if !yield(n) {
						return
					}
				}
			}))
			s.mu.Unlock()
			t.Fatalf("after %v still not: %s", kit.Limit, what)
		}
	}
}

// flow publishes one message after the other, each confirmed, until it is stopped.
type flow struct {
	t       *testing.T
	mu      sync.Mutex // for publishing in turn
	ch      *amqp.Channel
	returns chan amqp.Return
	next    int
	stopped chan struct{}
	all     sync.WaitGroup
}

func (s *shift) publish(to *site, f fleet) *flow {
	w := &flow{t: to.t, ch: to.rabbit.Channel(), stopped: make(chan struct{})}
	if err := w.ch.Confirm(false); err != nil {
		to.t.Fatal(err)
	}
	w.returns = w.ch.NotifyReturn(make(chan amqp.Return, 1))
	w.all.Go(func() {
		for ticker := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-w.stopped:
				ticker.Stop()
				return
			case <-ticker.C:
				w.send(f.exchange, f.key)
			}
		}
	})
	return w
}

// send publishes the next message.
func (w *flow) send(exchange, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	confirm, err := w.ch.PublishWithDeferredConfirm(exchange, key, true, false, amqp.Publishing{
		MessageId: fmt.Sprintf("m%d", w.next), DeliveryMode: amqp.Persistent, ContentType: "application/json", Body: fmt.Appendf(nil, `{"n":%d}`, w.next),
	})
	if err == nil {
		_, err = confirm.WaitContext(kit.Context(w.t))
	}
	select {
	case r := <-w.returns: // it comes before the confirm
		err = fmt.Errorf("%s, through %q with key %q", r.ReplyText, exchange, key)
	default:
	}
	if err != nil {
		w.t.Errorf("publish message %d: %v", w.next, err)
	}
	w.next++
}

// stop ends the flow, and returns how many messages there were.
func (w *flow) stop() int {
	close(w.stopped)
	w.all.Wait()
	return w.next
}

// What another program rejects after a migration to the native layout comes to the failed queue, although no subscriber has started yet.
func TestFailedQueueAfterMigration(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		if err := s.ch.ExchangeDeclare("order", "topic", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		kit.Queue(t, s.ch, "orders", nil, [2]string{"order", "order.#"})
		s.fill("order", "order.1", 0, 3)
		native := plan(t, orders(func(s *rehop.Subscriber) { s.ExistingExchange, s.Keys = true, []string{"order.#"} }))
		m := s.migrate(native, "orders", admin.MigrateOptions{})
		if !slices.ContainsFunc(m.Steps, func(step admin.Step) bool { return step.Action == admin.ActionDeadLetters }) {
			t.Errorf("got steps %v, want one that declares the failed queue", m.Steps)
		}
		d, ok, err := s.ch.Get("orders", false)
		if err != nil || !ok {
			t.Fatalf("got a message: %t, %v; want one", ok, err)
		}
		if err := d.Reject(false); err != nil {
			t.Fatal(err)
		}
		kit.WantDepth(t, r, s.ch, "orders.failed", 1)
		kit.WantDepth(t, r, s.ch, "orders", 2)
		// Nothing is left to do.
		if m, err := s.admin.PlanMigration(s.ctx, native, "orders", admin.MigrateOptions{}); err != nil || len(m.Steps) > 0 {
			t.Errorf("got %v and %v, want no steps", m, err)
		}
	})
}

package migrating

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/await"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/topology"
)

// ordered has a subscription handle its messages in order by the routing key.
func ordered(s *rehop.Subscriber) {
	s.OrderBy = func(d *rehop.Delivery) string { return d.Key }
}

// lanes are messages with keys: one publisher for each key, which publishes a message when the one before it is confirmed, and what
// handlers did with them.
type lanes struct {
	mu      sync.Mutex
	sent    map[string]int   // confirmed messages of each key, whose numbers are from 0 on
	done    map[string][]int // messages that were handled
	runs    map[string]int   // of each message
	over    map[string]bool  // messages that were handled, by id
	repeats int              // runs of those
	refused int
	changed chan struct{}

	stop    context.CancelFunc
	running sync.WaitGroup
}

func newLanes() *lanes {
	return &lanes{sent: make(map[string]int), done: make(map[string][]int), runs: make(map[string]int), over: make(map[string]bool), changed: make(chan struct{}, 1)}
}

func (l *lanes) notify() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// publish begins to publish messages of some keys. What is refused is published again, before the next one of the key.
func (l *lanes) publish(s *site, keys int) {
	ctx, stop := context.WithCancel(s.ctx)
	l.stop = stop
	s.t.Cleanup(l.end)
	client := kit.Open(s.t, rehop.Config{URL: s.rabbit.URL})
	for k := range keys {
		key := fmt.Sprint("order.", k)
		l.running.Go(func() {
			tick := time.NewTicker(15 * time.Millisecond) // so that there are not too many to handle
			defer tick.Stop()
			for n := 0; ctx.Err() == nil; <-tick.C {
				err := client.Publish(s.ctx, rehop.Message{ID: fmt.Sprint(key, "/", n), Exchange: "order", Key: key, Body: []byte(id(n))})
				l.mu.Lock()
				switch {
				case err == nil:
					n++
					l.sent[key] = n
				case errors.Is(err, rehop.ErrRefused):
					l.refused++
				default:
					s.t.Errorf("message %d of %s: %v", n, key, err)
					stop()
				}
				l.mu.Unlock()
				l.notify()
			}
		})
	}
}

func (l *lanes) end() {
	l.stop()
	l.running.Wait()
}

// Handle fails every seventh message of a key the first time.
func (l *lanes) Handle(_ context.Context, d *rehop.Delivery) error {
	var n int
	if _, err := fmt.Sscan(string(d.Body), &n); err != nil {
		return rehop.Permanent(fmt.Errorf("%q has no number", d.Body))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over[d.ID] {
		l.repeats++
		return nil
	}
	l.runs[d.ID]++
	if n%7 == 3 && l.runs[d.ID] == 1 {
		return errors.New("the first time it fails")
	}
	l.over[d.ID] = true
	l.done[d.Key] = append(l.done[d.Key], n)
	l.notify()
	return nil
}

// await waits until a condition is met.
func (l *lanes) await(t *testing.T, what string, met func() bool) {
	t.Helper()
	for {
		l.mu.Lock()
		ok := met()
		l.mu.Unlock()
		if ok {
			return
		}
		await.One(t, l.changed, kit.Limit, what)
	}
}

// allSent reports whether each key has as many confirmed messages.
func (l *lanes) allSent(keys, n int) func() bool {
	return func() bool {
		for k := range keys {
			if l.sent[fmt.Sprint("order.", k)] < n {
				return false
			}
		}
		return true
	}
}

// audit checks that all confirmed messages were handled, those of each key in order, and that not more than a number were handled again.
func (l *lanes) audit(t *testing.T, repeats int) {
	t.Helper()
	l.end()
	l.await(t, "all messages were handled", func() bool {
		for key, n := range l.sent {
			if len(l.done[key]) < n {
				return false
			}
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	total := 0
	for key, n := range l.sent {
		total += n
		for i, got := range l.done[key] {
			if got != i {
				t.Errorf("key %s: message %d was handled when %d was to be; around it %v", key, got, i, l.done[key][max(0, i-3):min(len(l.done[key]), i+10)])
				break
			}
		}
	}
	if l.repeats > repeats {
		t.Errorf("%d messages were handled again, want at most %d", l.repeats, repeats)
	}
	t.Logf("%d messages, %d refused and published again, %d handled again", total, l.refused, l.repeats)
}

// A queue becomes an ordered one while messages are published. From the publisher to the handler, those of each key keep their order, though
// nobody has asked for KeepOrder: messages that are there before, that come meanwhile, and that come when subscribers run. Without the pauses at
// the two switches this fails: messages that come after a switch get ahead of those that are still to be moved.
func TestMigrateToOrdered(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*rehop.Subscriber){"Quorum": nil, "Classic": classic} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) { moveToOrdered(t, r, before) })
		})
	}
}

func moveToOrdered(t *testing.T, r *lab.Rabbit, change func(*rehop.Subscriber)) {
	s := newSite(t, r)
	s.apply(plan(t, orders(change)))
	const keys, each = 6, 40
	l := newLanes()
	l.publish(s, keys)
	l.await(t, "some messages before", l.allSent(keys, each))
	want := plan(t, orders(ordered))
	moved, before := make(map[admin.Action]int), 0
	m := s.migrate(want, "orders", admin.MigrateOptions{Progress: func(p admin.MigrationProgress) {
		moved[p.Now.Action] += p.Moved - before
		before = p.Moved
	}})
	if !strings.Contains(m.String(), `declare what is missing for queue "orders": queue "orders.held"`) {
		t.Errorf("the held queue is not among the steps:\n%s", m)
	}
	for _, warning := range []string{"refuses new messages twice", "return to the end of the queue"} {
		if !strings.Contains(m.String(), warning) {
			t.Errorf("no warning %q:\n%s", warning, m)
		}
	}
	s.wantPlanned(want)
	l.mu.Lock()
	more := 0
	for _, n := range l.sent {
		more = max(more, n)
	}
	l.mu.Unlock()
	client := kit.Open(t, rehop.Config{URL: r.URL})
	kit.Subscribe(t, client, orders(func(s *rehop.Subscriber) {
		ordered(s)
		s.Handler, s.Concurrency, s.Retry = l, 8, rehop.Steps(100*time.Millisecond)
	}))
	l.await(t, "some messages afterwards", l.allSent(keys, more+each))
	l.audit(t, 0)
	t.Logf("moved in each step: %v", moved) // a message that is moved to empty the queue has come after the pause
}

// A migration that is interrupted at every step, by turns in an orderly way and by the loss of its connections, keeps the order, too. What was
// being moved may be handled twice, as after any such loss.
func TestMigrateToOrderedResumed(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(nil)))
		const keys, each = 6, 40
		l := newLanes()
		l.publish(s, keys)
		l.await(t, "some messages before", l.allSent(keys, each))
		want := plan(t, orders(ordered))
		type point struct {
			do    admin.Action
			moved bool // messages have been moved within the step
		}
		seen := make(map[point]bool)
		lost := 0
		for more := true; more; {
			more = false
			a := s.openAdmin(r.URL, r.Management())
			ctx, cancel := context.WithCancel(s.ctx)
			last, begun := 0, 0
			_, err := a.Migrate(ctx, want, "orders", admin.MigrateOptions{Settle: settle, Progress: func(p admin.MigrationProgress) {
				if p.Step != last {
					last, begun = p.Step, p.Moved
				}
				at := point{p.Now.Action, p.Moved > begun}
				if more || seen[at] {
					return
				}
				more, seen[at] = true, true
				if len(seen)%2 == 0 {
					cancel()
					return
				}
				lost++
				a.Close()
			}})
			cancel()
			a.Close()
			switch {
			case err == nil:
				more = false
			case strings.Contains(err.Error(), "it is being migrated"):
				more = true // the broker has not noticed yet that the connection is lost
			case !more:
				t.Fatal(err)
			}
		}
		s.wantPlanned(want)
		for _, do := range []admin.Action{admin.ActionClose, admin.ActionOpen} {
			if !seen[point{do, false}] {
				t.Errorf("it was not interrupted at %q, only at %v", do, seen)
			}
		}
		client := kit.Open(t, rehop.Config{URL: r.URL})
		kit.Subscribe(t, client, orders(func(s *rehop.Subscriber) {
			ordered(s)
			s.Handler, s.Concurrency, s.Retry = l, 8, rehop.Steps(100*time.Millisecond)
		}))
		l.audit(t, lost*256)
		t.Logf("interrupted at %v", seen)
	})
}

// A process that makes a queue an ordered one is killed with kill -9, and another one continues. The order is kept; what was under way may be handled twice.
func TestMigrateToOrderedKilled(t *testing.T) {
	t.Parallel()
	const keys, each = 6, 40
	at := map[admin.Action]int{admin.ActionMove: 20, admin.ActionClose: 0, admin.ActionReturnEarly: keys*each + 20, admin.ActionOpen: 0}
	if long() {
		for _, do := range []admin.Action{admin.ActionDivert, admin.ActionUnbind, admin.ActionEmpty, admin.ActionDelete, admin.ActionDeclare, admin.ActionRestore, admin.ActionReturn, admin.ActionClear} {
			at[do] = 0
		}
	}
	for do, moved := range at {
		t.Run(string(do), func(t *testing.T) {
			t.Parallel()
			lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
				s := newSite(t, r)
				s.apply(plan(t, orders(nil)))
				l := newLanes()
				l.publish(s, keys)
				l.await(t, "some messages before", l.allSent(keys, each))
				want := plan(t, orders(ordered))
				m, err := s.admin.PlanMigration(s.ctx, want, "orders", admin.MigrateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				step := slices.IndexFunc(m.Steps, func(step admin.Step) bool { return step.Action == do })
				if step < 0 {
					t.Fatalf("there is no step %q:\n%s", do, m)
				}
				s.die(deathPlan{Ordered: true, Step: step + 1, Moved: moved})
				s.finish(want)
				s.wantPlanned(want)
				client := kit.Open(t, rehop.Config{URL: r.URL})
				kit.Subscribe(t, client, orders(func(s *rehop.Subscriber) {
					ordered(s)
					s.Handler, s.Concurrency, s.Retry = l, 8, rehop.Steps(100*time.Millisecond)
				}))
				l.audit(t, 256)
			})
		})
	}
}

// Messages that wait for a retry when their queue becomes an ordered one come back when they are due, with their attempts, behind those that
// are there by then.
func TestMigrateToOrderedWithRetries(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		const wait = 3 * time.Second
		client := kit.Open(t, rehop.Config{URL: r.URL})
		failed := make(chan time.Time, 1)
		before := kit.Subscribe(t, client, orders(func(s *rehop.Subscriber) {
			s.Retry = rehop.Steps(wait, wait)
			s.Handler = rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				failed <- time.Now()
				return errors.New("not yet")
			})
		}))
		s.fill("order", "order.1", 0, 1)
		began := kit.Receive(t, failed, "the first attempt")
		kit.Drain(t, before)
		s.fill("order", "order.1", 1, 2)
		got := make(chan *rehop.Delivery, 10)
		want := func(s *rehop.Subscriber) {
			ordered(s)
			s.Retry, s.Handler = rehop.Steps(wait, wait), kit.Into(got)
		}
		s.migrate(plan(t, orders(want)), "orders", admin.MigrateOptions{})
		kit.Subscribe(t, client, orders(want))
		handled := make(map[string]int)
		for range 3 {
			d := kit.Receive(t, got, "all three messages")
			handled[d.ID] = d.Attempt
			if waited := time.Since(began); d.ID == id(0) && waited < wait {
				t.Errorf("the message that was to wait %v came after %v", wait, waited)
			}
		}
		for n, attempt := range []int{2, 1, 1} {
			if handled[id(n)] != attempt {
				t.Errorf("message %d: got attempt %d, want %d", n, handled[id(n)], attempt)
			}
		}
	})
}

// While new messages are refused, dead letters of other queues are not: nobody would publish them again.
func TestMigrateInOrderKeepsDeadLetters(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(nil)))
		kit.Queue(t, s.ch, "waits", amqp.Table{"x-queue-type": "classic", "x-message-ttl": int32(1), "x-dead-letter-exchange": "order", "x-dead-letter-routing-key": "order.1"})
		client := kit.Open(t, rehop.Config{URL: r.URL})
		ctx, stop := context.WithCancel(s.ctx)
		defer stop()
		published := make(chan int, 1)
		go func() {
			n := 0
			for ctx.Err() == nil {
				if err := client.Publish(s.ctx, rehop.Message{ID: id(n), Key: "waits"}); err != nil {
					t.Errorf("message %d: %v", n, err)
					break
				}
				n++
			}
			published <- n
		}()
		want := plan(t, orders(ordered))
		s.migrate(want, "orders", admin.MigrateOptions{})
		stop()
		n := kit.Receive(t, published, "the publisher's end")
		s.wantPlanned(want)
		kit.WantDepth(t, r, s.ch, "orders", n)
		wantAll(s, "orders", n)
		t.Logf("%d dead letters", n)
	})
}

// held subscribes to the ordered queue, has message 0 fail so that it waits for an hour, and ends.
func (s *site) held(client *rehop.Client, n int) {
	s.t.Helper()
	got := make(chan *rehop.Delivery, n)
	sub := kit.Subscribe(s.t, client, orders(func(s *rehop.Subscriber) {
		ordered(s)
		s.Retry = rehop.Steps(time.Hour)
		s.Handler = rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			got <- d
			return errors.New("not now")
		})
	}))
	s.fill("order", "order.1", 0, n)
	kit.Receive(s.t, got, "the message")
	s.wantHeld(n)
	kit.Stop(s.t, sub)
}

// wantHeld waits until as many messages wait in order.
func (s *site) wantHeld(n int) {
	s.t.Helper()
	await.True(s.t, kit.Limit, time.Second, fmt.Sprintf("%d messages wait in order", n), func() bool {
		ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
		defer cancel()
		_, total, err := s.admin.Held(ctx, "orders")
		if err != nil && !errors.Is(err, admin.ErrNoAnswer) {
			s.t.Fatal(err)
		}
		return total == n && err == nil
	})
}

// A queue that is to be handled in order no more keeps its held queue as long as messages wait there, and loses it with the migration. What the
// process that has handled it in order sent to itself is not handled as messages afterwards.
func TestMigrateFromOrdered(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		client := kit.Open(t, rehop.Config{URL: r.URL})
		s.held(client, 3)
		held, plain := layouts.HeldQueue("orders"), plan(t, orders(nil))
		inOrder := plan(t, orders(func(s *rehop.Subscriber) {
			ordered(s)
			s.Retry = rehop.Steps(time.Hour)
		}))
		for range 2 { // to look does not change anything
			_, err := s.admin.Migrate(s.ctx, plain, "orders", admin.MigrateOptions{Settle: settle})
			wantError(t, err, admin.ErrHeld, `queue "orders.held" has 3, and nobody would read them`)
			_, err = s.admin.PlanMigration(s.ctx, plain, "orders", admin.MigrateOptions{Settle: settle})
			wantError(t, err, admin.ErrHeld, held)
		}
		s.wantPlanned(inOrder)

		handled := make(chan *rehop.Delivery, 10)
		sub := kit.Subscribe(t, client, orders(func(s *rehop.Subscriber) {
			ordered(s)
			s.Retry, s.Handler = rehop.Steps(time.Hour), kit.Into(handled)
		}))
		if err := s.admin.Skip(s.ctx, "orders", id(0)); err != nil {
			t.Fatal(err)
		}
		for n := 1; n < 3; n++ {
			if d := kit.Receive(t, handled, "a message that waited"); d.ID != id(n) {
				t.Errorf("message %s was handled, want %d", d.ID, n)
			}
		}
		kit.Drain(t, sub)
		s.fill("order", "order.1", 3, 20)
		m := s.migrate(plain, "orders", admin.MigrateOptions{})
		if m.Steps[0].Action != admin.ActionDeleteHeld {
			t.Errorf("it begins with %q, want that the held queue is deleted", m.Steps[0])
		}
		s.apply(plain)
		s.wantPlanned(plain)
		live, err := s.admin.Live(s.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, left := live.Queue(held); left {
			t.Error("the held queue is left over")
		}
		wantOrder(s, "orders", 3, 20)
		if n, err := s.admin.Replay(s.ctx, "orders", admin.Options{}); err != nil || n.Done != 1 {
			t.Errorf("got %+v, %v, want that the failed message is replayed", n, err)
		}
		kit.WantDepth(t, r, s.ch, "orders", 1)
	})
}

// An ordered queue that a process handles is not migrated, even if consumers were to be ignored: the process keeps messages unacked. When
// it ends, the queue gets its other arguments, and what waits in the held queue stays there.
func TestMigrateOwned(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		client := kit.Open(t, rehop.Config{URL: r.URL})
		s.held(client, 2)
		limited := func(s *rehop.Subscriber) {
			ordered(s)
			s.Retry, s.MaxLength = rehop.Steps(time.Hour), 1_000_000
		}
		got := make(chan *rehop.Delivery, 100)
		sub := kit.Subscribe(t, client, orders(func(s *rehop.Subscriber) {
			ordered(s)
			s.Retry, s.Handler = rehop.Steps(time.Hour), kit.Into(got)
		}))
		s.wantHeld(2)
		want := plan(t, orders(limited))
		_, err := s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
		wantError(t, err, admin.ErrConsumers, "stop them first")
		_, err = s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle, Consumers: admin.IgnoreConsumers})
		wantError(t, err, nil, "lose their order")
		_, err = s.admin.Migrate(s.ctx, plan(t, orders(nil)), "orders", admin.MigrateOptions{Settle: settle, Consumers: admin.IgnoreConsumers})
		wantError(t, err, admin.ErrConsumers, "unacked")
		_, err = s.admin.Migrate(s.ctx, plan(t, orders(nil)), "orders", admin.MigrateOptions{Settle: settle})
		wantError(t, err, admin.ErrConsumers, "stop them first")

		waits := make(chan string, 10_000)
		ended := make(chan error, 1)
		go func() {
			_, err := s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle, Consumers: admin.AwaitConsumers,
				Progress: func(p admin.MigrationProgress) {
					if p.Waiting != "" {
						waits <- p.Waiting
					}
				}})
			ended <- err
		}()
		if got := kit.Receive(t, waits, "it waits"); !strings.Contains(got, "1 consumers") {
			t.Errorf("it waits for %q, want for the consumer", got)
		}
		kit.Stop(t, sub)
		if err := kit.Receive(t, ended, "the migration"); err != nil {
			t.Fatal(err)
		}
		s.apply(want)
		s.wantPlanned(want)
		s.fill("order", "order.2", 2, 3)
		kit.Subscribe(t, client, orders(func(s *rehop.Subscriber) {
			limited(s)
			s.Handler = kit.Into(got)
		}))
		var handled []string
		for range 3 {
			handled = append(handled, kit.Receive(t, got, "a message of another key").ID)
		}
		if !slices.Equal(handled, []string{"2", "3", "4"}) {
			t.Errorf("handled %q, want 2 to 4", handled)
		}
		s.wantHeld(2)
	})
}

// The number of partitions cannot be changed: messages of a key would be in two queues.
func TestMigrateRefusesPartitions(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		of := func(partitions int) topology.Plan {
			return plan(t, orders(func(s *rehop.Subscriber) { s.OrderBy, s.Partitions = rehop.OrderKey, partitions }))
		}
		s.apply(of(2))
		for _, other := range []int{1, 4} {
			_, err := s.admin.Migrate(s.ctx, of(other), "orders", admin.MigrateOptions{Settle: settle})
			wantError(t, err, nil, "number of partitions")
		}
		s.wantPlanned(of(2))
	})
}

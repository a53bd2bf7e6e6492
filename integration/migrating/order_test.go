package migrating

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// With KeepOrder what is published meanwhile stays behind what was there before, and in order.
func TestMigrateKeepsOrder(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(classic)))
		const before = 600
		s.fill("order", "order.1", 0, before)
		client := kit.Open(t, rehop.Config{URL: r.URL})
		// A few may be published each time the migration shows that it has come a bit further: however slow it is, they are not ahead of it.
		const few = 8
		turns := make(chan struct{}, few)
		published := make(chan int, 1)
		go func() {
			n := before
			for range turns {
				if client.Publish(s.ctx, rehop.Message{ID: id(n), Exchange: "order", Key: "order.1"}) == nil {
					n++
				}
			}
			published <- n
		}()
		want := plan(t, orders(nil))
		s.migrate(want, "orders", admin.MigrateOptions{KeepOrder: true, Progress: func(admin.MigrationProgress) {
			for range few - len(turns) {
				turns <- struct{}{}
			}
		}})
		close(turns)
		n := <-published
		s.wantPlanned(want)
		got := s.takeAll("orders")
		if len(got) != n {
			t.Fatalf("got %d messages, want %d", len(got), n)
		}
		for i, d := range got {
			if d.MessageId != id(i) {
				t.Fatalf("got message %s at place %d of %d", d.MessageId, i, n)
			}
		}
	})
}

// Run with the plan of the queue as it was, a migration goes back.
func TestMigrateBack(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		old := plan(t, orders(classic))
		s.apply(old)
		s.fill("order", "order.1", 0, 100)
		b := s.publishing(40 * time.Millisecond)
		b.add(0, 100)
		for _, at := range []int{4, 9, 10} {
			s.cancelAt(plan(t, orders(nil)), at, make(map[admin.Action]bool))
			s.migrate(old, "orders", admin.MigrateOptions{})
			s.wantPlanned(old)
		}
		b.audit(s, "orders", 0)
	})
}

// What a migration will do can be read before, and is what it does.
func TestPlanMigration(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, rehop.Subscriber{Queue: "q", QueueType: "classic"}))
		if err := s.ch.ExchangeDeclare("h", "headers", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.ch.QueueBind("q", "k", "h", false, amqp.Table{"x-match": "all", "n": int32(5)}); err != nil {
			t.Fatal(err)
		}
		want := plan(t, rehop.Subscriber{Queue: "q"})
		m, err := s.admin.PlanMigration(s.ctx, want, "q", admin.MigrateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		const text = `queue "q": x-dead-letter-strategy is none, planned is "at-least-once"
queue "q": x-delivery-limit is none, planned is 50
queue "q": x-overflow is none, planned is "reject-publish"
queue "q": x-queue-type is "classic", planned is "quorum"
 1. declare queue "rehop.migrating.q", which keeps messages, and exchange "rehop.migrating.q", which routes to queue "q"
 2. add the binding of exchange "h" to exchange "rehop.migrating.q" with key "k" and n = 5, x-match = "all"
 3. add the binding of exchange "rehop.return" to exchange "rehop.migrating.q" with key "q"
 4. remove the binding of exchange "h" to queue "q" with key "k" and n = 5, x-match = "all"
 5. remove the binding of exchange "rehop.return" to queue "q" with key "q"
 6. move the messages of queue "q" to queue "rehop.migrating.q"
 7. switch exchange "rehop.migrating.q" to queue "rehop.migrating.q" instead of "q"
 8. move the remaining messages of queue "q" to queue "rehop.migrating.q", until none has arrived for 12s and none is unacked
 9. delete queue "q"
10. declare queue "q" with x-dead-letter-exchange "rehop.return", x-dead-letter-routing-key "q.failed", x-dead-letter-strategy "at-least-once", x-delivery-limit 50, x-overflow "reject-publish", x-queue-type "quorum"
11. switch exchange "rehop.migrating.q" to queue "q" again
12. declare exchange "rehop.back.q", which routes to queue "q"
13. add the binding of exchange "h" to queue "q" with key "k" and n = 5, x-match = "all"
14. add the binding of exchange "rehop.return" to queue "q" with key "q"
15. remove the binding of exchange "h" to exchange "rehop.migrating.q" with key "k" and n = 5, x-match = "all"
16. remove the binding of exchange "rehop.return" to exchange "rehop.migrating.q" with key "q"
17. move the messages of queue "rehop.migrating.q" back to queue "q"
18. delete queue "rehop.migrating.q" and the exchanges of the migration
`
		if got := sortedSteps(m.String()); got != sortedSteps(text) {
			t.Errorf("got\n%swant\n%s", m, text)
		}
		var done []string
		s.migrate(want, "q", admin.MigrateOptions{Progress: func(p admin.MigrationProgress) {
			if p.Steps != len(m.Steps) {
				t.Errorf("step %d of %d, want of %d", p.Step, p.Steps, len(m.Steps))
			}
			if done = append(done, p.Now.Text); p.Moved > 0 {
				t.Errorf("%d messages were moved, and there are none", p.Moved)
			}
		}})
		if done = slices.Compact(done); len(done) != len(m.Steps) {
			t.Errorf("it did %q, want %s", done, m)
		}
		live, err := s.admin.Live(s.ctx)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, b := range live.Bindings {
			found = found || b.Source == "h" && b.Destination == "q" && b.Key == "k" && len(b.Args) == 2
		}
		if !found {
			t.Errorf("the binding with arguments has not come back: %+v", live.Bindings)
		}
		empty, err := s.admin.PlanMigration(s.ctx, want, "q", admin.MigrateOptions{})
		if err != nil || empty.String() != "nothing to do\n" {
			t.Errorf("afterwards: got %q, %v, want nothing to do", empty, err)
		}
	})
}

// A binding that somebody adds while the queue is replaced is kept, too.
func TestMigrateKeepsNewBindings(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(classic)))
		bound := make(map[admin.Action]bool)
		s.migrate(plan(t, orders(nil)), "orders", admin.MigrateOptions{Progress: func(p admin.MigrationProgress) {
			do := p.Now.Action
			if bound[do] || do != admin.ActionDivert && do != admin.ActionEmpty && do != admin.ActionRestore {
				return
			}
			bound[do] = true
			if err := s.ch.QueueBind("orders", "new."+string(do), "order", false, nil); err != nil {
				t.Error(err)
			}
		}})
		keys := map[string]string{"order.#": "order", "*.paid": "order", "orders": "rehop.return",
			"new.divert": "order", "new.empty": "order", "new.restore": "order"}
		live, err := s.admin.Live(s.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range live.Bindings {
			if b.Destination == "orders" && keys[b.Key] == b.Source {
				delete(keys, b.Key)
			}
		}
		if len(keys) > 0 {
			t.Errorf("bindings that are not there: %v", keys)
		}
	})
}

// sortedSteps is a text in which the order of bindings, which brokers list as they like, does not count.
func sortedSteps(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if _, step, ok := strings.Cut(line, ". "); ok {
			line = step
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// If the new queue can never accept a message, it is kept, and the error names it.
func TestMigrateKeepsWhatCannotBeMoved(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(classic)))
		s.fill("order", "order.1", 0, 10)
		want := plan(t, orders(nil))
		deleted := false
		_, err := s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle, Progress: func(p admin.MigrationProgress) {
			if p.Now.Action == admin.ActionReturn && !deleted {
				deleted = true
				kit.DeleteQueue(t, s.ch, "orders") // an accident
			}
		}})
		if !errors.Is(err, rehop.ErrUnroutable) || !strings.Contains(err.Error(), `message 0 of queue "rehop.migrating.orders", which stays there`) {
			t.Errorf("got %v, want that message 0 stays where it is", err)
		}
		s.migrate(want, "orders", admin.MigrateOptions{})
		s.apply(want)
		s.wantPlanned(want)
		wantOrder(s, "orders", 0, 10)
	})
}

// On a cluster an exchange may route a message on any node.
func TestMigrateOnCluster(t *testing.T) {
	t.Parallel()
	r := lab.Cluster(t)
	s := newSite(t, r)
	s.apply(plan(t, orders(classic)))
	s.fill("order", "order.1", 0, 300)
	var all []*books
	for i, url := range r.URLs {
		all = append(all, s.publishingTo(url, 1_000_000*(i+1), 10*time.Millisecond))
	}
	for _, b := range all {
		after(t, b, 50)
	}
	want := plan(t, orders(nil))
	s.migrate(want, "orders", admin.MigrateOptions{})
	sum := all[0]
	sum.add(0, 300)
	for _, b := range all {
		after(t, b, 50)
	}
	for _, b := range all {
		b.end()
		if b != sum {
			sum.merge(b)
		}
	}
	s.wantPlanned(want)
	sum.audit(s, "orders", 0)
}

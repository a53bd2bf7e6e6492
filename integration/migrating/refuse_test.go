package migrating

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/layout"
)

// wantError checks that an error is of a kind, if one is given, and contains a text.
func wantError(t *testing.T, err, kind error, text string) {
	t.Helper()
	if err == nil || kind != nil && !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("got error %v, want one that is %v and says %q", err, kind, text)
	}
}

func TestMigrateWithConsumers(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(classic)))
		want := plan(t, orders(nil))
		ch := r.Channel()
		deliveries, err := ch.Consume("orders", "one", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.fill("order", "order.1", 0, 1)
		d := kit.Receive(t, deliveries, "the message")
		_, err = s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
		wantError(t, err, admin.ErrConsumers, "1")

		// Waiting for them: it continues when the consumer has gone.
		waits := make(chan string, 10_000)
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		go func() {
			_, err := s.admin.Migrate(ctx, want, "orders", admin.MigrateOptions{Consumers: admin.AwaitConsumers, Settle: settle,
				Progress: func(p admin.MigrationProgress) {
					if p.Waiting != "" {
						waits <- p.Waiting
					}
				}})
			ended <- err
		}()
		if got := kit.Receive(t, waits, "it waits"); !strings.Contains(got, "1 consumers") {
			t.Errorf("it waits for %q", got)
		}
		// A message that is held by who does not consume any more would be deleted with the queue.
		if err := ch.Cancel("one", false); err != nil {
			t.Fatal(err)
		}
		for !strings.Contains(kit.Receive(t, waits, "it waits for the message"), "messages") {
		}
		cancel()
		wantError(t, kit.Receive(t, ended, "the end"), context.Canceled, "hold")
		if err := d.Nack(false, true); err != nil {
			t.Fatal(err)
		}
		s.migrate(want, "orders", admin.MigrateOptions{})
		s.wantPlanned(want)
		wantOrder(s, "orders", 0, 1)
	})
}

// Consumers that are ignored share in emptying the queue, and are canceled when it is deleted.
func TestMigrateIgnoringConsumers(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(classic)))
		want := plan(t, orders(nil))
		ch := r.Channel()
		canceled := ch.NotifyCancel(make(chan string, 1))
		deliveries, err := ch.Consume("orders", "one", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for d := range deliveries {
				_ = d.Ack(false)
			}
		}()
		s.migrate(want, "orders", admin.MigrateOptions{Consumers: admin.IgnoreConsumers})
		if tag := kit.Receive(t, canceled, "the consumer is canceled"); tag != "one" {
			t.Errorf("canceled is %q", tag)
		}
		s.wantPlanned(want)
	})
}

// A new queue that is full takes no more until there is room; nothing is lost meanwhile, nor when the migration is given up.
func TestMigrateToFullQueue(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(classic)))
		s.fill("order", "order.1", 0, 100)
		want := plan(t, orders(func(s *rehop.Subscriber) { s.QueueType, s.MaxLength, s.Overflow = layout.Classic, 10, "drop-head" }))
		_, err := s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
		wantError(t, err, nil, "it holds 100 messages and is to hold 10")

		want = plan(t, orders(func(s *rehop.Subscriber) {
			s.QueueType, s.MaxLength, s.Overflow = layout.Classic, 10, "reject-publish"
		}))
		ctx, cancel := context.WithCancel(s.ctx)
		_, err = s.admin.Migrate(ctx, want, "orders", admin.MigrateOptions{Settle: settle, Progress: func(p admin.MigrationProgress) {
			if strings.Contains(p.Waiting, "to accept messages") {
				cancel()
			}
		}})
		wantError(t, err, context.Canceled, "negative confirm")
		seen := make(map[string]int)
		for _, d := range s.takeAll("orders") {
			seen[d.MessageId]++
		}
		if len(seen) != 10 {
			t.Errorf("the full queue has %d messages, want 10", len(seen))
		}
		ended := make(chan error, 1)
		go func() {
			_, err := s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
			ended <- err
		}()
		ch := r.Channel()
		deliveries, err := ch.Consume("orders", "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 90 {
			d := kit.Receive(t, deliveries, "what was kept")
			seen[d.MessageId]++
			if err := d.Ack(false); err != nil {
				t.Fatal(err)
			}
		}
		if err := kit.Receive(t, ended, "the end"); err != nil {
			t.Error(err)
		}
		for i := range 100 {
			if seen[id(i)] != 1 {
				t.Errorf("message %d was there %d times, want once", i, seen[id(i)])
			}
		}
	})
}

// A user who lacks a permission gets to know which, and nothing is lost wherever that happens.
func TestMigrateWithoutPermission(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(classic)))
		s.fill("order", "order.1", 0, 50)
		want := plan(t, orders(nil))
		user := "u" + r.Vhost
		r.API("PUT", "/api/users/"+user, map[string]string{"password": "p", "tags": "management"}, nil)
		t.Cleanup(func() { r.API("DELETE", "/api/users/"+user, nil, nil) })
		grant := func(configure, write, read string) {
			r.API("PUT", "/api/permissions/"+r.Vhost+"/"+user, map[string]string{"configure": configure, "write": write, "read": read}, nil)
		}
		as := func(url string) string { return strings.Replace(url, "guest:guest@", user+":p@", 1) }
		for _, c := range []struct{ name, configure, write, read string }{
			{"nothing may be declared", "^$", ".*", ".*"},
			{"the exchange may not be read", ".*", ".*", "^(orders|rehop.*)$"},
			{"the exchange that leads aside may not be written", ".*", "^(orders|rehop\\.migrating.*)$", ".*"},
			{"the queue may not be deleted", "^rehop\\..*", ".*", ".*"},
			{"the exchange that leads back may not be written", ".*", "^(orders|rehop\\.(migrating|aside).*)$", ".*"},
		} {
			grant(c.configure, c.write, c.read)
			a := s.openAdmin(as(r.URL), as(r.Management()))
			_, err := a.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), "refused") {
				t.Errorf("%s: got %v, want that access is refused", c.name, err)
			}
		}
		grant(".*", ".*", ".*")
		a := s.openAdmin(as(r.URL), as(r.Management()))
		if _, err := a.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle}); err != nil {
			t.Fatal(err)
		}
		s.wantPlanned(want)
		wantOrder(s, "orders", 0, 50)
	})
}

// What comes by the queue's name is moved, too, and the queue is not deleted before Settle is over. (That each message makes it begin anew is tested in
// virtual time, in package admin.)
func TestMigrateMovesWhatComesByName(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(nil)))
		want := plan(t, orders(classic))
		ch := r.Channel()
		publish := func(n int) {
			err := ch.PublishWithContext(s.ctx, "", "orders", true, false, amqp.Publishing{MessageId: id(n), Body: []byte(id(n)), Headers: amqp.Table{"n": int64(n)}})
			if err != nil {
				t.Error(err)
			}
		}
		const all = 20
		published := 0
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		_, err := s.admin.Migrate(ctx, want, "orders", admin.MigrateOptions{Settle: time.Hour, Progress: func(p admin.MigrationProgress) {
			switch {
			case p.Now.Action == admin.ActionDelete:
				t.Errorf("the queue is deleted while messages come by its name")
			case p.Now.Action != admin.ActionEmpty || p.Moved < published:
			case published == all:
				cancel()
			default: // one after the other has been moved
				publish(published)
				published++
			}
		}})
		wantError(t, err, context.Canceled, "until none has arrived")
		s.migrate(want, "orders", admin.MigrateOptions{})
		wantOrder(s, "orders", 0, all)
	})
}

func TestMigrateIsLocked(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(classic)))
		want := plan(t, orders(nil))
		other := s.openAdmin(r.URL, r.Management())
		tried := make(chan error, 1)
		s.migrate(want, "orders", admin.MigrateOptions{Progress: func(p admin.MigrationProgress) {
			if p.Step == 5 && len(tried) == 0 {
				_, err := other.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
				tried <- err
			}
		}})
		wantError(t, <-tried, nil, "it is being migrated")
		s.wantPlanned(want)
	})
}

func TestMigrateBadInput(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		p := plan(t, orders(classic), rehop.Subscriber{Queue: "gone"}, rehop.Subscriber{Queue: "foreign", ExistingQueue: true},
			rehop.Subscriber{Queue: "mine", Exclusive: true})
		for queue, says := range map[string]string{
			"nowhere": "the plan has no such queue", "foreign": "another application", "mine": "temporary queue", "gone": "no such queue",
		} {
			_, err := s.admin.Migrate(s.ctx, p, queue, admin.MigrateOptions{})
			wantError(t, err, nil, says)
		}
		_, err := s.admin.Migrate(s.ctx, p, "gone", admin.MigrateOptions{Consumers: "shoot"})
		wantError(t, err, nil, "shoot")
		plain, err := admin.Open(s.ctx, admin.Config{URL: r.URL})
		if err != nil {
			t.Fatal(err)
		}
		defer plain.Close()
		_, err = plain.Migrate(s.ctx, p, "orders", admin.MigrateOptions{})
		wantError(t, err, admin.ErrNoManagement, "its address is not set")
		kit.Queue(t, s.ch, "gone", amqp.Table{"x-dead-letter-exchange": "old"})
		astray := plan(t, rehop.Subscriber{Queue: "gone", QueueArgs: map[string]any{"x-dead-letter-exchange": "elsewhere"}})
		_, err = s.admin.Migrate(s.ctx, astray, "gone", admin.MigrateOptions{})
		wantError(t, err, nil, `exchange "elsewhere", which does not exist`)
	})
}

package migrating

import (
	"errors"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// hashes are how a broker identifies the bindings of exchange h to a queue: by a hash of their arguments with the types.
func hashes(r *lab.Rabbit, queue string) []string {
	var found []struct {
		Properties string `json:"properties_key"`
	}
	r.API("GET", "/api/bindings/"+r.Vhost+"/e/h/q/"+queue, nil, &found)
	var all []string
	for _, f := range found {
		all = append(all, f.Properties)
	}
	slices.Sort(all)
	return all
}

// Bindings come back with the very arguments that they had, of which the management API does not show the types: a void one, by which a headers exchange
// asks whether a header is there, and numbers of all kinds.
func TestMigrateKeepsTypesOfArguments(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(classic)))
		if err := s.ch.ExchangeDeclare("h", "headers", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		for _, args := range []amqp.Table{
			{"x-match": "all", "present": nil},
			{"x-match": "all", "present": "undefined"}, // which the API shows alike
			{"x-match": "any", "a": nil, "b": int32(5), "c": "undefined"},
			{"x-match": "all", "a": int64(5)}, {"x-match": "all", "a2": int32(5)}, {"x-match": "all", "a3": int16(5)}, {"x-match": "all", "a4": uint8(5)},
			{"x-match": "all", "f": 5.5}, {"x-match": "all", "f2": float32(0.5)}, {"x-match": "all", "f3": 5.0},
			{"x-match": "all", "t": time.Unix(1700000000, 0)}, {"x-match": "all", "y": true, "x": []byte("x")},
			{"x-match": "all", "i1": int32(1), "i2": int32(2), "i3": int32(3), "i4": int32(4)}, // as other clients write all their numbers
			{"x-match": "all", "list": []any{int32(1), nil}}, {"x-match": "all", "table": amqp.Table{"in": nil}},
		} {
			if err := s.ch.QueueBind("orders", "k", "h", false, args); err != nil {
				t.Fatal(err)
			}
		}
		before := hashes(r, "orders")
		want := plan(t, orders(nil))
		s.migrate(want, "orders", admin.MigrateOptions{})
		if after := hashes(r, "orders"); !slices.Equal(after, before) {
			t.Errorf("got bindings %q, want %q", after, before)
		}
		s.wantNothingTried()
		// What the void argument is for.
		if err := s.ch.PublishWithContext(s.ctx, "h", "", true, false, amqp.Publishing{Headers: amqp.Table{"present": "anything"}}); err != nil {
			t.Fatal(err)
		}
		kit.WantDepth(t, r, s.ch, "orders", 1)
	})
}

// A binding whose arguments cannot be declared again is refused before anything is changed.
func TestMigrateRefusesUnknownTypes(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		old := plan(t, orders(classic))
		s.apply(old)
		if err := s.ch.ExchangeDeclare("h", "headers", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.ch.QueueBind("orders", "k", "h", false, amqp.Table{"price": amqp.Decimal{Scale: 2, Value: 995}}); err != nil {
			t.Fatal(err)
		}
		before := hashes(r, "orders")
		for _, try := range []func() error{
			func() error {
				_, err := s.admin.PlanMigration(s.ctx, plan(t, orders(nil)), "orders", admin.MigrateOptions{})
				return err
			},
			func() error {
				_, err := s.admin.Migrate(s.ctx, plan(t, orders(nil)), "orders", admin.MigrateOptions{})
				return err
			},
			func() error { return s.admin.Watch(s.ctx, admin.WatchOptions{Queue: "orders"}, nil) },
		} {
			wantError(t, try(), nil, "does not show the types of its arguments")
		}
		if after := hashes(r, "orders"); !slices.Equal(after, before) {
			t.Errorf("got bindings %q, want %q", after, before)
		}
	})
}

// A watcher of a headers exchange sees what the queues with a void argument get.
func TestWatchVoidArgument(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		if err := s.ch.ExchangeDeclare("h", "headers", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		kit.Queue(t, s.ch, "q", nil)
		if err := s.ch.QueueBind("q", "", "h", false, amqp.Table{"x-match": "all", "present": nil}); err != nil {
			t.Fatal(err)
		}
		enough := errors.New("enough")
		err := s.admin.Watch(s.ctx, admin.WatchOptions{Exchange: "h", Began: func() {
			if err := s.ch.PublishWithContext(s.ctx, "h", "", true, false, amqp.Publishing{MessageId: "m", Headers: amqp.Table{"present": "anything"}}); err != nil {
				t.Error(err)
			}
		}}, func(m admin.Message) error {
			if m.ID != "m" {
				t.Errorf("got message %q, want m", m.ID)
			}
			return enough
		})
		if !errors.Is(err, enough) {
			t.Errorf("got %v, want what ends the watch", err)
		}
	})
}

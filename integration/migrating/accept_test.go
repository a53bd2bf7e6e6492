package migrating

import (
	"strings"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/topology"
)

// A broker that refuses the wanted arguments is found out before anything is changed, by a dry run, too.
func TestMigrateToRefusedArguments(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		old := plan(t, orders(classic))
		s.apply(old)
		s.fill("order", "order.1", 0, 20)
		for _, c := range []struct {
			argument string
			value    any
		}{
			{"x-quorum-initial-group-size", int64(0)}, {"x-max-priority", int64(5)}, {"x-expires", int64(0)}, {"x-overflow", "sometimes"}, {"x-message-ttl", int64(-1)},
		} {
			want := plan(t, orders(func(s *rehop.Subscriber) { s.QueueArgs = map[string]any{c.argument: c.value} }))
			_, err := s.admin.PlanMigration(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
			wantError(t, err, nil, "nothing has been changed")
			wantError(t, err, nil, c.argument)
			_, err = s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
			wantError(t, err, nil, "nothing has been changed")
			if err != nil && strings.Contains(err.Error(), "rehop.try.") {
				t.Errorf("%s: the error names a queue that nobody knows: %v", c.argument, err)
			}
			s.wantUntouched(old)
		}
		wantOrder(s, "orders", 0, 20)
	})
}

// wantUntouched checks that the broker is as planned, and that nothing is left of what was tried.
func (s *site) wantUntouched(p topology.Plan) {
	s.t.Helper()
	s.wantPlanned(p)
	s.wantNothingTried()
}

func (s *site) wantNothingTried() {
	s.t.Helper()
	live, err := s.admin.Live(s.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, q := range live.Queues {
		if strings.HasPrefix(q.Name, "rehop.try.") {
			s.t.Errorf("queue %q is left over", q.Name)
		}
	}
	for _, x := range live.Exchanges {
		if strings.HasPrefix(x.Name, "rehop.try.") {
			s.t.Errorf("exchange %q is left over", x.Name)
		}
	}
}

// A virtual host that takes no more queues refuses the new one: before anything is changed if it does so by then, and otherwise with the broker's
// own words, and with the messages kept, instead of trying without end.
func TestMigrateAtQueueLimit(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	s := newSite(t, r)
	old, want := plan(t, orders(classic)), plan(t, orders(nil))
	s.apply(old)
	s.fill("order", "order.1", 0, 20)
	limit := func(n int) {
		t.Helper()
		r.API("PUT", "/api/vhost-limits/"+r.Vhost+"/max-queues", map[string]int{"value": n}, nil)
	}
	limit(len(old.Queues))
	_, err := s.admin.PlanMigration(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
	wantError(t, err, nil, "queue limit")
	limit(len(old.Queues) + 1) // enough for the lock, and not for more
	_, err = s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
	wantError(t, err, nil, "queue limit")
	s.wantUntouched(old)

	// The limit is lowered while the queue is gone.
	limit(len(old.Queues) + 10)
	_, err = s.admin.Migrate(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle, Progress: func(p admin.MigrationProgress) {
		if p.Now.Action == admin.ActionDeclare {
			limit(1)
		}
	}})
	wantError(t, err, nil, "queue limit")
	wantError(t, err, nil, "its messages are kept meanwhile")
	limit(-1)
	s.migrate(want, "orders", admin.MigrateOptions{})
	s.wantUntouched(want)
	wantOrder(s, "orders", 0, 20)
}

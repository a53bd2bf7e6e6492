package migrating

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/topology"
)

// long: the runs with many kills, which make faults does.
func long() bool { return os.Getenv("REHOP_FAULTS") == "long" }

// A migration that is canceled at any step continues when it is run again; publishers publish all the time. What was under way when it
// was canceled is waited for, so no message is there twice.
func TestMigrateCanceledAtEachStep(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		there, back := plan(t, orders(nil)), plan(t, orders(classic))
		s.apply(back)
		s.fill("order", "order.1", 0, 200)
		b := s.publishing(40 * time.Millisecond)
		b.add(0, 200)
		all, err := s.admin.PlanMigration(s.ctx, there, "orders", admin.MigrateOptions{Settle: settle})
		if err != nil {
			t.Fatal(err)
		}
		stride := 1
		if !long() {
			stride = 5
		}
		seen := make(map[admin.Action]bool)
		for at := 0; at < len(all.Steps); at += stride {
			s.cancelAt(there, at, seen)
			if m := s.migrate(there, "orders", admin.MigrateOptions{}); !m.Resumed && at > 0 {
				t.Errorf("canceled at step %d, the next run does not say that it goes on", at+1)
			}
			there, back = back, there
		}
		t.Logf("canceled at %v", seen)
		s.wantPlanned(back)
		b.audit(s, "orders", 0)
	})
}

// cancelAt runs a migration that is canceled when it begins a step, by number from 0.
func (s *site) cancelAt(p topology.Plan, step int, seen map[admin.Action]bool) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	_, err := s.admin.Migrate(ctx, p, "orders", admin.MigrateOptions{Settle: settle, Progress: func(p admin.MigrationProgress) {
		if p.Step == step+1 {
			seen[p.Now.Action] = true
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		s.t.Fatalf("canceled at step %d: got %v, want context.Canceled", step+1, err)
	}
	for _, text := range []string{fmt.Sprintf("canceled at step %d of ", step+1), "run it again to continue"} {
		wantError(s.t, err, nil, text)
	}
	if strings.Contains(err.Error(), "not connected") {
		s.t.Errorf("canceled at step %d, it blames the connection: %v", step+1, err)
	}
}

// cancelQueueAt runs a migration of any queue that is canceled when it first begins an action.
func (s *site) cancelQueueAt(p topology.Plan, queue string, at admin.Action) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	_, err := s.admin.Migrate(ctx, p, queue, admin.MigrateOptions{Settle: settle, Progress: func(p admin.MigrationProgress) {
		if p.Now.Action == at {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		s.t.Fatalf("canceled at %s: got %v, want context.Canceled", at, err)
	}
}

// Applying a plan in the middle of a migration would bind the queue again, in addition to the diverted bindings: it is refused.
func TestApplyWhileMigrating(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		want := plan(t, orders(nil))
		s.apply(plan(t, orders(classic)))
		s.fill("order", "order.1", 0, 10)
		all, err := s.admin.PlanMigration(s.ctx, want, "orders", admin.MigrateOptions{Settle: settle})
		if err != nil {
			t.Fatal(err)
		}
		for at, step := range all.Steps {
			if step.Action != admin.ActionEmpty {
				continue
			}
			s.cancelAt(want, at, make(map[admin.Action]bool))
			for _, dry := range []bool{true, false} {
				_, err := s.admin.Apply(s.ctx, want, admin.ApplyOptions{DryRun: dry})
				wantError(t, err, nil, `queue "orders" is being migrated`)
			}
			s.migrate(want, "orders", admin.MigrateOptions{})
			s.apply(want)
			s.wantPlanned(want)
			return
		}
		t.Fatalf("no step empties the queue: %v", all)
	})
}

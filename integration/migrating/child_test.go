package migrating

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/topology"
)

// migratorRole is the variable by which this test binary knows that it is to migrate a queue, and to die on the way.
const migratorRole = "REHOP_MIGRATING_ORDERS"

// deathPlan is the instructions of the process.
type deathPlan struct {
	URL, Management string
	Classic         bool // what the queue is to be; else quorum
	Ordered         bool // it is to be an ordered one
	Step            int  // at which step it dies, from 1; 0: at none
	Moved           int  // soon after how many messages were moved it dies; 0: at the beginning of the step
}

// beMigrator is the main function of the process that migrates.
func beMigrator(text string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "migrator:", err)
		return 1
	}
	var d deathPlan
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return fail(err)
	}
	ctx := context.Background()
	a, err := admin.Open(ctx, admin.Config{URL: d.URL, Management: d.Management})
	if err != nil {
		return fail(err)
	}
	subscription := orders(nil)
	switch {
	case d.Classic:
		subscription = orders(classic)
	case d.Ordered:
		subscription = orders(ordered)
	}
	p, err := rehop.Topology(rehop.Config{}, subscription)
	if err != nil {
		return fail(err)
	}
	die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	_, err = a.Migrate(ctx, p, "orders", admin.MigrateOptions{Settle: settle, Progress: func(p admin.MigrationProgress) {
		switch {
		case p.Step != d.Step || p.Moved < d.Moved:
		case d.Moved == 0:
			die()
		default: // somewhere between two messages
			time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, die)
		}
	}})
	if err != nil {
		return fail(err)
	}
	return fail(fmt.Errorf("it was to die at step %d with %d messages moved, and came to its end", d.Step, d.Moved))
}

// die runs a process that migrates the queue and is killed on the way.
func (s *site) die(d deathPlan) {
	s.t.Helper()
	d.URL, d.Management = s.rabbit.URL, s.rabbit.Management()
	text, err := json.Marshal(d)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.ctx, os.Args[0])
	cmd.Env = append(os.Environ(), migratorRole+"="+string(text))
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		s.t.Fatalf("the process was to be killed at step %d with %d messages moved: %v\n%s", d.Step, d.Moved, err, out)
	}
}

// A process that dies at any step, and while messages are under way, leaves nothing behind that the next one cannot take up; publishers
// publish all the time. Only what was under way may be there twice.
func TestMigrateKilled(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(classic)))
		const before = 600
		s.fill("order", "order.1", 0, before)
		b := s.publishing(40 * time.Millisecond)
		b.add(0, before)
		toClassic, underWay, kills := false, 0, 0
		kill := func(step, moved int) {
			t.Helper()
			want := plan(t, orders(nil))
			if toClassic {
				want = plan(t, orders(classic))
			}
			s.die(deathPlan{Classic: toClassic, Step: step, Moved: moved})
			kills++
			if moved > 0 {
				underWay++
			}
			s.finish(want)
			toClassic = !toClassic
		}
		all, err := s.admin.PlanMigration(s.ctx, plan(t, orders(nil)), "orders", admin.MigrateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		rounds := 1
		if long() {
			rounds = 15
		}
		for i, step := range all.Steps {
			switch step.Action {
			case admin.ActionMove:
				for n := range rounds {
					kill(i+1, 1+n*40)
				}
			case admin.ActionReturn:
				for n := range rounds {
					kill(i+1, before+n*40)
				}
			case admin.ActionDeclare, admin.ActionOpen:
				kill(i+1, 0)
			default:
				if long() {
					kill(i+1, 0)
				}
			}
		}
		t.Logf("%d processes were killed, %d of them with messages under way", kills, underWay)
		b.audit(s, "orders", underWay*256)
	})
}

// finish migrates what another process has begun. The broker needs a moment to see that it is gone.
func (s *site) finish(p topology.Plan) {
	s.t.Helper()
	lab.Eventually(s.t, kit.Limit, "the lock of a dead process is gone", func() bool {
		m, err := s.admin.Migrate(s.ctx, p, "orders", admin.MigrateOptions{Settle: settle})
		switch {
		case err == nil && len(m.Steps) > 0:
			return true
		case err == nil:
			s.t.Fatal("nothing was left to do")
		case !strings.Contains(err.Error(), "being migrated"):
			s.t.Fatal(err)
		}
		return false
	})
}

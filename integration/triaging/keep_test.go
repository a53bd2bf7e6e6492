package triaging

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

var (
	keepMessages = flag.Int("keep-messages", 1500, "how many messages are moved into the store and back")
	keepRounds   = flag.Int("keep-rounds", 1, "how often each fault happens meanwhile")
)

// Messages are moved into the store and back while the process that does it is killed, and the broker, and the database. Whenever it is looked, every
// message is in its failed queue or in the store.
func TestKeep(t *testing.T) {
	t.Parallel()
	d := lab.PostgresAlone(t).Postgres(t)
	testKeep(t, d, strike{"the database is killed", bothWays, func(t *testing.T, k *keeping) {
		s := k.working(t)
		if err := d.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := d.Start(); err != nil {
			t.Fatal(err)
		}
		s.kill()
	}})
}

// keeping is messages that are moved into the store and back.
type keeping struct {
	ctx      context.Context
	rabbit   *lab.Rabbit
	database *lab.Database
	store    *triage.Store
	service  *triage.Service // which only sweeps
	all      []string        // the ids
	run      triage.Run
}

// strike is something that breaks while a process works on the run, and is repaired. The process is killed in the end.
type strike struct {
	what  string
	while []triage.Action
	do    func(t *testing.T, k *keeping)
}

// bothWays are into the store and back.
var bothWays = []triage.Action{triage.ActionKeep, triage.ActionRestore}

func testKeep(t *testing.T, d *lab.Database, ofDatabase strike) {
	k := newKeeping(t, d)
	strikes := []strike{
		{"the process is killed", bothWays, func(t *testing.T, k *keeping) { k.working(t).kill() }},
		{"the broker is killed", bothWays, func(t *testing.T, k *keeping) {
			s := k.working(t)
			for _, command := range []string{"kill", "start"} {
				if err := k.rabbit.TryServices(command, k.rabbit.Nodes()[0]); err != nil {
					t.Fatal(err)
				}
			}
			s.kill()
		}},
		ofDatabase,
	}
	strikesDone := 0
	for range *keepRounds {
		for _, one := range strikes {
			for happened := make(map[triage.Action]bool); len(happened) < len(one.while); {
				for _, action := range bothWays {
					k.begin(t, action)
					if slices.Contains(one.while, action) && !happened[action] {
						one.do(t, k)
						k.check(t, one.what)
						if k.now(t).State == triage.Running { // otherwise it was too late
							happened[action] = true
							strikesDone++
						}
					}
					k.finish(t)
				}
			}
		}
	}
	k.report(t, strikesDone)
}

func newKeeping(t *testing.T, d *lab.Database) *keeping {
	t.Helper()
	k := &keeping{ctx: kit.Timeout(t, time.Hour), rabbit: lab.Alone(t), database: d}
	client := kit.Open(t, rehop.Config{URL: k.rabbit.URL}) // it declares the queues
	kit.Drain(t, kit.Subscribe(t, client, rehop.Subscriber{Queue: queue, Handler: kit.Nop}))
	a, err := admin.Open(k.ctx, admin.Config{URL: k.rabbit.URL, Management: k.rabbit.Management()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	fillFailed(t, a, *keepMessages, 0)
	var closeStore func()
	if k.store, closeStore, err = openStore(k.ctx, d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeStore)
	if k.service, err = triage.NewService(triage.ServiceConfig{Store: k.store, Admin: a}); err != nil {
		t.Fatal(err)
	}
	if done, err := k.service.Reconcile(k.ctx, queue+".failed"); err != nil || done.Added != *keepMessages {
		t.Fatalf("got %+v, %v, want %d messages", done, err, *keepMessages)
	}
	k.all = slices.Sorted(maps.Keys(k.inQueue(t)))
	return k
}

// begin starts a run for all messages, when the index knows where they are.
func (k *keeping) begin(t *testing.T, action triage.Action) {
	t.Helper()
	var counts triage.Counts
	defer func() {
		if t.Failed() {
			t.Logf("the index had %+v", counts)
		}
	}()
	lab.Eventually(t, limit, "the index is equal to the failed queue", func() bool {
		_, err := k.service.Reconcile(k.ctx, queue+".failed")
		if elseSweeps(err) {
			return false
		}
		groups, err2 := k.store.Groups(k.ctx, triage.GroupFilter{})
		if err := errors.Join(err, err2); err != nil || len(groups.Groups) != 1 {
			t.Fatalf("got %+v, %v, want one group", groups, err)
		}
		counts = groups.Groups[0].Counts
		return counts.Failed >= len(k.all) || action == triage.ActionRestore && counts.Kept > 0 && counts.Failed+counts.Kept >= len(k.all)
	})
	q, err := triage.ParseQuery("queue:"+queue, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if k.run, err = k.store.StartRun(k.ctx, triage.RunPlan{Action: action, Query: q, Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
}

func (k *keeping) now(t *testing.T) triage.Run {
	t.Helper()
	run, err := k.store.Run(k.ctx, k.run.ID)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// working starts a process, and returns when it works on the run.
func (k *keeping) working(t *testing.T) *server {
	t.Helper()
	s, before := startServer(t, k.rabbit, k.database), k.now(t).Counts.Planned
	lab.Eventually(t, limit, "a process works on the run", func() bool {
		now := k.now(t)
		return now.Counts.Planned < before || now.State == triage.Done
	})
	return s
}

// finish completes the run.
func (k *keeping) finish(t *testing.T) {
	t.Helper()
	s := startServer(t, k.rabbit, k.database)
	var now triage.Run
	defer func() {
		if t.Failed() {
			t.Logf("the run was last: %+v\n%s", now, s.errs.String())
		}
	}()
	lab.Eventually(t, limit, "the run is done", func() bool {
		now = k.now(t)
		return now.State == triage.Done
	})
	s.kill() // before the test looks: it would hold messages that the process sweeps
	k.check(t, "the run is done")
}

// inQueue is how often the failed queue has each message.
func (k *keeping) inQueue(t *testing.T) map[string]int {
	t.Helper()
	ch := k.rabbit.Channel()
	defer ch.Close() // which returns the messages
	found, depth := make(map[string]int), k.rabbit.Depth(ch, queue+".failed")
	// Without a prefetch count a quorum queue delivers 2,000 messages and waits for answers; after a few faults the queue has more than that.
	if err := ch.Qos(depth, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.ConsumeWithContext(k.ctx, queue+".failed", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range depth {
		found[kit.Receive(t, deliveries, "message of the failed queue").MessageId]++
	}
	return found
}

// inStore are the messages whose contents the store has.
func (k *keeping) inStore(t *testing.T) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	for page := (triage.Page{Limit: 500}); ; {
		r, err := k.store.Search(k.ctx, triage.Query{}, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range r.Messages {
			line, err := k.store.Kept(k.ctx, m.Ref)
			if errors.Is(err, triage.ErrNotFound) {
				continue
			}
			var content struct{ ID string }
			if err == nil {
				err = json.Unmarshal(line, &content)
			}
			if err != nil {
				t.Fatal(err)
			}
			found[content.ID] = true
		}
		if page.After = r.Next; page.After == "" {
			return found
		}
	}
}

// check looks for every message. The broker may need a moment to notice that a process has died, and to return its messages.
func (k *keeping) check(t *testing.T, after string) {
	t.Helper()
	var missing []string
	defer func() {
		if t.Failed() {
			t.Logf("after %q %d messages are missing: %v", after, len(missing), missing)
		}
	}()
	lab.Eventually(t, limit, "every message is in its failed queue or in the store", func() bool {
		queued, stored := k.inQueue(t), k.inStore(t)
		missing = slices.DeleteFunc(slices.Clone(k.all), func(id string) bool { return queued[id] > 0 || stored[id] })
		return len(missing) == 0
	})
}

// report logs how often messages are twice in their failed queue after all that.
func (k *keeping) report(t *testing.T, strikes int) {
	t.Helper()
	twice := 0
	for _, n := range k.inQueue(t) {
		twice += n - 1
	}
	if _, err := k.service.Reconcile(k.ctx, queue+".failed"); err != nil {
		t.Fatal(err)
	}
	if err := k.store.Check(k.ctx); err != nil {
		t.Error(err)
	}
	if _, err := k.store.VerifyAudit(k.ctx, triage.Head{}); err != nil {
		t.Error(err)
	}
	if allowed := strikes * batch; twice > allowed {
		t.Errorf("got %d messages twice, want at most %d, one batch for each fault", twice, allowed)
	}
	t.Logf("db=%s messages=%d faults=%d lost=0 twice=%d of %d allowed", k.database.Driver, len(k.all), strikes, twice, strikes*batch)
}

//go:build !race

package triaging

import (
	"cmp"
	"context"
	"flag"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

var (
	runKills  = flag.Int("run-kills", 4, "how often a process that works on a run is killed")
	runSet    = flag.Int("run-set", 3000, "how many messages the run replays")
	runOthers = flag.Int("run-others", 6000, "how many other messages are in the failed queue")
)

// killedRun is a run on which processes work that are killed.
type killedRun struct {
	rabbit   *lab.Rabbit
	ctx      context.Context
	ch       *amqp.Channel
	database *lab.Database
	store    *triage.Store
	service  *triage.Service // which only sweeps
	run      triage.Run
}

// newKilledRun starts a run on some of the messages in a failed queue. Nobody works on it yet.
func newKilledRun(t *testing.T, set, others int, action triage.Action) *killedRun {
	t.Helper()
	k := &killedRun{rabbit: lab.Single(t), ctx: kit.Timeout(t, time.Hour), database: openSQLite(t)}
	k.ch = k.rabbit.Channel()
	client := kit.Open(t, rehop.Config{URL: k.rabbit.URL}) // it declares the queues, and is gone before messages are replayed
	kit.Drain(t, kit.Subscribe(t, client, rehop.Subscriber{Queue: queue, Handler: kit.Nop}))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a, err := admin.Open(k.ctx, admin.Config{URL: k.rabbit.URL, Management: k.rabbit.Management()})
	must(err)
	t.Cleanup(a.Close)
	fillFailed(t, a, set, others)
	var closeStore func()
	k.store, closeStore, err = openStore(k.ctx, k.database)
	must(err)
	t.Cleanup(closeStore)
	k.service, err = triage.NewService(triage.ServiceConfig{Store: k.store, Admin: a})
	must(err)
	if done, err := k.service.Reconcile(k.ctx, queue+".failed"); err != nil || done.Added != set+others {
		t.Fatalf("got %+v, %v, want %d messages", done, err, set+others)
	}
	q, err := triage.ParseQuery("kind:timeout", time.Now())
	must(err)
	began := time.Now()
	k.run, err = k.store.StartRun(k.ctx, triage.RunPlan{Action: action, Query: q, Actor: "ann"})
	if err != nil || k.run.Counts.Planned != set {
		t.Fatalf("got %+v, %v, want %d messages", k.run.Counts, err, set)
	}
	t.Logf("%d messages were fixed in %v", set, time.Since(began).Round(time.Millisecond))
	return k
}

// A process that works on a run is killed again and again. No message is lost, none outside the set is sent, and for each kill at most one batch is sent
// twice.
func TestSQLiteRunKilled(t *testing.T) {
	t.Parallel()
	k := newKilledRun(t, *runSet, *runOthers, triage.ActionReplay)
	r, ctx, ch, store, service, run := k.rabbit, k.ctx, k.ch, k.store, k.service, k.run
	var slowest time.Duration
	var unsettled []map[string]bool // for each kill, the messages of which it was not known whether they were sent
	for killed := 1; killed <= *runKills; killed++ {
		s, since := startServer(t, r, k.database), time.Now()
		goal := *runSet * killed / (*runKills + 1)
		before, first := r.Depth(ch, queue), true
		lab.Eventually(t, 2*limit, "messages are sent", func() bool {
			depth := r.Depth(ch, queue)
			if first && depth > before {
				first = false
				slowest = max(slowest, time.Since(since))
			}
			return depth > before && depth >= goal
		})
		s.kill()
		if now, err := store.Run(ctx, run.ID); err != nil || now.State != triage.Running {
			t.Fatalf("kill %d: got %+v, %v, want a run that was interrupted: raise -run-set", killed, now, err)
		}
		unsettled = append(unsettled, k.sending(t))
	}
	s := startServer(t, r, k.database)
	lab.Eventually(t, 2*limit, "the run is done", func() bool {
		now, err := store.Run(ctx, run.ID)
		if err != nil {
			t.Fatal(err)
		}
		run = now
		return now.State == triage.Done
	})
	s.kill()
	if run.Counts.Sent != *runSet {
		t.Errorf("got %+v, want %d sent\n%s", run.Counts, *runSet, s.errs.String())
	}
	seen, again, twice := make(map[string]int), make(map[string]bool), 0 // again: by message, twice: by copy
	for _, d := range kit.TakeAll(t, ch, queue) {
		if seen[d.MessageId]++; seen[d.MessageId] > 1 {
			again[d.MessageId] = true
			twice++
		}
	}
	for id := range seen {
		if id[0] != 't' {
			t.Errorf("message %s was not in the set", id)
		}
	}
	// A copy can also be left in the failed queue: of a message that was sent, or of another one that was being republished when the process was
	// killed, because it had been returned often.
	done, err := service.Reconcile(ctx, queue+".failed")
	left := done.Seen - *runOthers
	if err != nil || left < 0 || done.Added != left || done.Gone != 0 {
		t.Errorf("a sweep after it: got %+v, %v, want %d messages, and no others that the index knew to be there", done, err, *runOthers)
	}
	others := 0
	for id, copies := range k.left(t) {
		if id[0] == 't' {
			again[id] = true
		} else if others += copies - 1; copies > 1 {
			t.Logf("message %s, which is not in the set, is %d times in the failed queue", id, copies)
		}
	}
	most := causedByEach(t, again, unsettled)
	if len(seen) != *runSet || twice+left > *runKills*batch {
		t.Errorf("got %d messages, %d twice and %d also in the failed queue, want %d, and at most %d twice", len(seen), twice, left, *runSet, *runKills*batch)
	}
	if err := store.Check(ctx); err != nil {
		t.Error(err)
	}
	if _, err := store.VerifyAudit(ctx, triage.Head{}); err != nil {
		t.Error(err)
	}
	t.Logf("set=%d others=%d kills=%d lost=0 outside=0 twice=%d, of one kill at most %d of %d allowed, left=%d, of others %d, continued after at most %v",
		*runSet, *runOthers, *runKills, twice, most, batch, left, others, slowest.Round(100*time.Millisecond))
	if *judge && slowest > 5*time.Second {
		t.Errorf("a run continued after up to %v, want at most 5s", slowest)
	}
}

// causedByEach checks that each kill has caused at most one batch of the messages that are there twice, and returns the largest number. A message that
// two kills have interrupted, because the second came before it was known what became of it, counts for one of them: for the first that has room.
func causedByEach(t *testing.T, again map[string]bool, unsettled []map[string]bool) (most int) {
	t.Helper()
	last := make(map[string]int) // kill that has interrupted it
	for killed, sending := range unsettled {
		for id := range sending {
			last[id] = killed
		}
	}
	for id := range again {
		if _, interrupted := last[id]; !interrupted {
			t.Errorf("message %s is there twice, although no kill has interrupted it", id)
		}
	}
	counted := make(map[string]bool)
	for killed, sending := range unsettled {
		var mine []string
		for id := range sending {
			if again[id] && !counted[id] {
				mine = append(mine, id)
			}
		}
		slices.SortFunc(mine, func(a, b string) int { return cmp.Compare(last[a], last[b]) })
		shared := 0
		for i, id := range mine {
			if last[id] > killed {
				shared++
			}
			if i < batch {
				counted[id] = true
			} else if last[id] == killed {
				t.Errorf("kill %d: message %s is there twice, and %d others already", killed+1, id, i)
			}
		}
		t.Logf("kill %d has interrupted %d messages, of which %d are there twice, and %d of those were interrupted once more", killed+1, len(sending), len(mine), shared)
		most = max(most, min(len(mine), batch))
	}
	return most
}

// sending are the messages that were being sent when the process was killed.
func (k *killedRun) sending(t *testing.T) map[string]bool {
	t.Helper()
	all := make(map[string]bool)
	for page := (triage.Page{Limit: 500}); ; {
		found, err := k.store.RunItems(k.ctx, k.run.ID, triage.ItemSending, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range found.Items {
			all[one.SentID] = true
		}
		if page.After = found.Next; found.Next == "" {
			return all
		}
	}
}

// left is how often messages are in the failed queue.
func (k *killedRun) left(t *testing.T) map[string]int {
	t.Helper()
	all := make(map[string]int)
	for _, d := range kit.TakeAll(t, k.ch, queue+".failed") {
		if all[d.MessageId]++; d.MessageId[0] == 't' {
			t.Logf("message %s is left: %v", d.MessageId, d.Headers)
		}
	}
	return all
}

// A run is stopped after a process that worked on it was killed. It is found out which messages that process had taken.
func TestSQLiteStoppedAfterKill(t *testing.T) {
	t.Parallel()
	const set, others = 2000, 500
	k := newKilledRun(t, set, others, triage.ActionDiscard)
	s := startServer(t, k.rabbit, k.database)
	lab.Eventually(t, limit, "messages are taken", func() bool {
		now, err := k.store.Run(k.ctx, k.run.ID)
		return err == nil && now.Counts.Taken() > set/4
	})
	s.kill()
	run, err := k.store.SetRun(k.ctx, k.run.ID, triage.Stopped, "ann", "")
	if err != nil || run.Counts.Planned == 0 {
		t.Fatalf("got %+v, %v, want a part of the messages taken", run, err)
	}
	startServer(t, k.rabbit, k.database)
	lab.Eventually(t, limit, "it is known what became of each message", func() bool {
		now, err := k.store.Run(k.ctx, k.run.ID)
		run = now
		return err == nil && now.Counts.Sending == 0
	})
	if run.Counts.Planned+run.Counts.Sent != set {
		t.Errorf("got %+v, want %d planned or taken", run.Counts, set)
	}
	kit.WantDepth(t, k.rabbit, k.ch, queue+".failed", others+run.Counts.Planned)
	q, err := triage.ParseQuery("state:discarded", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := k.store.Search(k.ctx, q, triage.Page{}); err != nil || !r.AtLeast && r.Count != run.Counts.Sent {
		t.Errorf("discarded: got %d, %v, want %d", r.Count, err, run.Counts.Sent)
	}
	if err := k.store.Check(k.ctx); err != nil {
		t.Error(err)
	}
	t.Logf("taken=%d left=%d", run.Counts.Sent, run.Counts.Planned)
}

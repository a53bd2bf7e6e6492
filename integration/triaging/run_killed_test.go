//go:build !race

package triaging

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
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

// The variables with the broker, and its management API, of a process that runs a service until it is killed.
const (
	serviceBroker     = "REHOP_TRIAGING_BROKER"
	serviceManagement = "REHOP_TRIAGING_MANAGEMENT"
)

// batch is how many messages a run may send twice for each kill.
const batch = 256

// serviceProcess runs a service.
func serviceProcess(url, management, path string) error {
	ctx := context.Background()
	store, closeStore, err := openStore(ctx, sqliteFile(path))
	if err != nil {
		return err
	}
	defer closeStore()
	a, err := admin.Open(ctx, admin.Config{URL: url, Management: management})
	if err != nil {
		return err
	}
	defer a.Close()
	service, err := triage.NewService(triage.ServiceConfig{Store: store, Admin: a, CheckEvery: processChecks, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	service.Run(ctx)
	return nil
}

// server is such a process.
type server struct {
	*exec.Cmd
	errs bytes.Buffer
}

func startServer(t *testing.T, r *lab.Rabbit, path string) *server {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Cmd: exec.Command(program)}
	s.Env, s.Stderr = append(os.Environ(), crashFile+"="+path, serviceBroker+"="+r.URL, serviceManagement+"="+r.Management()), &s.errs
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s
}

// kill kills it, as kill -9 does.
func (s *server) kill() {
	if s.ProcessState == nil {
		_ = s.Process.Kill()
		_ = s.Wait()
	}
}

// fillFailed puts messages into the failed queue: those of the set have the kind timeout.
func fillFailed(t *testing.T, a *admin.Admin, set, others int) {
	t.Helper()
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	share := max((set+others)/set, 1)
	for n, left := 0, set; n < set+others; n++ {
		kind := "error"
		if left > 0 && (n%share == 0 || set+others-n <= left) {
			kind = "timeout"
			left--
		}
		at := time.Date(2026, 1, 2, 0, 0, 0, n*1_000_000, time.UTC)
		err := enc.Encode(map[string]any{"id": kind + fmt.Sprint(n), "queue": queue, "exchange": "", "key": queue, "body": []byte(fmt.Sprintf(`{"order":%d}`, n)), "attempts": 3,
			"kind": kind, "error": "no answer from host " + fmt.Sprint(n%7), "failed_at": at, "first_failed": at})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n, err := a.Import(kit.Context(t), &lines); err != nil || n != set+others {
		t.Fatalf("imported %d messages, %v, want %d", n, err, set+others)
	}
}

// killedRun is a run on which processes work that are killed.
type killedRun struct {
	rabbit  *lab.Rabbit
	ctx     context.Context
	ch      *amqp.Channel
	path    string // of the database
	store   *triage.Store
	service *triage.Service // which only sweeps
	run     triage.Run
}

// newKilledRun starts a run on some of the messages in a failed queue. Nobody works on it yet.
func newKilledRun(t *testing.T, set, others int, action triage.Action) *killedRun {
	t.Helper()
	k := &killedRun{rabbit: lab.Single(t), ctx: kit.Timeout(t, time.Hour), path: filepath.Join(t.TempDir(), "test.db")}
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
	k.store, closeStore, err = openStore(k.ctx, sqliteFile(k.path))
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
	for killed := 1; killed <= *runKills; killed++ {
		s, since := startServer(t, r, k.path), time.Now()
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
	}
	s := startServer(t, r, k.path)
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
	seen, twice := make(map[string]int), 0
	for _, d := range kit.TakeAll(t, ch, queue) {
		if seen[d.MessageId]++; seen[d.MessageId] > 1 {
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
	if left > 0 {
		k.logLeft(t)
	}
	if len(seen) != *runSet || twice+left > *runKills*batch {
		t.Errorf("got %d messages, %d twice and %d also in the failed queue, want %d, and at most %d twice", len(seen), twice, left, *runSet, *runKills*batch)
	}
	if err := store.Check(ctx); err != nil {
		t.Error(err)
	}
	if _, err := store.VerifyAudit(ctx, triage.Head{}); err != nil {
		t.Error(err)
	}
	t.Logf("set=%d others=%d kills=%d lost=0 outside=0 twice=%d left=%d of %d allowed, continued after at most %v", *runSet, *runOthers, *runKills, twice, left, *runKills*batch, slowest.Round(100*time.Millisecond))
}

// logLeft logs which messages are in the failed queue twice, or although they were sent.
func (k *killedRun) logLeft(t *testing.T) {
	t.Helper()
	all := make(map[string][]amqp.Table)
	for _, d := range kit.TakeAll(t, k.ch, queue+".failed") {
		all[d.MessageId] = append(all[d.MessageId], d.Headers)
	}
	for id, copies := range all {
		if len(copies) > 1 || id[0] == 't' {
			t.Logf("message %s is left: %v", id, copies)
		}
	}
}

// A run is stopped after a process that worked on it was killed. It is found out which messages that process had taken.
func TestSQLiteStoppedAfterKill(t *testing.T) {
	t.Parallel()
	const set, others = 2000, 500
	k := newKilledRun(t, set, others, triage.ActionDiscard)
	s := startServer(t, k.rabbit, k.path)
	lab.Eventually(t, limit, "messages are taken", func() bool {
		now, err := k.store.Run(k.ctx, k.run.ID)
		return err == nil && now.Counts.Taken() > set/4
	})
	s.kill()
	run, err := k.store.SetRun(k.ctx, k.run.ID, triage.Stopped, "ann", "")
	if err != nil || run.Counts.Planned == 0 {
		t.Fatalf("got %+v, %v, want a part of the messages taken", run, err)
	}
	startServer(t, k.rabbit, k.path)
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

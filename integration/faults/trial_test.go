package faults

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/delivery"
)

// long reports whether the long form was asked for.
func long() bool { return os.Getenv("REHOP_FAULTS") == "long" }

// times is how often a fault strikes.
func times(short, many int) int {
	if long() {
		return many
	}
	return short
}

// seedOf is the run's one seed: that of REHOP_FAULTS_SEED, or a new one.
func seedOf(t *testing.T) uint64 {
	if s := os.Getenv("REHOP_FAULTS_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("REHOP_FAULTS_SEED: %v", err)
		}
		return seed
	}
	return rand.Uint64() >> 32
}

// trial is a workload on a broker, with its history.
type trial struct {
	t      *testing.T
	ctx    context.Context
	rabbit *lab.Rabbit
	random *rand.Rand
	seed   uint64
	work   *delivery.Workload
	books  *delivery.History
	stalls int // queues that had to be cured
}

// Limits for liveness are generous: the machine may be busy. Those for safety do not exist.
const (
	soon       = 60 * time.Second // for what follows at once
	trialLimit = 20 * time.Minute
)

// newTrial prepares a workload; the caller may change it before start.
func newTrial(t *testing.T, r *lab.Rabbit, seed uint64) *trial {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), trialLimit)
	t.Cleanup(cancel)
	dir, err := os.MkdirTemp("", "rehop-faults-")
	if err != nil {
		t.Fatal(err)
	}
	books, err := delivery.NewHistory(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "client.log"))
	if err != nil {
		t.Fatal(err)
	}
	x := &trial{t: t, ctx: ctx, rabbit: r, random: rand.New(rand.NewPCG(seed, 1)), seed: seed, books: books}
	x.work = &delivery.Workload{
		Script: delivery.NewScript(seed), History: books,
		Config: func(role string) rehop.Config {
			return rehop.Config{URLs: r.URLs, Name: role, Logger: slog.New(slog.NewTextHandler(log, nil)).With("role", role),
				Heartbeat: 2 * time.Second}
		},
		Dial: func(ctx context.Context) (*amqp.Connection, error) { return r.Dial(ctx) },
		Rate: times(600, 1200),
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("queues:\n%s", x.queues())
		}
		closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = x.work.Close(closing)
		_ = books.Close()
		_ = log.Close()
		if t.Failed() || os.Getenv("REHOP_FAULTS_KEEP") != "" {
			t.Logf("seed %d; history kept in %s", seed, books.Path())
		} else {
			_ = os.RemoveAll(dir)
		}
	})
	return x
}

// start starts the workload and waits until it is in full swing.
func (x *trial) start() {
	x.t.Helper()
	x.must(x.work.Start(x.ctx))
	// Everything is declared when a message has been through the steps, and one through the cascade: a
	// fault in the midst of declaring is another matter.
	script := x.work.Script
	for _, fate := range []delivery.Fate{delivery.FailsLater, delivery.FailsAlways} {
		x.see(0, soon, "a message's last attempt", func(e delivery.Event) bool {
			return e.Kind == delivery.Start && e.Number > 1 && script.Fate(e.Queue, e.ID) == fate && (e.Number == script.Attempts() || fate == delivery.FailsLater)
		})
	}
	x.run(500)
}

func (x *trial) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// within is a context for what must happen soon.
func (x *trial) within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(x.ctx, d)
}

// run lets the workload go on until n more messages are confirmed.
func (x *trial) run(n int) {
	x.t.Helper()
	ctx, cancel := x.within(2 * soon)
	defer cancel()
	x.must(x.books.Await(ctx, delivery.Confirmed, x.books.Count(delivery.Confirmed)+n))
}

// see waits for the next event that fits.
func (x *trial) see(after int, limit time.Duration, what string, fits func(delivery.Event) bool) delivery.Event {
	x.t.Helper()
	ctx, cancel := x.within(limit)
	defer cancel()
	e, err := x.books.AwaitEvent(ctx, after, what, fits)
	x.must(err)
	return e
}

// waiting returns when a message waits for its retry and will do so for a little while.
func (x *trial) waiting() {
	x.t.Helper()
	x.see(x.books.Len(), soon, "a message that waits", func(e delivery.Event) bool {
		return e.Kind == delivery.Failed && e.At+int64(e.Delay) > delivery.Now()+int64(100*time.Millisecond)
	})
}

// fault lets work go on until a random moment at which a message waits, and then strikes.
func (x *trial) fault(name string, strike func()) {
	x.t.Helper()
	x.run(100 + x.random.IntN(400))
	x.waiting()
	x.books.Record(delivery.Event{Kind: delivery.FaultBegins, Fault: name})
	strike()
	end := x.books.Len()
	x.books.Record(delivery.Event{Kind: delivery.FaultEnds, Fault: name})
	x.resumes(end)
}

// resumes waits until messages are confirmed and handled after a fault.
func (x *trial) resumes(end int) {
	x.t.Helper()
	for _, kind := range []delivery.Kind{delivery.Confirmed, delivery.Handled} {
		x.seeOrCure(end, "work after the fault", kind)
	}
}

// seeOrCure waits for an event; if it does not come, ailing queues are cured and it must come then.
func (x *trial) seeOrCure(after int, what string, kind delivery.Kind) {
	x.t.Helper()
	fits := func(e delivery.Event) bool { return e.Kind == kind }
	ctx, cancel := x.within(soon)
	_, err := x.books.AwaitEvent(ctx, after, what, fits)
	cancel()
	if err != nil && x.work.Unstick != nil && x.work.Unstick(x.ctx) {
		x.see(after, soon, what+", and a cure", fits)
		return
	}
	x.must(err)
}

// finish drains, audits, and fails the test unless all is well.
func (x *trial) finish(rules delivery.Rules) delivery.Report {
	x.t.Helper()
	ctx, cancel := x.within(10 * time.Minute)
	defer cancel()
	if err := x.work.Drain(ctx); err != nil {
		x.t.Errorf("drain: %v", err)
	}
	report := delivery.Audit(x.books.Events(), rules)
	report.Seed = x.seed
	x.t.Logf("%s (%s stalls=%d)", report.Line(), report.Details(), x.stalls)
	if !report.OK() {
		x.t.Errorf("the books do not balance:\n%s", report.Faulty())
	}
	return report
}

// queues describes the queues as the broker sees them: messages that are being dead-lettered are in
// none of the states that a client sees.
func (x *trial) queues() string {
	var all []struct {
		Name, Leader, State string
		Messages            int
		Ready               int `json:"messages_ready"`
		Unacked             int `json:"messages_unacknowledged"`
		Dead                int `json:"messages_dlx"`
		Online              []string
	}
	if err := x.rabbit.TryAPI("GET", "/api/queues/"+x.rabbit.Vhost, nil, &all); err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, q := range all {
		fmt.Fprintf(&b, "  %s: %s, %d messages, %d ready, %d unacked, %d to dead-letter, leader %s, online %v\n", q.Name, q.State, q.Messages, q.Ready, q.Unacked, q.Dead, q.Leader, q.Online)
	}
	return b.String()
}

// maxCures is how often one trial may cure its broker.
const maxCures = 6

// cure does for a cluster what an operator would do for queues that RabbitMQ has left ailing, and
// says so. Nothing is forgiven but the time: what was confirmed must be there afterwards.
//
// A queue whose leader changes twice in a row may be left without the process that dead-letters from
// it (rabbitmq-server pull requests 7677, 15548 and 16203, the last of April 2026): its messages
// stand still until the leader changes again. A queue that is being declared while its node dies may
// never choose a leader at all.
func (x *trial) cure(context.Context) bool {
	leaderless, stuck, err := x.rabbit.Ailing()
	if err != nil {
		x.t.Logf("look for ailing queues: %v", err)
		return false
	}
	ailing, remedy := leaderless, x.rabbit.Elect
	if len(leaderless) == 0 { // others may be stuck only because they wait for these
		ailing, remedy = stuck, x.rabbit.MoveLeader
	}
	if len(ailing) == 0 || x.stalls >= maxCures {
		return false
	}
	x.t.Logf("without a leader: %v; not dead-lettering: %v\n%s", leaderless, stuck, x.queues())
	for _, queue := range ailing {
		x.stalls++
		if err := remedy(queue); err != nil {
			x.t.Logf("cure %s: %v", queue, err)
		}
	}
	return true
}

// deadLetters is how many messages RabbitMQ's at-least-once dead-lettering has under way: a window
// of 32 for each queue in which messages wait, and for each queue that dead-letters by itself.
func deadLetters(s delivery.Script) int {
	const window, levels = 32, 3 // 700 ms are levels 0, 1 and 2
	return window * (len(s.Steps) + levels)
}

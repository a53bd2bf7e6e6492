package delivery_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/conformance/delivery"
	"github.com/rehop/rehop/internal/node"
	"github.com/rehop/rehop/layout"
)

// TestEmbedded runs the workload on the embedded broker, in virtual time, under each of its faults.
func TestEmbedded(t *testing.T) {
	seed := rand.Uint64() >> 32
	t.Logf("seed %d", seed)
	total := delivery.Report{Seed: seed}
	for name, fault := range map[string]func(*trial) delivery.Rules{
		"Drop": dropConnections, "Block": block, "Refuse": refusePublishes, "Hold": holdConfirms, "Restart": restart, "Delete": deleteQueues,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				x := newTrial(t, dir, seed)
				total.Add(x.finish(fault(x)))
			})
		})
	}
	t.Logf("in all: %s", total.Line())
	if total.Lost != 0 || total.Confirmed == 0 {
		t.Errorf("got %d lost of %d confirmed, want none of some", total.Lost, total.Confirmed)
	}
}

// trial is a workload on a broker, with its history.
type trial struct {
	t      *testing.T
	dir    string // of the broker
	random *rand.Rand
	seed   uint64
	work   *delivery.Workload
	books  *delivery.History

	mu     sync.Mutex
	server *broker.Server
}

func newTrial(t *testing.T, dir string, seed uint64) *trial {
	t.Helper()
	books, err := delivery.NewHistory(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	x := &trial{t: t, dir: filepath.Join(dir, "broker"), seed: seed, random: rand.New(rand.NewPCG(seed, 1)), books: books}
	x.open()
	x.work = &delivery.Workload{
		Script: delivery.NewScript(seed), History: books, Dial: x.connect,
		Config: func(role string) rehop.Config {
			return rehop.Config{URL: "amqp://guest:guest@embedded/", Dial: x.dial, Name: role, Logger: quiet()}
		},
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = x.work.Close(ctx)
		_ = books.Close()
		x.must(x.current().Close())
	})
	return x
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// open starts a broker on the trial's directory. What is under test is the order of things, which does not need a disk that syncs.
func (x *trial) open() {
	x.t.Helper()
	server := &broker.Server{Dir: x.dir, Sync: broker.SyncNever, Logger: quiet()}
	x.must(server.Start())
	x.mu.Lock()
	defer x.mu.Unlock()
	x.server = server
}

func (x *trial) current() *broker.Server {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.server
}

func (x *trial) node() *node.Node {
	x.t.Helper()
	n, err := x.current().Node()
	x.must(err)
	return n
}

func (x *trial) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return x.current().Dial(ctx, network, addr)
}

// connect opens a plain connection.
func (x *trial) connect(ctx context.Context) (*amqp.Connection, error) {
	conn, err := x.dial(ctx, "", "")
	if err != nil {
		return nil, err
	}
	return amqp.Open(conn, amqp.Config{SASL: []amqp.Authentication{&amqp.PlainAuth{Username: "guest", Password: "guest"}}, Vhost: "/"})
}

func (x *trial) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// soon is the limit for what follows at once. It is virtual time.
const soon = time.Minute

// start starts the workload and waits until messages have taken every way.
func (x *trial) start() {
	x.t.Helper()
	x.must(x.work.Start(x.t.Context()))
	script := x.work.Script
	for _, fate := range []delivery.Fate{delivery.FailsLater, delivery.FailsAlways} {
		x.see(0, "a message's last attempt", func(e delivery.Event) bool {
			return e.Kind == delivery.Start && e.Number > 1 && script.Fate(e.Queue, e.ID) == fate && (e.Number == script.Attempts() || fate == delivery.FailsLater)
		})
	}
}

// run lets the workload go on until n more messages are confirmed.
func (x *trial) run(n int) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), 2*soon)
	defer cancel()
	x.must(x.books.Await(ctx, delivery.Confirmed, x.books.Count(delivery.Confirmed)+n))
}

// see waits for the next event that fits.
func (x *trial) see(after int, what string, fits func(delivery.Event) bool) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), soon)
	defer cancel()
	_, err := x.books.AwaitEvent(ctx, after, what, fits)
	x.must(err)
}

func (x *trial) seeKind(after int, kind delivery.Kind) {
	x.t.Helper()
	x.see(after, fmt.Sprintf("an event %q", kind), func(e delivery.Event) bool { return e.Kind == kind })
}

// fault lets work go on until a random moment at which a message waits, and then strikes.
func (x *trial) fault(name string, strike func(began int)) {
	x.t.Helper()
	x.run(50 + x.random.IntN(150))
	x.see(x.books.Len(), "a message that waits", func(e delivery.Event) bool {
		return e.Kind == delivery.Failed && e.At+int64(e.Delay) > delivery.Now()+int64(100*time.Millisecond)
	})
	x.books.Record(delivery.Event{Kind: delivery.FaultBegins, Fault: name})
	strike(x.books.Len())
	end := x.books.Len()
	x.books.Record(delivery.Event{Kind: delivery.FaultEnds, Fault: name})
	x.seeKind(end, delivery.Confirmed)
	x.seeKind(end, delivery.Handled)
}

// finish drains and audits, and fails the test unless all is well.
func (x *trial) finish(rules delivery.Rules) delivery.Report {
	x.t.Helper()
	x.run(100)
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Hour)
	defer cancel()
	if err := x.work.Drain(ctx); err != nil {
		x.t.Errorf("drain: %v", err)
	}
	report := delivery.Audit(x.books.Events(), rules)
	report.Seed = x.seed
	x.t.Logf("%s (%s)", report.Line(), report.Details())
	if !report.OK() {
		x.t.Errorf("the books do not balance:\n%s", report.Faulty())
	}
	return report
}

// rules are those of the workload, for a fault that strikes so often and shows itself by events of these kinds.
func (x *trial) rules(faults int, witnesses ...delivery.Kind) delivery.Rules {
	r := x.work.Rules()
	r.Faults, r.Witness = faults, delivery.Sees(witnesses...)
	return r
}

func dropConnections(x *trial) delivery.Rules {
	const times = 6
	x.start()
	for range times {
		x.fault("connections dropped", func(began int) {
			x.node().DropConnections()
			x.seeKind(began, delivery.Connected)
		})
	}
	return x.rules(times, delivery.Lost)
}

func block(x *trial) delivery.Rules {
	const times = 3
	x.start()
	for range times {
		x.fault("blocked", func(began int) {
			x.node().SetAlarm(node.TestAlarm, true)
			x.seeKind(began, delivery.Blocked)
			time.Sleep(5 * time.Second)
			x.node().SetAlarm(node.TestAlarm, false)
		})
	}
	return x.rules(times, delivery.Blocked)
}

// refusePublishes refuses every other message for a while, retries on their way included.
func refusePublishes(x *trial) delivery.Rules {
	const times, refusals = 3, 300
	x.start()
	for range times {
		x.fault("publishes refused", func(began int) {
			var n atomic.Int64
			enough := make(chan struct{})
			x.node().RefusePublishes(func(_, _, _ string) bool {
				k := n.Add(1)
				if k == 2*refusals {
					close(enough)
				}
				return k%2 == 0
			})
			<-enough
			x.node().RefusePublishes(nil)
			x.seeKind(began, delivery.Refused)
		})
	}
	return x.rules(times, delivery.Refused)
}

// holdConfirms keeps confirms back, and releases them or cuts the connections that wait for them.
func holdConfirms(x *trial) delivery.Rules {
	const times = 4
	x.start()
	for i := range times {
		x.fault("confirms held", func(began int) {
			x.node().HoldConfirms(true)
			synctest.Wait() // those that were under way have arrived
			before := x.books.Count(delivery.Confirmed)
			time.Sleep(3 * time.Second)
			if got := x.books.Count(delivery.Confirmed) - before; got > 0 {
				x.t.Errorf("confirms while they are held: got %d, want none", got)
			}
			x.books.Record(delivery.Event{Kind: delivery.Witnessed, Comment: "no confirm came"})
			if i%2 == 1 {
				x.node().DropConnections()
				x.seeKind(began, delivery.Lost)
			}
			x.node().HoldConfirms(false)
		})
	}
	return x.rules(times, delivery.Witnessed)
}

// restart closes the broker and opens it again on its directory.
func restart(x *trial) delivery.Rules {
	const times = 4
	x.start()
	for range times {
		x.fault("broker restarted", func(began int) {
			x.must(x.current().Close())
			x.seeKind(began, delivery.Lost)
			time.Sleep(time.Duration(x.random.IntN(3000)) * time.Millisecond)
			x.open()
			x.seeKind(x.books.Len(), delivery.Connected)
		})
	}
	return x.rules(times, delivery.Lost)
}

// deleteQueues deletes a queue under its consumer, which must declare it again, and one whose messages wait: those must end among the
// orphans. Nothing is lost by the deleter's own will: the first is empty, and the messages of the second are elsewhere.
func deleteQueues(x *trial) delivery.Rules {
	const doomed = 60
	script := &x.work.Script
	script.Doomed, script.Doom = "audit-doomed", 1600*time.Millisecond
	x.start()
	sub, err := x.work.Subscribe(x.t.Context(), script.Doomed)
	x.must(err)
	x.fault("queue deleted while its messages wait", func(int) {
		x.work.PublishTo(x.t.Context(), script.Doomed, doomed)
		synctest.Wait()
		x.must(sub.Drain(x.t.Context()))
		x.deleteQueue(script.Doomed)
		x.books.Record(delivery.Event{Kind: delivery.Witnessed, Comment: "deleted"})
	})
	x.fault("queue deleted under its consumer", func(int) {
		x.must(x.work.Pause(x.t.Context()))
		began, queue := x.books.Len(), script.Queues[2]
		x.deleteQueue(queue)
		for _, kind := range []delivery.Kind{delivery.Ceased, delivery.Receiving} {
			x.see(began, fmt.Sprintf("%s, %q", queue, kind), func(e delivery.Event) bool { return e.Kind == kind && e.Queue == queue })
		}
		x.work.Resume()
	})
	time.Sleep(script.Doom)
	if got := x.node().Vhost("/").Queue(layout.OrphansQueue).Status().Ready; got != doomed {
		x.t.Errorf("orphans: got %d, want %d", got, doomed)
	}
	rules := x.rules(2, delivery.Ceased, delivery.Witnessed)
	rules.NoRetries = true // nothing is published while a queue is missing
	return rules
}

func (x *trial) deleteQueue(name string) {
	x.t.Helper()
	_, err := x.node().Vhost("/").Queue(name).Delete(false, false)
	x.must(err)
}

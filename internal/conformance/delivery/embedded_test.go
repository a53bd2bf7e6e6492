package delivery_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/brokertest"
	"github.com/rehop/rehop/internal/conformance/delivery"
	"github.com/rehop/rehop/internal/conformance/seeds"
	"github.com/rehop/rehop/internal/layouts"
)

// TestEmbedded runs the workload on the embedded broker, in virtual time, under each of its faults.
func TestEmbedded(t *testing.T) {
	seed := seeds.Of(t)
	total := delivery.Report{Seed: seed}
	for name, fault := range map[string]func(*trial) delivery.Rules{
		"Drop": dropConnections, "Block": block, "Refuse": refusePublishes, "Hold": holdConfirms, "Restart": restart, "Delete": deleteQueues,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				x := newTrial(t, dir, seed, broker.DefaultCompat)
				total.Add(x.finish(fault(x)))
			})
		})
	}
	t.Logf("in all: %s", total.Line())
	if total.Lost != 0 || total.Confirmed == 0 {
		t.Errorf("got %d lost of %d confirmed, want none of some", total.Lost, total.Confirmed)
	}
}

// trial is a workload on a broker within the process.
type trial struct {
	*delivery.Trial
	dir     string // of the broker
	release broker.Compat

	mu     sync.Mutex
	server *broker.Server
}

func newTrial(t *testing.T, dir string, seed uint64, release broker.Compat) *trial {
	t.Helper()
	books, err := delivery.NewHistory(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	x := &trial{dir: filepath.Join(dir, "broker"), release: release}
	x.Trial = delivery.NewTrial(t, seed, &delivery.Workload{
		Script: delivery.NewScript(seed), History: books, Dial: x.connect,
		Config: func(role string) rehop.Config {
			return rehop.Config{URL: "amqp://guest:guest@embedded/", Dial: x.dial, Name: role, Logger: quiet()}
		},
	}, 150)
	x.open()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = x.Work.Close(ctx)
		_ = books.Close()
		x.Must(x.current().Close())
	})
	return x
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// open starts a broker on the trial's directory. What is under test is the order of things, which does not need a disk that syncs.
func (x *trial) open() {
	x.T.Helper()
	server := &broker.Server{Dir: x.dir, Compat: x.release, Sync: broker.SyncNever, Logger: quiet()}
	x.Must(server.Start())
	x.mu.Lock()
	defer x.mu.Unlock()
	x.server = server
}

func (x *trial) current() *broker.Server {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.server
}

func (x *trial) control() *brokertest.Control {
	x.T.Helper()
	c, err := brokertest.Open(x.current())
	x.Must(err)
	return c
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

// finish lets work continue for a little, and balances the books.
func (x *trial) finish(rules delivery.Rules) delivery.Report {
	x.T.Helper()
	x.Run(100)
	return x.Finish(rules)
}

// recovery is how soon, in virtual time, work continues after a fault.
const recovery = 30 * time.Second

// rules are those of the workload, for a fault that strikes so often and shows itself by events of these kinds.
func (x *trial) rules(faults int, witnesses ...delivery.Kind) delivery.Rules {
	r := x.Work.Rules()
	r.Faults, r.Witness = faults, delivery.Sees(witnesses...)
	r.Recovery, r.Late = recovery, recovery
	return r
}

func dropConnections(x *trial) delivery.Rules {
	const times = 6
	x.Start()
	for range times {
		x.Fault("connections dropped", func(began int) {
			x.control().DropConnections()
			x.SeeKind(began, delivery.Connected)
		})
	}
	return x.rules(times, delivery.Lost)
}

func block(x *trial) delivery.Rules {
	const times = 3
	x.Start()
	for range times {
		x.Fault("blocked", func(began int) {
			x.control().Block(true)
			x.SeeKind(began, delivery.Blocked)
			time.Sleep(5 * time.Second)
			x.control().Block(false)
		})
	}
	return x.rules(times, delivery.Blocked)
}

// refusePublishes refuses every other message for a while, retries on their way included.
func refusePublishes(x *trial) delivery.Rules {
	const times = 3
	x.Start()
	for range times {
		x.Fault("publishes refused", func(began int) { x.refuse(300, began) })
	}
	return x.rules(times, delivery.Refused)
}

// refuse refuses every other message until that many are: of those that are published and, apart from them, of those that handlers move.
// Were they counted together, all that are published might by chance be the ones between.
func (x *trial) refuse(refusals, began int) {
	x.T.Helper()
	var mu sync.Mutex
	var seen [2]int // of those that are moved, and of those that are published
	exchange, enough := x.Work.Script.Exchange, make(chan struct{}, 1)
	x.control().Refuse(func(to, _ string) bool {
		mu.Lock()
		defer mu.Unlock()
		kind := 0
		if to == exchange {
			kind = 1
		}
		seen[kind]++
		if seen[0]+seen[1] >= 2*refusals && seen[1] >= 2 {
			select {
			case enough <- struct{}{}:
			default:
			}
		}
		return seen[kind]%2 == 0
	})
	<-enough
	x.control().Refuse(nil)
	x.SeeKind(began, delivery.Refused)
}

// holdConfirms keeps confirms back, and releases them or cuts the connections that wait for them.
func holdConfirms(x *trial) delivery.Rules {
	const times = 4
	x.Start()
	for i := range times {
		x.Fault("confirms held", func(began int) {
			x.control().HoldConfirms(true)
			synctest.Wait() // those that were under way have arrived
			before := x.Books.Count(delivery.Confirmed)
			time.Sleep(3 * time.Second)
			if got := x.Books.Count(delivery.Confirmed) - before; got > 0 {
				x.T.Errorf("confirms while they are held: got %d, want none", got)
			}
			x.Books.Record(delivery.Event{Kind: delivery.Witnessed, Comment: "no confirm came"})
			if i%2 == 1 {
				x.control().DropConnections()
				x.SeeKind(began, delivery.Lost)
			}
			x.control().HoldConfirms(false)
		})
	}
	return x.rules(times, delivery.Witnessed)
}

// restart has the broker away for up to three seconds.
func restart(x *trial) delivery.Rules {
	const times = 4
	x.Start()
	for range times {
		x.Fault("broker restarted", func(began int) { x.restart(began, 3*time.Second) })
	}
	return x.rules(times, delivery.Lost)
}

// restart closes the broker and opens it again on its directory, after a pause of up to longest.
func (x *trial) restart(began int, longest time.Duration) {
	x.T.Helper()
	x.Must(x.current().Close())
	x.SeeKind(began, delivery.Lost)
	time.Sleep(time.Duration(x.Random.Int64N(int64(longest))))
	x.open()
	x.SeeKind(x.Books.Len(), delivery.Connected)
}

// deleteQueues deletes a queue under its consumer, which must declare it again, and one whose messages wait: those must end among the
// orphans. Nothing is lost by the deleter's own will: the first is empty, and the messages of the second are elsewhere.
func deleteQueues(x *trial) delivery.Rules {
	const doomed = 60
	script := &x.Work.Script
	script.Doomed, script.Doom = "audit-doomed", 1600*time.Millisecond
	x.Start()
	sub, err := x.Work.Subscribe(x.T.Context(), script.Doomed)
	x.Must(err)
	x.Fault("queue deleted while its messages wait", func(int) {
		x.Work.PublishTo(x.T.Context(), script.Doomed, doomed)
		synctest.Wait()
		x.Must(sub.Drain(x.T.Context()))
		x.deleteQueue(script.Doomed)
		x.Books.Record(delivery.Event{Kind: delivery.Witnessed, Comment: "deleted"})
	})
	x.Fault("queue deleted under its consumer", func(int) {
		x.Must(x.Work.Pause(x.T.Context()))
		began, queue := x.Books.Len(), script.Queues[2]
		x.deleteQueue(queue)
		for _, kind := range []delivery.Kind{delivery.Ceased, delivery.Receiving} {
			x.See(began, delivery.Soon, fmt.Sprintf("%s, %q", queue, kind), func(e delivery.Event) bool { return e.Kind == kind && e.Queue == queue })
		}
		x.Work.Resume()
	})
	time.Sleep(script.Doom)
	if got := x.control().Queue("/", layouts.OrphansQueue).Counts().Ready; got != doomed {
		x.T.Errorf("orphans: got %d, want %d", got, doomed)
	}
	rules := x.rules(2, delivery.Ceased, delivery.Witnessed)
	rules.NoRetries = true // nothing is published while a queue is missing
	return rules
}

func (x *trial) deleteQueue(name string) {
	x.T.Helper()
	x.Must(x.control().Queue("/", name).Delete())
}

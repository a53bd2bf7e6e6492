package faults

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/delivery"
)

// childRole is the variable by which this test binary knows that it is to be a consumer.
const childRole = "REHOP_FAULTS_CHILD"

// orders are the instructions of a child.
type orders struct {
	URLs                  []string
	Script                delivery.Script
	Queue                 string
	Concurrency, Prefetch int
	Work                  time.Duration // so that there is always something unacked
}

// asChild is the main function of a process that is killed.
func asChild(work func() error) int {
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// consume consumes one queue until its input ends, and writes its history to its output.
func consume() error {
	var o orders
	if err := ordersOf(childRole, &o); err != nil {
		return err
	}
	if o.Script.Name != "" { // a layout is not handed over, but its name is
		script, err := delivery.LayoutScript(o.Script.Name, o.Script.Seed)
		if err != nil {
			return fmt.Errorf("orders of the child: %w", err)
		}
		o.Script = script
	}
	ctx := context.Background()
	lines := delivery.NewLines(os.Stdout)
	consumer := delivery.Consumer{Script: o.Script, Recorder: lines, Client: "child", Concurrency: o.Concurrency, Prefetch: o.Prefetch, Work: o.Work}
	client, err := rehop.Open(ctx, rehop.Config{URLs: o.URLs, Name: "child", Hooks: consumer.Hooks(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := consumer.Subscribe(ctx, client, o.Queue); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	if err := client.Close(ctx); err != nil {
		return err
	}
	return lines.Err()
}

// process is a running child.
type process struct {
	*worker
	x     *trial
	ended bool
}

// spawn starts a child and waits until it receives messages.
func (x *trial) spawn(o orders) *process {
	x.T.Helper()
	began := x.Books.Len()
	w, err := startWorker(childRole, o, x.Books.Import)
	x.Must(err)
	p := &process{worker: w, x: x}
	x.T.Cleanup(func() {
		if !p.ended {
			_ = p.cmd.Process.Kill()
			_, _ = p.wait()
		}
	})
	x.See(began, soon, "the child receives", func(e delivery.Event) bool {
		return e.Kind == delivery.Receiving && e.Client == "child"
	})
	return p
}

// kill kills the child, and returns when all that it had written is in the history.
func (p *process) kill(queue string) {
	p.x.T.Helper()
	p.x.Must(p.cmd.Process.Kill())
	if err := p.end(); err == nil {
		p.x.T.Error("the child ended in order although it was killed")
		return
	}
	p.x.Books.Record(delivery.Event{Kind: delivery.Killed, Client: "child", Queue: queue})
}

// stop lets the child finish what it is handling.
func (p *process) stop() {
	p.x.T.Helper()
	p.x.Must(p.input.Close())
	p.x.Must(p.end())
}

func (p *process) end() error {
	p.x.T.Helper()
	p.ended = true
	history, err := p.wait()
	p.x.Must(history)
	return err
}

// killProcess: kill -9 of a process that consumes, with unacked messages.
func killProcess(t *testing.T, r *lab.Rabbit, seed uint64) delivery.Report {
	x := newTrial(t, r, seed)
	return killConsumers(x, x.times(4, 40))
}

func killConsumers(x *trial, n int) delivery.Report {
	queue := x.Work.Script.Queues[0]
	x.Work.Remote = []string{queue}
	o := orders{URLs: x.Rabbit.URLs, Script: x.Work.Script, Queue: queue, Concurrency: 16, Prefetch: 48, Work: 20 * time.Millisecond}
	x.Work.Concurrency, x.Work.Prefetch = o.Concurrency, o.Prefetch
	running := x.spawn(o)
	x.start()
	for range n {
		x.Fault("consumer killed", func(int) {
			x.See(x.Books.Len(), soon, "a message in the child's hands", func(e delivery.Event) bool {
				return e.Kind == delivery.Start && e.Client == "child"
			})
			running.kill(queue)
			running = x.spawn(o)
		})
	}
	x.Run(200)
	rules := x.Work.Rules()
	rules.Faults, rules.Witness = n, delivery.Sees(delivery.Killed)
	report := x.finish(rules)
	running.stop()
	return report
}

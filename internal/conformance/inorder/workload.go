package inorder

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
)

// Workload is publishers, and processes that compete for an ordered queue.
type Workload struct {
	T      testing.TB
	Script Script
	// Config is how the client of a role reaches the broker. The roles are "publish", "operate", "audit", and the names of processes.
	Config  func(role string) rehop.Config
	History *History
	// Elsewhere are the processes if they are not in this one: what ends them. Default: two begin in this process.
	Elsewhere func()

	publisher *rehop.Client
	mu        sync.Mutex
	processes map[string]*running
	owned     map[string]map[string]bool // process: queues whose owner it is
	stopping  chan struct{}              // closed when no more messages are published
	producing sync.WaitGroup
	operator  *operator
}

// running is a process in this one.
type running struct {
	*Process
	client *rehop.Client
}

// standstill is how long no message may come or be over before a workload is given up: longer than a broker needs to start on a busy machine.
const standstill = 4 * time.Minute

// Start opens a publisher and two processes, and begins to publish.
func (w *Workload) Start(ctx context.Context) {
	w.T.Helper()
	if w.Script.Keys == 0 {
		w.Script.Keys = 40
	}
	w.History, w.processes, w.owned = NewHistory(), make(map[string]*running), make(map[string]map[string]bool)
	w.stopping = make(chan struct{})
	config := w.Config("publish")
	config.DisableResend = true // so that it is known what was published twice
	client, err := rehop.Open(ctx, config)
	if err != nil {
		w.T.Fatal(err)
	}
	w.publisher = client
	if w.Elsewhere == nil {
		w.Join(ctx, "first")
		w.Join(ctx, "second")
	}
	if w.Script.Halt {
		w.operator = w.operate(ctx)
	}
	for k := range w.Script.Keys {
		w.producing.Go(func() { w.produce(ctx, fmt.Sprint("k", k)) })
	}
}

// Join has a process subscribe.
func (w *Workload) Join(ctx context.Context, name string) {
	w.T.Helper()
	p := &Process{Script: w.Script, Name: name, Recorder: w.History}
	config := w.Config(name)
	config.Hooks = append(config.Hooks, p.Hooks(), rehop.Hooks{OnHeld: func(e rehop.HeldEvent) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.owned[name] == nil {
			w.owned[name] = make(map[string]bool)
		}
		w.owned[name][e.Queue] = e.Owner
	}})
	client, err := rehop.Open(ctx, config)
	if err != nil {
		w.T.Fatal(err)
	}
	if err := p.Subscribe(ctx, client); err != nil {
		w.T.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes[name] = &running{p, client}
}

// Leave has a process end in an orderly way.
func (w *Workload) Leave(ctx context.Context, name string) {
	w.T.Helper()
	w.mu.Lock()
	p := w.processes[name]
	delete(w.processes, name)
	w.mu.Unlock()
	if err := p.client.Close(ctx); err != nil {
		w.T.Logf("close %s: %v", name, err)
	}
}

// Names are those of the processes that subscribe, in the order of their names.
func (w *Workload) Names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.processes))
}

// produce publishes the messages of one key, each after the one before is confirmed.
func (w *Workload) produce(ctx context.Context, key string) {
	s := w.Script
	for n := 1; ; n++ {
		id := message{key, n}
		m := rehop.Message{Key: s.Queue, OrderKey: key, ID: idOf(s.Queue, id), Body: []byte(id.String())}
		if s.Partitions > 1 {
			m.Exchange = s.Queue + ".split"
		}
		for confirmed := false; !confirmed; {
			switch err := w.publisher.Publish(ctx, m); {
			case err == nil:
				w.History.Record(Event{Kind: Confirmed, Key: key, Number: n})
				confirmed = true
			case ctx.Err() != nil:
				return
			case errors.Is(err, rehop.ErrUnknown):
				w.History.Record(Event{Kind: Unknown, Key: key, Number: n, Comment: err.Error()})
			}
		}
		if !w.mayPublish(ctx, key) {
			return
		}
	}
}

func idOf(queue string, m message) string { return queue + "/" + m.String() }

// mayPublish waits while too many messages of a key are not over. False: no more are to be published.
func (w *Workload) mayPublish(ctx context.Context, key string) bool {
	for {
		open, fewer := w.History.openOf(key)
		select {
		case <-w.stopping:
			return false
		case <-ctx.Done():
			return false
		default:
		}
		if open < ahead {
			return true
		}
		select {
		case <-fewer:
		case <-w.stopping:
		case <-ctx.Done():
		}
	}
}

// Fault notes that a process, or all of them if the name is empty, may lose the broker until work has continued after how.
func (w *Workload) Fault(ctx context.Context, process, what string, n int, how func()) {
	w.T.Helper()
	w.T.Log(what, process)
	w.History.Record(Event{Kind: FaultBegins, Process: process, Comment: what})
	how()
	w.Run(ctx, n)
	w.History.Record(Event{Kind: FaultEnds, Process: process, Comment: what})
}

// Handles waits until one of the processes has begun n messages from now on, and returns its name.
func (w *Workload) Handles(ctx context.Context, n int) (process string) {
	w.T.Helper()
	after, _, _, _ := w.History.state()
	w.need(ctx, fmt.Sprintf("a process that handles %d messages", n), func() (ok bool) {
		process, ok = w.History.handles(after, n)
		return ok
	})
	return process
}

// Run waits until this many further messages are over.
func (w *Workload) Run(ctx context.Context, n int) {
	w.T.Helper()
	_, before, _, _ := w.History.state()
	w.need(ctx, fmt.Sprintf("%d more messages", n), func() bool {
		_, over, _, _ := w.History.state()
		return over >= before+n
	})
}

// Recycle waits until this many further sessions have ended, while messages are handled.
func (w *Workload) Recycle(ctx context.Context, n int) {
	w.T.Helper()
	before := w.History.sessions()
	w.need(ctx, fmt.Sprintf("%d sessions that end", n), func() bool { return w.History.sessions() >= before+n })
}

// Shared waits until each process is the owner of at least this many partitions.
func (w *Workload) Shared(ctx context.Context, least int) {
	w.T.Helper()
	w.need(ctx, fmt.Sprintf("%d partitions for each process", least), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for name := range w.processes {
			n := 0
			for _, owns := range w.owned[name] {
				if owns {
					n++
				}
			}
			if n < least {
				return false
			}
		}
		return true
	})
}

// need ends the test if a state is not reached, with what the audit finds then.
func (w *Workload) need(ctx context.Context, what string, ok func() bool) {
	w.T.Helper()
	if err := w.await(ctx, what, ok); err != nil {
		w.T.Error(err)
		w.Finish(ctx)
		w.T.FailNow()
	}
}

// await waits for a state of the history, as long as messages come or are over. A session that is begun again and again is no
// progress.
func (w *Workload) await(ctx context.Context, what string, ok func() bool) error {
	timer := time.NewTimer(standstill)
	defer timer.Stop()
	for before, first := [2]int{}, true; ; first = false {
		_, over, open, changed := w.History.state()
		if ok() {
			return nil
		}
		if now := [2]int{over, open}; first || now != before {
			before = now
			timer.Reset(standstill)
		}
		select {
		case <-changed:
		case <-timer.C:
			return fmt.Errorf("waiting for %s: none has come or is over for %v; %d messages are over, and %d are not", what, standstill, over, open)
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; %d messages are over, and %d are not", what, ctx.Err(), over, open)
		}
	}
}

// Finish stops publishing, waits until everything is over and the held queues are empty, and audits the history.
func (w *Workload) Finish(ctx context.Context) Report {
	w.T.Helper()
	close(w.stopping)
	w.producing.Wait()
	w.History.Record(Event{Kind: Stopped})
	w.mu.Lock()
	for _, p := range w.processes {
		p.Stop()
	}
	w.mu.Unlock()
	if err := w.await(ctx, "the end of all messages", func() bool {
		_, _, open, _ := w.History.state()
		return open == 0
	}); err != nil {
		w.T.Error(err)
	}
	w.operator.stop()
	if !w.Script.Unordered {
		w.awaitHeld(ctx)
	}
	if w.Elsewhere != nil {
		w.Elsewhere()
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, name := range w.Names() {
		w.Leave(closing, name)
	}
	_ = w.publisher.Close(closing)
	if err := w.search(closing); err != nil {
		w.T.Errorf("read the queues: %v", err)
	}
	events := w.History.Events()
	report := Audit(events, w.Script.Rules())
	report.Seed = w.Script.Seed
	if !report.OK() && !w.Script.Unordered {
		w.T.Errorf("%s\n%s\n%s", report.Line(), report.Faulty(), keep(events))
	}
	return report
}

// keep writes a history into a file, and returns where it is.
func keep(events []Event) string {
	file, err := os.CreateTemp("", "rehop-inorder-*.jsonl")
	if err != nil {
		return err.Error()
	}
	to := bufio.NewWriter(file)
	lines := json.NewEncoder(to)
	for _, e := range events {
		err = errors.Join(err, lines.Encode(e))
	}
	if err := errors.Join(err, to.Flush(), file.Close()); err != nil {
		return err.Error()
	}
	return "history kept in " + file.Name()
}

package inorder

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
)

// Workload is publishers, and processes that compete for an ordered queue.
type Workload struct {
	T     testing.TB
	Queue string
	// Config is how the client of a role reaches the broker. The roles are "publish", and the names of processes.
	Config func(role string) rehop.Config
	Keys   int // Default: 40
	// Partitions is how many queues the messages are spread over. Default: 1.
	Partitions int
	Audit      *Audit

	publisher *rehop.Client
	mu        sync.Mutex
	processes map[string]*rehop.Client
	owned     map[string]map[string]bool // process: queues whose owner it is
	stop      atomic.Bool
	producing sync.WaitGroup
}

const (
	concurrency = 8
	window      = 128
	steps       = 2
)

// errFails is what the handler returns.
var errFails = errors.New("fails by the script")

// Start opens a publisher and two processes, and begins to publish.
func (w *Workload) Start(ctx context.Context) {
	w.T.Helper()
	if w.Keys == 0 {
		w.Keys = 40
	}
	w.Audit, w.processes, w.owned = NewAudit(), make(map[string]*rehop.Client), make(map[string]map[string]bool)
	client, err := rehop.Open(ctx, w.Config("publish"))
	if err != nil {
		w.T.Fatal(err)
	}
	w.publisher = client
	w.Join(ctx, "first")
	w.Join(ctx, "second")
	for k := range w.Keys {
		w.producing.Go(func() { w.produce(ctx, fmt.Sprint("k", k)) })
	}
}

// Join has a process subscribe.
func (w *Workload) Join(ctx context.Context, name string) {
	w.T.Helper()
	config := w.Config(name)
	config.Hooks = append(config.Hooks, rehop.Hooks{OnConsumer: func(e rehop.ConsumerEvent) {
		if e.Up {
			w.Audit.TookOver()
		}
	}, OnHeld: func(e rehop.HeldEvent) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.owned[name] == nil {
			w.owned[name] = make(map[string]bool)
		}
		if e.Owner && !w.owned[name][e.Queue] && w.Partitions > 1 { // it may have got it from another process, which has not lost it
			w.Audit.TookOver()
		}
		w.owned[name][e.Queue] = e.Owner
	}})
	client, err := rehop.Open(ctx, config)
	if err != nil {
		w.T.Fatal(err)
	}
	if _, err := client.Subscribe(ctx, rehop.Subscriber{
		Queue: w.Queue, Concurrency: concurrency, Retry: rehop.Steps(100*time.Millisecond, 2500*time.Millisecond), OrderBy: keyOf,
		Partitions: w.Partitions, CrashLimit: 40,
		Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error { return w.handle(ctx, name, d) }),
	}); err != nil {
		w.T.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes[name] = client
}

// Leave has a process end in an orderly way.
func (w *Workload) Leave(ctx context.Context, name string) {
	w.T.Helper()
	w.mu.Lock()
	client := w.processes[name]
	delete(w.processes, name)
	w.mu.Unlock()
	if err := client.Close(ctx); err != nil {
		w.T.Logf("close %s: %v", name, err)
	}
	w.Audit.Gone(name)
}

func keyOf(d *rehop.Delivery) string {
	key, _, _ := strings.Cut(string(d.Body), "/")
	return key
}

// produce publishes the messages of one key, each after the one before is confirmed.
func (w *Workload) produce(ctx context.Context, key string) {
	for n := 1; !w.stop.Load(); n++ {
		m := rehop.Message{Key: w.Queue, OrderKey: key, ID: fmt.Sprint(w.Queue, "/", key, "/", n), Body: []byte(fmt.Sprint(key, "/", n))}
		if w.Partitions > 1 {
			m.Exchange = w.Queue + ".split"
		}
		for {
			err := w.publisher.Publish(ctx, m)
			if err == nil {
				w.Audit.Confirmed(key, n)
				break
			}
			if ctx.Err() != nil {
				return
			}
		}
		if w.ahead(ctx) != nil {
			return
		}
	}
}

// ahead waits while too many messages are not over.
func (w *Workload) ahead(ctx context.Context) error {
	for {
		confirmed, over, changed := w.Audit.counts()
		if confirmed-over < 5*w.Keys || w.stop.Load() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func fateOf(key string, n int) fate {
	h := fnv.New32a()
	fmt.Fprint(h, key, n)
	switch x := h.Sum32() % 200; {
	case x < 4:
		return late
	case x < 6:
		return hopeless
	}
	return good
}

func (w *Workload) handle(_ context.Context, process string, d *rehop.Delivery) error {
	key, number, _ := strings.Cut(string(d.Body), "/")
	n, err := strconv.Atoi(number)
	if err != nil {
		return rehop.Permanent(err)
	}
	w.Audit.Begin(process, key, n, fmt.Sprintf("attempt %d, redelivered %t", d.Attempt, d.Redelivered))
	var fails bool
	switch fateOf(key, n) {
	case late:
		fails = d.Attempt <= steps
	case hopeless:
		fails = true
	}
	w.Audit.End(process, key, n, !fails || d.Attempt > steps)
	if fails {
		return errFails
	}
	return nil
}

// Run waits until this many further messages are over.
func (w *Workload) Run(ctx context.Context, n int) {
	w.T.Helper()
	_, over, _ := w.Audit.counts()
	w.await(ctx, fmt.Sprintf("%d more messages", n), func(_, now int) bool { return now >= over+n })
}

// Shared waits until each process is the owner of at least this many partitions.
func (w *Workload) Shared(ctx context.Context, least int) {
	w.T.Helper()
	w.await(ctx, fmt.Sprintf("%d partitions for each process", least), func(int, int) bool {
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

// Finish stops publishing, waits until everything is over, and checks what was promised.
func (w *Workload) Finish(ctx context.Context) string {
	w.T.Helper()
	w.stop.Store(true)
	w.producing.Wait()
	w.await(ctx, "the end of all messages", func(confirmed, over int) bool { return confirmed == over })
	for name := range w.processes {
		w.Leave(ctx, name)
	}
	_ = w.publisher.Close(ctx)
	a := w.Audit
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.breaches {
		w.T.Error(b)
	}
	limit := a.takeovers * (window + concurrency + 1000)
	if a.repeats > limit {
		w.T.Errorf("%d repeats after %d takeovers, want at most %d", a.repeats, a.takeovers, limit)
	}
	return fmt.Sprintf("ordered=%d keys=%d lost=%d out-of-order=%d repeats=%d late=%d takeovers=%d", a.confirmed, len(a.keys), a.confirmed-a.over, len(a.breaches), a.repeats, a.late, a.takeovers)
}

// await waits for a state of the counts.
func (w *Workload) await(ctx context.Context, what string, ok func(confirmed, over int) bool) {
	w.T.Helper()
	for {
		confirmed, over, changed := w.Audit.counts()
		if ok(confirmed, over) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			w.T.Fatalf("waiting for %s: %d confirmed, %d over: %s", what, confirmed, over, w.missing())
		}
	}
}

// missing names messages that are not over.
func (w *Workload) missing() string {
	w.Audit.mu.Lock()
	defer w.Audit.mu.Unlock()
	var names []string
	for name, key := range w.Audit.keys {
		for i, e := range key {
			if e.confirmed && e.ended == 0 && len(names) < 20 {
				names = append(names, fmt.Sprintf("%s/%d (begun %d times)", name, i+1, e.begun))
				break
			}
		}
	}
	return strings.Join(names, ", ")
}

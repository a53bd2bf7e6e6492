package delivery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
)

// Workload publishes and handles messages while somebody else breaks things.
type Workload struct {
	Script  Script
	History *History
	// Config is how the client of a role reaches the broker; hooks are added to it. The roles are
	// "publish", "publish-once" and "consume".
	Config func(role string) rehop.Config
	// Dial opens a plain connection, by which the queues are looked at when all is over.
	Dial func(ctx context.Context) (*amqp.Connection, error)
	// Rate is how many messages are published per second. Default: 600.
	Rate int
	// Window is how many messages a producer has under way. Default: 64.
	Window int
	// PublishTimeout bounds one call of Publish. Default: 60 s.
	PublishTimeout time.Duration
	// Backlog is how many confirmed messages may wait to be handled before publishing slows down.
	// Default: 1000.
	Backlog int
	// Concurrency and Prefetch of each subscription. Default: 16 and 48.
	Concurrency, Prefetch int
	// CrashLimit of each subscription. Default: the library's.
	CrashLimit int
	// Work is how long a handler takes. Default: no time.
	Work time.Duration
	// Unstick is asked when nothing has moved for long, and reports whether it has repaired something on
	// the broker, so that it is worth waiting on. Nil: nothing can be done.
	Unstick func(ctx context.Context) bool
	// Remote queues are consumed by somebody else, who records in the same history.
	Remote []string

	publishing, once, consuming *rehop.Client
	consumer                    Consumer
	subscribers                 []*rehop.Subscription // those of the script's queues that are not remote
	searched                    []searched            // where messages may lie
	gate                        *valve
	stop                        context.CancelFunc // no new messages
	abort                       context.CancelFunc // and those under way are given up
	paced                       sync.WaitGroup
	producing                   sync.WaitGroup
}

// batchSize is how many messages the producer that uses PublishBatch sends at once.
const batchSize = 32

// Start opens the clients, subscribes and begins to publish.
func (w *Workload) Start(ctx context.Context) error {
	setDefault(&w.Rate, 600)
	setDefault(&w.Window, 64)
	setDefault(&w.PublishTimeout, time.Minute)
	setDefault(&w.Backlog, 1000)
	setDefault(&w.Concurrency, 16)
	setDefault(&w.Prefetch, 48)
	w.consumer = Consumer{Script: w.Script, Recorder: w.History, Client: "consume", Concurrency: w.Concurrency, Prefetch: w.Prefetch, CrashLimit: w.CrashLimit, Work: w.Work}
	plan, err := w.Script.plan()
	if err != nil {
		return fmt.Errorf("workload: %w", err)
	}
	w.searched = w.Script.places(plan)
	if w.consuming, err = w.open(ctx, "consume", false); err != nil {
		return err
	}
	for _, queue := range w.Script.Queues {
		if w.remote(queue) {
			continue
		}
		sub, err := w.Subscribe(ctx, queue)
		if err != nil {
			return err
		}
		w.subscribers = append(w.subscribers, sub)
	}
	if w.Script.Layout != nil {
		if err := w.watch(ctx, plan); err != nil {
			return fmt.Errorf("workload: %w", err)
		}
	}
	if w.publishing, err = w.open(ctx, "publish", false); err != nil {
		return err
	}
	if w.once, err = w.open(ctx, "publish-once", true); err != nil {
		return err
	}
	w.produce()
	return nil
}

func setDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

func (w *Workload) remote(queue string) bool {
	for _, q := range w.Remote {
		if q == queue {
			return true
		}
	}
	return false
}

func (w *Workload) open(ctx context.Context, role string, noResend bool) (*rehop.Client, error) {
	config := w.Config(role)
	config.DisableResend = noResend
	config.Exchanges = []rehop.Exchange{w.Script.exchange()}
	config.Hooks = append(config.Hooks, newHook(w.History, role).hooks())
	client, err := rehop.Open(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("workload: open client %q: %w", role, err)
	}
	return client, nil
}

// Subscribe begins to handle the messages of a further queue.
func (w *Workload) Subscribe(ctx context.Context, queue string) (*rehop.Subscription, error) {
	s, err := w.consumer.Subscribe(ctx, w.consuming, queue)
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	return s, nil
}

// Resubscribe stops the subscriptions, which then give back what they have not begun, and begins them anew.
func (w *Workload) Resubscribe(ctx context.Context) error {
	for i, old := range w.subscribers {
		if err := old.Stop(); err != nil {
			return fmt.Errorf("workload: %w", err)
		}
		sub, err := w.Subscribe(ctx, old.Queue())
		if err != nil {
			return err
		}
		w.subscribers[i] = sub
	}
	return nil
}

// produce starts the producers: one whose client sends again what is in doubt, one that does so by
// itself, and one that publishes in batches.
func (w *Workload) produce() {
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	// What is under way when publishing stops is brought to its end, unless the workload is closed.
	underway, abort := context.WithCancel(context.Background())
	w.abort = abort
	w.gate = newValve()
	producers := []*producer{
		{work: w, name: "a", client: "publish", rehop: w.publishing},
		{work: w, name: "b", client: "publish-once", rehop: w.once},
		{work: w, name: "c", client: "publish", rehop: w.publishing, batch: batchSize},
	}
	for _, p := range producers {
		tokens := make(chan struct{}, w.Window)
		w.paced.Go(func() { w.pace(ctx, tokens, len(producers)) })
		w.producing.Go(func() { p.run(underway, tokens) })
	}
}

// pace hands out the right to publish, at the workload's rate.
func (w *Workload) pace(ctx context.Context, tokens chan<- struct{}, producers int) {
	defer close(tokens)
	const grain = 10 * time.Millisecond
	tick := time.NewTicker(grain)
	defer tick.Stop()
	per := float64(w.Rate) / float64(producers) * grain.Seconds()
	for due, turn := 0.0, 0; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !w.gate.wait(ctx) {
			return
		}
		// Not to nothing: messages that stand still must not keep others from showing that work continues.
		if turn++; w.backlog() > w.Backlog && turn%10 != 0 {
			continue
		}
		for due += per; due >= 1; due-- {
			select {
			case tokens <- struct{}{}:
			default: // the producer cannot keep up: it does not have to make up for it
			}
		}
	}
}

// backlog is about how many messages wait: duplicates make it look smaller.
func (w *Workload) backlog() int {
	done := (w.History.Count(Handled) + w.History.Count(Parked)) / len(w.Script.Queues)
	return w.History.Count(Confirmed) - done
}

// Pause stops publishing and returns when everything that was confirmed has been handled.
func (w *Workload) Pause(ctx context.Context) error {
	w.gate.shut()
	return w.settled(ctx)
}

// Resume publishes again.
func (w *Workload) Resume() { w.gate.open() }

// PublishTo publishes n messages to a queue by its name, and returns when they are confirmed.
func (w *Workload) PublishTo(ctx context.Context, queue string, n int) {
	p := &producer{work: w, client: "publish", rehop: w.publishing}
	var underway sync.WaitGroup
	for i := range n {
		m := w.Script.Message(id(queue, i+1))
		m.Exchange, m.Key = "", queue
		underway.Go(func() { p.publish(ctx, m, queue) })
	}
	underway.Wait()
}

// Rules are those that follow from the workload itself; the fault's own are to be added.
func (w *Workload) Rules() Rules {
	r := Rules{
		Queues: w.Script.Queues, Fate: w.Script.Fate, Attempts: w.Script.Attempts(),
		KeepsUnrouted: w.Script.KeepsUnrouted, RedeliveryFails: w.Script.RedeliveryFails, Watched: w.Script.Layout != nil,
		Prefetch: make(map[string]int),
		Windows: map[string]int{
			// Two producers share this client; tokens that wait for a place are not under way.
			"publish": w.Window + batchSize,
			// Each handler may be moving a failed message.
			"consume": w.Concurrency * (len(w.Script.Queues) + 1),
		},
	}
	for _, q := range w.Script.Queues {
		r.Prefetch[q] = w.Prefetch
	}
	if w.Script.Doomed != "" {
		r.Prefetch[w.Script.Doomed] = w.Prefetch
	}
	return r
}

// Close ends everything that is still there; unacked messages go back to the broker.
func (w *Workload) Close(ctx context.Context) error {
	if w.abort != nil {
		w.abort()
	}
	w.stopPublishing()
	var faults []error
	for _, c := range []*rehop.Client{w.consuming, w.publishing, w.once} {
		if c != nil {
			faults = append(faults, c.Close(ctx))
		}
	}
	return errors.Join(faults...)
}

func (w *Workload) stopPublishing() {
	if w.stop == nil {
		return
	}
	w.stop()
	w.gate.open()
	w.paced.Wait()
	w.producing.Wait()
}

// valve lets waiters pass while it is open.
type valve struct {
	mu     sync.Mutex
	opened chan struct{} // closed while it is open
}

func newValve() *valve {
	v := &valve{opened: make(chan struct{})}
	close(v.opened)
	return v
}

func (v *valve) wait(ctx context.Context) bool {
	v.mu.Lock()
	opened := v.opened
	v.mu.Unlock()
	select {
	case <-opened:
		return true
	case <-ctx.Done():
		return false
	}
}

func (v *valve) shut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-v.opened:
		v.opened = make(chan struct{})
	default:
	}
}

func (v *valve) open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-v.opened:
	default:
		close(v.opened)
	}
}

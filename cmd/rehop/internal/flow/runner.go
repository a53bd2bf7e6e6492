package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/outbox"
)

// Runner runs flows. Run, Reload and Close are called by one goroutine, one after the other; Status by any.
type Runner struct {
	// Connect returns how to reach the broker of a file.
	Connect func(*config.File) (rehop.Config, error)
	// Observe returns an observer of a client, ObserveOutbox hooks for the relay of an outbox. Default: none.
	Observe       func() (Observer, error)
	ObserveOutbox func(name string) (outbox.Hooks, error)
	// ReloadTimeout is how long a reload waits until the flows that it starts consume. Default: 10 s.
	ReloadTimeout time.Duration
	// Guard is called for each flow that runs a program, and returns Started of its target.Command. Default: none.
	Guard  func() (started func(group int) (ended func()))
	Logger *slog.Logger

	mu      sync.Mutex // for current, which Status reads at any time
	current *generation

	retiring sync.WaitGroup // what a reload has replaced
	tally    tally
}

// Observer observes a client and the work of its flows.
type Observer struct {
	Hooks rehop.Hooks
	// Carry passes the trace of an attempt on to the target. Nil: there are no traces.
	Carry func(ctx context.Context, set func(name, value string))
}

// ErrConnect means that the broker cannot be used.
var ErrConnect = errors.New("connect to the broker")

// generation is everything that runs on one client.
type generation struct {
	file     *config.File
	client   *rehop.Client
	observer Observer
	guard    func() (started func(group int) (ended func()))
	watch    *watch
	flows    map[string]*running
	relays   map[string]*relaying
	refused  map[string]*refusal // flows that the broker does not accept, by name
	without  map[string]*refusal // exchanges of the file that the client does not declare, by name
}

// clientSettings are the parts of a file that need a new client when they change.
type clientSettings struct {
	Broker    []string
	TLS       config.TLS
	Exchanges []rehop.Exchange
	QueueType string
	MaxBody   int
}

func settingsOf(f *config.File) clientSettings {
	return clientSettings{f.Broker, f.TLS, f.Exchanges, string(f.QueueType), f.MaxBody}
}

// usualBuffer is a client's default limit for unconfirmed and for waiting bytes.
const usualBuffer = 64 << 20

// Start starts the flows and relays of a file. It does not wait for a broker that cannot be reached. A flow that the broker refuses does not
// keep the others from starting: call Retry when RetryAt is due.
func (r *Runner) Start(ctx context.Context, file *config.File) error {
	g, err := r.open(ctx, file, all())
	if err != nil {
		return err
	}
	r.startRelays(g)
	r.succeed(g)
	return nil
}

// succeed makes a generation the current one.
func (r *Runner) succeed(g *generation) {
	r.mu.Lock()
	before := r.current
	r.current = g
	r.mu.Unlock()
	if before != nil {
		before.watch.wake()
	}
}

// watching is the watch of what runs now. Nil: nothing was started yet.
func (r *Runner) watching() *watch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil {
		return nil
	}
	return r.current.watch
}

func (r *Runner) reloadTimeout() time.Duration { return cmp.Or(r.ReloadTimeout, 10*time.Second) }

// Reload changes to another file. Flows that are the same in both continue. Others are started, and when they consume, the old ones are
// drained. If a flow cannot be started, or does not consume in time, Reload returns an error and nothing changes.
func (r *Runner) Reload(ctx context.Context, file *config.File) (Changes, error) {
	if reflect.DeepEqual(settingsOf(r.current.file), settingsOf(file)) {
		return r.change(ctx, file)
	}
	if err := r.move(ctx, file, r.current.asNow()); err != nil {
		return Changes{}, err
	}
	return Changes{Client: true, Started: slices.Sorted(maps.Keys(r.current.flows))}, nil
}

// move starts everything on a new client, and when it consumes, drains what runs now.
func (r *Runner) move(ctx context.Context, file *config.File, tolerated tolerance) error {
	next, err := r.open(ctx, file, tolerated)
	if err != nil {
		return err
	}
	if err := next.watch.awaitConsuming(ctx, next.client, slices.Collect(maps.Values(next.flows)), r.reloadTimeout()); err != nil {
		r.retire(file.Drain, func(ctx context.Context) { _ = r.close(ctx, next) }) // some of its flows may be handling messages
		return fmt.Errorf("%w: %w", ErrConnect, err)
	}
	r.startRelays(next) // not before: they would take leases from the old ones, which have a working broker
	before := r.current
	r.succeed(next)
	r.retire(before.file.Drain, func(ctx context.Context) {
		_ = r.close(ctx, before)
		for name := range before.relays {
			if !slices.ContainsFunc(file.Outboxes, func(o config.Outbox) bool { return o.Name == name }) {
				r.reportGone(name)
			}
		}
	})
	return nil
}

// open starts a client and the flows on it.
func (r *Runner) open(ctx context.Context, file *config.File, tolerated tolerance) (*generation, error) {
	g, err := r.openClient(ctx, file, tolerated)
	if err != nil {
		return nil, err
	}
	for _, f := range file.Flows {
		begun, err := begin(ctx, g, f)
		if _, refused := errors.AsType[*rehop.TopologyError](err); refused {
			err = explainFlow(file.Path, f, err)
			if tolerated.flow(f) {
				var before *refusal
				if r.current != nil {
					before = r.current.refused[f.Name]
				}
				g.refused[f.Name] = r.refused(before, "flow", f.Name, f, err)
				continue
			}
		}
		if err != nil {
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			return nil, errors.Join(err, r.close(stopping, g))
		}
		g.flows[f.Name] = begun
	}
	g.watch.follow(g)
	return g, nil
}

// openWith starts a client that declares these exchanges.
func (r *Runner) openWith(ctx context.Context, file *config.File, exchanges []rehop.Exchange) (*generation, error) {
	settings, err := r.Connect(file)
	if err != nil {
		return nil, err
	}
	settings.Exchanges, settings.QueueType, settings.Logger = exchanges, file.QueueType, r.Logger
	if settings.MaxBody = file.MaxBody; file.MaxBody > usualBuffer {
		settings.MaxUnconfirmedBytes, settings.MaxWaitingBytes = file.MaxBody, file.MaxBody // otherwise it could never be sent
	}
	watch := &watch{file: file.Path}
	settings.Hooks = []rehop.Hooks{watch.hooks(), {OnResult: journal{r.Logger}.OnResult}, {OnResult: r.tally.OnResult}}
	var observer Observer
	if r.Observe != nil {
		if observer, err = r.Observe(); err != nil {
			return nil, err
		}
		settings.Hooks = append(settings.Hooks, observer.Hooks)
	}
	client, err := rehop.Open(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConnect, err)
	}
	return &generation{file: file, client: client, observer: observer, guard: r.Guard, watch: watch, flows: make(map[string]*running), relays: make(map[string]*relaying),
		refused: make(map[string]*refusal)}, nil
}

func (r *Runner) startRelays(g *generation) {
	for _, o := range g.file.Outboxes {
		g.relays[o.Name] = r.relay(g, o)
	}
}

// change applies a file to the current generation.
func (r *Runner) change(ctx context.Context, file *config.File) (Changes, error) {
	var changes Changes
	g := r.current
	begun, wanted, asNow := make(map[string]*running), make(map[string]bool), g.asNow()
	for _, f := range file.Flows {
		wanted[f.Name] = true
		before, ok := g.flows[f.Name]
		if ok && reflect.DeepEqual(before.flow, f) || asNow.flow(f) {
			continue
		}
		// The old one continues until the new one runs: both consume the queue for a moment, as two copies of the program do.
		next, err := begin(ctx, g, f)
		if err != nil {
			abandon(begun)
			return Changes{}, explainFlow(file.Path, f, err)
		}
		begun[f.Name] = next
		if ok || g.refused[f.Name] != nil {
			changes.Changed = append(changes.Changed, f.Name)
		} else {
			changes.Started = append(changes.Started, f.Name)
		}
	}
	if len(begun) > 0 {
		if err := g.watch.awaitConsuming(ctx, g.client, slices.Collect(maps.Values(begun)), r.reloadTimeout()); err != nil {
			abandon(begun)
			return Changes{}, err
		}
	}
	var ending []*running
	for name, before := range g.flows {
		if begun[name] == nil && wanted[name] {
			continue
		}
		ending = append(ending, before)
		delete(g.flows, name)
		if !wanted[name] {
			changes.Stopped = append(changes.Stopped, name)
		}
	}
	maps.Copy(g.flows, begun)
	for name := range g.refused {
		if begun[name] != nil || !wanted[name] {
			delete(g.refused, name)
			if !wanted[name] {
				changes.Stopped = append(changes.Stopped, name)
			}
		}
	}
	for _, e := range ending {
		r.retire(g.file.Drain, func(ctx context.Context) { r.end(ctx, e) })
	}
	r.changeRelays(file, &changes)
	g.file = file
	g.watch.follow(g)
	return changes.sorted(), nil
}

// abandon stops flows that were started in vain. Their unfinished messages return to the broker.
func abandon(flows map[string]*running) {
	for _, f := range flows {
		_ = f.sub.Stop()
		f.close()
	}
}

func (r *Runner) changeRelays(file *config.File, changes *Changes) {
	g := r.current
	wanted := make(map[string]config.Outbox)
	for _, o := range file.Outboxes {
		wanted[o.Name] = o
	}
	for name, before := range g.relays {
		next, ok := wanted[name]
		if ok && next == before.outbox {
			continue
		}
		delete(g.relays, name)
		before.cancel()
		r.retiring.Go(func() {
			<-before.ended
			if !ok {
				r.reportGone(name)
			}
		})
		if ok {
			changes.Changed = append(changes.Changed, name)
		} else {
			changes.Stopped = append(changes.Stopped, name)
		}
	}
	for _, o := range file.Outboxes {
		if g.relays[o.Name] == nil {
			g.relays[o.Name] = r.relay(g, o)
			if !slices.Contains(changes.Changed, o.Name) {
				changes.Started = append(changes.Started, o.Name)
			}
		}
	}
}

// retire ends something in the background, with a time limit.
func (r *Runner) retire(within time.Duration, end func(context.Context)) {
	r.retiring.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		end(ctx)
	})
}

// Close drains all flows and ends everything. When ctx ends, unfinished messages return to the broker.
func (r *Runner) Close(ctx context.Context) error {
	r.tally.close()
	var err error
	if r.current != nil {
		err = r.close(ctx, r.current)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.retiring.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		// Each has its own time limit. Their connections end with this program, and the broker requeues their messages.
	}
	return err
}

// close ends everything of a generation. The relays go first, because they publish with the client.
func (r *Runner) close(ctx context.Context, g *generation) error {
	for _, relay := range g.relays {
		relay.cancel()
	}
	for _, relay := range g.relays {
		select {
		case <-relay.ended:
		case <-ctx.Done():
		}
	}
	var ending sync.WaitGroup
	for _, f := range g.flows {
		ending.Go(func() { r.end(ctx, f) })
	}
	ending.Wait()
	return g.client.Close(ctx)
}

func (r *Runner) end(ctx context.Context, f *running) {
	defer f.close()
	if err := f.sub.Drain(ctx); err != nil {
		r.Logger.Warn("some messages were not handled in time and returned to the broker", "flow", f.flow.Name, "err", err)
	}
}

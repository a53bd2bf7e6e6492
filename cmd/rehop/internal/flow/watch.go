package flow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rehop/rehop"
)

// watch is the state of a generation's client and flows. Its hooks receive the events of the client.
type watch struct {
	file string // path, for errors

	mu       sync.Mutex
	client   *rehop.Client
	lost     error // why there is no connection
	followed []*running
	refused  []FlowStatus     // flows that do not run
	without  []ExchangeStatus // exchanges that are not declared
	queues   map[string]*standing
	news     chan struct{} // closed at the next change; nil: no goroutine waits for it
}

// standing is the state of a queue.
type standing struct {
	paused  bool
	pause   error // why it pauses
	down    error // why it is not consumed
	refused error // why the broker refuses the subscription
}

func (w *watch) hooks() rehop.Hooks {
	return rehop.Hooks{OnConsumer: w.OnConsumer, OnPause: w.OnPause, OnState: w.OnState}
}

// OnConsumer is called when a subscription starts or stops receiving messages.
func (w *watch) OnConsumer(e rehop.ConsumerEvent) {
	if e.Ended {
		return
	}
	w.change(e.Queue, func(s *standing) {
		s.down = e.Err
		if _, refused := errors.AsType[*rehop.TopologyError](e.Err); refused {
			s.refused = e.Err
		}
	})
}

// OnPause is called when a flow pauses or resumes.
func (w *watch) OnPause(e rehop.PauseEvent) {
	w.change(e.Queue, func(s *standing) { s.paused, s.pause = e.Paused, e.Err })
}

// expect clears an earlier refusal of the broker.
func (w *watch) expect(queue string) {
	w.change(queue, func(s *standing) { s.refused = nil })
}

func (w *watch) change(queue string, change func(*standing)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queues == nil {
		w.queues = make(map[string]*standing)
	}
	if w.queues[queue] == nil {
		w.queues[queue] = &standing{}
	}
	change(w.queues[queue])
	w.notify()
}

// OnState is called when the state of a connection changes.
func (w *watch) OnState(e rehop.StateChange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Err != nil {
		w.lost = e.Err
	}
	w.notify()
}

// notify wakes all goroutines that wait for a change. The caller holds the mutex.
func (w *watch) notify() {
	if w.news != nil {
		close(w.news)
		w.news = nil
	}
}

func (w *watch) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notify()
}

// next returns a channel that is closed at the next change.
func (w *watch) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.news == nil {
		w.news = make(chan struct{})
	}
	return w.news
}

// follow sets the flows that run now.
func (w *watch) follow(g *generation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.client, w.followed = g.client, slices.Collect(maps.Values(g.flows))
	w.refused, w.without = nil, nil
	for name, one := range g.refused {
		w.refused = append(w.refused, FlowStatus{Flow: name, Queue: one.flow.Subscriber.Queue, Refused: true, Error: one.err.Error()})
	}
	for name, one := range g.without {
		w.without = append(w.without, ExchangeStatus{name, one.err.Error()})
	}
	slices.SortFunc(w.without, func(a, b ExchangeStatus) int { return strings.Compare(a.Exchange, b.Exchange) })
	w.notify()
}

// status returns the state of the generation.
func (w *watch) status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Status{Broker: w.client.State(), Flows: append([]FlowStatus{}, w.refused...), Exchanges: w.without}
	if !s.connected() && w.lost != nil {
		s.Error = w.lost.Error()
	}
	for _, f := range w.followed {
		q := FlowStatus{Flow: f.flow.Name, Queue: f.flow.Subscriber.Queue, Consuming: f.sub.Receiving()}
		if known := w.queues[q.Queue]; known != nil {
			q.Paused = known.paused
			switch {
			case known.paused && known.pause != nil:
				q.Error = known.pause.Error()
			case !q.Consuming && known.down != nil:
				_, q.Refused = errors.AsType[*rehop.TopologyError](known.down)
				q.Error = explainFlow(w.file, f.flow, known.down).Error()
			}
		}
		s.Flows = append(s.Flows, q)
	}
	slices.SortFunc(s.Flows, func(a, b FlowStatus) int { return strings.Compare(a.Flow, b.Flow) })
	return s
}

// awaitConsuming waits until there is a connection and these flows consume. It ends when the broker refuses one of them.
func (w *watch) awaitConsuming(ctx context.Context, client *rehop.Client, flows []*running, timeout time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		next := w.next()
		final, missing := w.missing(client, flows)
		if missing == nil || final {
			return missing
		}
		select {
		case <-next:
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("not within %v: %w", timeout, missing)
		}
	}
}

// missing returns why flows do not consume, nil if all do, and whether waiting is useless.
func (w *watch) missing(client *rehop.Client, flows []*running) (final bool, err error) {
	connected := Status{Broker: client.State()}.connected()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range flows {
		queue := w.queues[f.flow.Subscriber.Queue]
		if queue != nil && queue.refused != nil {
			return true, fmt.Errorf("flow %q: %w", f.flow.Name, explainFlow(w.file, f.flow, queue.refused))
		}
		if connected && !f.sub.Receiving() {
			err = fmt.Errorf("flow %q does not consume", f.flow.Name)
			if queue != nil && queue.down != nil {
				err = fmt.Errorf("%w: %w", err, queue.down)
			}
		}
	}
	if !connected {
		err = errors.New("there is no connection to the broker")
		if w.lost != nil {
			err = fmt.Errorf("%w: %w", err, w.lost)
		}
	}
	return false, err
}

// AwaitReady waits until all flows consume. Call it after Start.
func (r *Runner) AwaitReady(ctx context.Context) error { return r.await(ctx, Status.Ready) }

// AwaitSettled waits until there is a connection, and each flow consumes or is refused by the broker. Call it after Start.
func (r *Runner) AwaitSettled(ctx context.Context) error { return r.await(ctx, Status.settled) }

func (r *Runner) await(ctx context.Context, is func(Status) bool) error {
	for {
		w := r.watching()
		next := w.next()
		if r.watching() != w { // a reload came between
			continue
		}
		if is(w.status()) {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Status returns the state of the runner.
func (r *Runner) Status() Status {
	if w := r.watching(); w != nil {
		return w.status()
	}
	return Status{Broker: rehop.StateRecovering, Flows: []FlowStatus{}}
}

// Status is the state of a runner.
type Status struct {
	Broker rehop.State  `json:"broker"`
	Error  string       `json:"error,omitempty"` // why there is no connection
	Flows  []FlowStatus `json:"flows"`
	// Exchanges are those of the file that the broker refuses.
	Exchanges []ExchangeStatus `json:"exchanges,omitempty"`
}

// ExchangeStatus is an exchange that the broker refuses, and why.
type ExchangeStatus struct {
	Exchange string `json:"exchange"`
	Error    string `json:"error"`
}

// FlowStatus is the state of a flow.
type FlowStatus struct {
	Flow      string `json:"flow"`
	Queue     string `json:"queue"`
	Consuming bool   `json:"consuming"`
	Paused    bool   `json:"paused,omitempty"`
	Refused   bool   `json:"refused,omitempty"` // the broker does not accept its exchange or queue; rehop keeps trying
	Error     string `json:"error,omitempty"`   // why it does not consume, or pauses
}

func (s Status) connected() bool {
	return s.Broker == rehop.StateOpen || s.Broker == rehop.StateBlocked
}

// The states of a flow, for metrics.
const (
	Consuming = "consuming"
	Paused    = "paused"
	Refused   = "refused"
	Waiting   = "waiting" // for the broker
)

// States are all states of a flow.
func States() []string { return []string{Consuming, Paused, Refused, Waiting} }

// State is the state of the flow.
func (f FlowStatus) State() string {
	switch {
	case f.Refused:
		return Refused
	case f.Paused:
		return Paused
	case f.Consuming:
		return Consuming
	}
	return Waiting
}

// settled reports whether no flow is about to start.
func (s Status) settled() bool {
	return s.connected() && !slices.ContainsFunc(s.Flows, func(f FlowStatus) bool { return !f.Consuming && !f.Refused })
}

// Ready reports whether all flows consume, and all exchanges are declared. A flow that pauses does: it waits for its target.
func (s Status) Ready() bool {
	return s.connected() && len(s.Exchanges) == 0 && !slices.ContainsFunc(s.Flows, func(f FlowStatus) bool { return !f.Consuming })
}

package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rehop/rehop"
)

// watch knows how a generation stands: what its client and its flows do. Its hooks are those of the client.
type watch struct {
	mu       sync.Mutex
	client   *rehop.Client
	lost     error // why there is no connection
	followed []*running
	queues   map[string]*standing
	news     chan struct{} // closed at the next change; nil: nobody waits for it
}

// standing is how a queue stands.
type standing struct {
	paused  bool
	pause   error // why it pauses
	down    error // why it is not consumed
	refused error // why the broker does not let it be consumed, since somebody asked for it
}

func (w *watch) hooks() rehop.Hooks {
	return rehop.Hooks{OnConsumer: w.OnConsumer, OnPause: w.OnPause, OnState: w.OnState}
}

// OnConsumer is called when a queue begins or ceases to be consumed.
func (w *watch) OnConsumer(e rehop.ConsumerEvent) {
	if e.Ended {
		return
	}
	w.change(e.Queue, func(s *standing) {
		s.down = e.Err
		if refusal := (*rehop.TopologyError)(nil); errors.As(e.Err, &refusal) {
			s.refused = e.Err
		}
	})
}

// OnPause is called when a flow pauses or resumes.
func (w *watch) OnPause(e rehop.PauseEvent) {
	w.change(e.Queue, func(s *standing) { s.paused, s.pause = e.Paused, e.Err })
}

// expect forgets what the broker has refused before.
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
	w.tell()
}

// OnState is called when a connection comes or goes.
func (w *watch) OnState(e rehop.StateChange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Err != nil {
		w.lost = e.Err
	}
	w.tell()
}

// tell is called with the mutex held, when something has changed.
func (w *watch) tell() {
	if w.news != nil {
		close(w.news)
		w.news = nil
	}
}

// wake has all look again who wait for news.
func (w *watch) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell()
}

// next is closed when something changes from now on.
func (w *watch) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.news == nil {
		w.news = make(chan struct{})
	}
	return w.news
}

// follow changes to what runs now.
func (w *watch) follow(g *generation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.client, w.followed = g.client, nil
	for _, f := range g.flows {
		w.followed = append(w.followed, f)
	}
	slices.SortFunc(w.followed, func(a, b *running) int { return strings.Compare(a.flow.Name, b.flow.Name) })
	w.tell()
}

// status says how the generation stands.
func (w *watch) status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Status{Broker: w.client.State(), Flows: []FlowStatus{}}
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
				q.Error = known.down.Error()
			}
		}
		s.Flows = append(s.Flows, q)
	}
	return s
}

// awaitConsuming waits until there is a connection and some flows consume. The broker's refusal of one ends the wait.
func (w *watch) awaitConsuming(ctx context.Context, client *rehop.Client, flows []*running, patience time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, patience)
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
			return fmt.Errorf("not within %v: %w", patience, missing)
		}
	}
}

// missing is what keeps flows from consuming, nil if nothing does, and whether it is of no use to wait.
func (w *watch) missing(client *rehop.Client, flows []*running) (final bool, err error) {
	connected := Status{Broker: client.State()}.connected()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range flows {
		queue := w.queues[f.flow.Subscriber.Queue]
		if queue != nil && queue.refused != nil {
			return true, fmt.Errorf("flow %q: %w", f.flow.Name, queue.refused)
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

// AwaitReady waits until all flows consume, once they have been started.
func (r *Runner) AwaitReady(ctx context.Context) error {
	for {
		w := r.watching()
		next := w.next()
		if r.watching() != w { // a reload came between
			continue
		}
		if w.status().Ready() {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Status says how the runner stands.
func (r *Runner) Status() Status {
	if w := r.watching(); w != nil {
		return w.status()
	}
	return Status{Broker: rehop.StateRecovering, Flows: []FlowStatus{}}
}

// Status is how the runner stands.
type Status struct {
	Broker rehop.State  `json:"broker"`
	Error  string       `json:"error,omitempty"` // why there is no connection
	Flows  []FlowStatus `json:"flows"`
}

// FlowStatus is how a flow stands.
type FlowStatus struct {
	Flow      string `json:"flow"`
	Queue     string `json:"queue"`
	Consuming bool   `json:"consuming"`
	Paused    bool   `json:"paused,omitempty"`
	Error     string `json:"error,omitempty"` // why it does not consume, or pauses
}

func (s Status) connected() bool {
	return s.Broker == rehop.StateOpen || s.Broker == rehop.StateBlocked
}

// Ready reports whether all flows consume. A flow that pauses does: it waits for its target.
func (s Status) Ready() bool {
	return s.connected() && !slices.ContainsFunc(s.Flows, func(f FlowStatus) bool { return !f.Consuming })
}

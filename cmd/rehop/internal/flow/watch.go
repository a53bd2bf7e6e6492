package flow

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// watch knows which queues are consumed, and which flows pause. It is a hook of the client.
type watch struct {
	mu       sync.Mutex
	client   *rehop.Client
	followed []config.Flow
	queues   map[string]*standing
	news     chan struct{} // closed at the next change; nil: nobody waits for it
}

// standing is how a queue stands.
type standing struct {
	up     bool
	paused bool
	err    error // why it is not consumed, or pauses
}

// OnConsumer is told when a queue begins or ceases to be consumed.
func (w *watch) OnConsumer(e rehop.ConsumerEvent) {
	w.change(e.Queue, func(s *standing) { s.up, s.err = e.Up, e.Err })
}

// OnPause is told when a flow pauses or goes on.
func (w *watch) OnPause(e rehop.PauseEvent) {
	w.change(e.Queue, func(s *standing) { s.paused, s.err = e.Paused, e.Err })
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

// OnState is told when a connection comes or goes.
func (w *watch) OnState(rehop.StateChange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell()
}

// tell is called with the mutex held, when something has changed.
func (w *watch) tell() {
	if w.news != nil {
		close(w.news)
		w.news = nil
	}
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
		w.followed = append(w.followed, f.flow)
	}
	w.tell()
	slices.SortFunc(w.followed, func(a, b config.Flow) int { return strings.Compare(a.Name, b.Name) })
}

// AwaitReady waits until all flows consume.
func (r *Runner) AwaitReady(ctx context.Context) error {
	for {
		next := r.watch.next()
		if r.Status().Ready() {
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
	w := &r.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client == nil {
		return Status{Broker: rehop.StateRecovering}
	}
	s := Status{Broker: w.client.State()}
	for _, f := range w.followed {
		q := FlowStatus{Flow: f.Name, Queue: f.Subscription.Queue}
		if known := w.queues[q.Queue]; known != nil {
			q.Consuming, q.Paused = known.up, known.paused
			if known.err != nil {
				q.Error = known.err.Error()
			}
		}
		s.Flows = append(s.Flows, q)
	}
	return s
}

// Status is how the runner stands.
type Status struct {
	Broker rehop.State  `json:"broker"`
	Flows  []FlowStatus `json:"flows"`
}

// FlowStatus is how a flow stands.
type FlowStatus struct {
	Flow      string `json:"flow"`
	Queue     string `json:"queue"`
	Consuming bool   `json:"consuming"`
	Paused    bool   `json:"paused,omitempty"`
	Error     string `json:"error,omitempty"`
}

// Ready reports whether all flows consume. A flow that pauses does: it waits for its target.
func (s Status) Ready() bool {
	if s.Broker != rehop.StateOpen && s.Broker != rehop.StateBlocked {
		return false
	}
	for _, q := range s.Flows {
		if !q.Consuming {
			return false
		}
	}
	return true
}

package console

import (
	"context"
	"sync"
	"time"

	"github.com/rehop/rehop/admin"
)

const (
	// figuresAge is how old figures may be. The broker's own are some seconds old, too.
	figuresAge = 2 * time.Second
	// outboxesWait is how long the figures wait for those of the outboxes: a database that hangs does not keep the broker's from a page.
	outboxesWait = 2 * time.Second
)

// figures reads the numbers of the queues, once for all who ask at about the same time.
type figures struct {
	ask func(context.Context) (state, error)

	mu   sync.Mutex
	last *reading // nil: there was none
}

// state is what the broker and the outboxes report at a time.
type state struct {
	admin.Overview
	nodes     []admin.Node
	nodesHide string // why the nodes are not known
	outboxes  []outboxView
	at        time.Time
}

// reading is one request to the broker. The other fields are set when done is closed.
type reading struct {
	done  chan struct{}
	state state
	err   error
}

// isOld reports whether figures must be read again. After an error they are.
func (r *reading) isOld() bool {
	select {
	case <-r.done:
		return r.err != nil || time.Since(r.state.at) >= figuresAge
	default:
		return false
	}
}

// get returns figures that are at most figuresAge old.
func (f *figures) get(ctx context.Context) (state, error) {
	f.mu.Lock()
	now, mine := f.last, f.last == nil || f.last.isOld()
	if mine {
		now = &reading{done: make(chan struct{})}
		f.last = now
	}
	f.mu.Unlock()
	if mine {
		// Others wait for the answer, so it does not end with this request.
		now.state, now.err = f.ask(context.WithoutCancel(ctx))
		now.state.at = time.Now()
		close(now.done)
	}
	select {
	case <-now.done:
		return now.state, now.err
	case <-ctx.Done():
		return state{}, ctx.Err()
	}
}

// askFigures reads the figures from the broker and from the outboxes.
func (c *Console) askFigures(ctx context.Context) (state, error) {
	var outboxes []outboxView
	var asking sync.WaitGroup
	asking.Go(func() { outboxes = c.outboxFigures(ctx) })
	s, err := c.brokerFigures(ctx)
	asking.Wait()
	s.outboxes = outboxes
	return s, err
}

func (c *Console) brokerFigures(ctx context.Context) (s state, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	a, end, err := c.connect(ctx)
	if err != nil {
		return s, err
	}
	defer end()
	if s.Overview, err = a.Queues(ctx); err != nil {
		return s, err
	}
	if s.nodes, err = a.Nodes(ctx); err != nil {
		s.nodesHide = err.Error() // a user without the tag monitoring may see the queues, and not the nodes
	}
	return s, nil
}

// outboxFigures are the backlogs of the outboxes, unless too many others use them.
func (c *Console) outboxFigures(ctx context.Context) []outboxView {
	if c.options.Outboxes == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, outboxesWait)
	defer cancel()
	select {
	case c.outboxing <- struct{}{}:
		defer func() { <-c.outboxing }()
	case <-ctx.Done():
		return nil
	}
	all, err := c.options.Outboxes(ctx)
	if err != nil {
		return []outboxView{{Name: "all outboxes", Wrong: err.Error()}}
	}
	return c.backlogs(ctx, all, outboxesWait)
}

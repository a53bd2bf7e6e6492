package console

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rehop/rehop/admin"
)

// recent is something that pages show besides the figures of the queues. It is read at most once at a time, by the request that finds it old; others show
// what was read before. So what does not answer delays one page, and no other.
type recent[T any] struct {
	// ask reads it, and returns for how long it is new.
	ask func(context.Context) (T, time.Duration)

	mu     sync.Mutex
	asking bool
	value  T
	until  time.Time
}

func (r *recent[T]) get(ctx context.Context) T {
	r.mu.Lock()
	if r.asking || time.Now().Before(r.until) {
		defer r.mu.Unlock()
		return r.value
	}
	r.asking = true
	r.mu.Unlock()
	var value T
	var until time.Time
	defer func() { // also if a function of the program panics
		r.mu.Lock()
		defer r.mu.Unlock()
		r.value, r.until, r.asking = value, until, false
	}()
	value, age := r.ask(ctx)
	until = time.Now().Add(age)
	return value
}

const (
	// recentWait is how long one request waits for nodes, or for outboxes.
	recentWait = 2 * time.Second
	nodesAge   = 10 * time.Second
	// outboxesAge is longer, because to count a large backlog costs a database something.
	outboxesAge = 15 * time.Second
	// silentAge is how long nobody asks again what has not answered in time.
	silentAge = 30 * time.Second
	// refusedAge is how long nobody asks for the nodes again after an error: a user who may not see them has each try in the broker's log.
	refusedAge = 10 * time.Minute
)

// nodesView is the nodes of the broker, or why they are not known.
type nodesView struct {
	nodes []admin.Node
	hide  string
}

func (c *Console) askNodes(ctx context.Context) (nodesView, time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(recentWait, c.options.Timeout))
	defer cancel()
	a, end, err := c.connect(ctx)
	if err != nil {
		return nodesView{hide: err.Error()}, nodesAge
	}
	defer end()
	nodes, err := a.Nodes(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nodesView{hide: "the management API does not answer in time"}, silentAge
	case err != nil:
		return nodesView{hide: err.Error()}, refusedAge
	}
	return nodesView{nodes: nodes}, nodesAge
}

func (c *Console) askOutboxes(ctx context.Context) ([]outboxView, time.Duration) {
	if c.options.Outboxes == nil {
		return nil, outboxesAge
	}
	wait := min(recentWait, c.options.Timeout)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()
	all, err := c.options.Outboxes(ctx)
	if err != nil {
		return []outboxView{{Name: "all outboxes", Wrong: err.Error()}}, silentAge
	}
	age, views := outboxesAge, c.backlogs(ctx, all, wait)
	for _, v := range views {
		if v.Wrong != "" {
			age = silentAge
		}
	}
	return views, age
}

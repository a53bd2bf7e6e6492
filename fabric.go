package rehop

import (
	"context"
	"sync"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/internal/topology"
)

// fabric declares parts of the topology when they are first needed on a connection.
type fabric struct {
	link *rabbit.Link

	mu    sync.Mutex
	epoch int
	ready map[string]struct{}
}

func newFabric(link *rabbit.Link) *fabric {
	return &fabric{link: link, ready: make(map[string]struct{})}
}

// reset forgets what has been declared: the next broker may not have it.
func (f *fabric) reset() {
	f.mu.Lock()
	f.epoch++
	clear(f.ready)
	f.mu.Unlock()
}

// ensure declares the plan unless that has been done on this connection.
func (f *fabric) ensure(ctx context.Context, part string, plan topology.Plan) error {
	f.mu.Lock()
	_, done := f.ready[part]
	epoch := f.epoch
	f.mu.Unlock()
	if done {
		return nil
	}
	if err := f.link.Declare(ctx, plan); err != nil {
		return err
	}
	f.mu.Lock()
	if f.epoch == epoch {
		f.ready[part] = struct{}{}
	}
	f.mu.Unlock()
	return nil
}

package rehoptest

import (
	"context"
	"sync"
	"time"

	"github.com/rehop/rehop"
)

// news wakes those who wait for something to happen.
type news struct {
	mu    sync.Mutex
	fresh chan struct{}
}

func (n *news) init() { n.fresh = make(chan struct{}) }

// next returns a channel that is closed when something happens.
func (n *news) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fresh
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.fresh)
	n.fresh = make(chan struct{})
}

// hooks wake those who wait for a queue.
func (n *news) hooks() rehop.Hooks {
	return rehop.Hooks{
		OnResult:     func(context.Context, *rehop.Delivery, rehop.Result) { n.tell() },
		OnPublishEnd: func(context.Context, *rehop.Message, time.Duration, error) { n.tell() },
	}
}

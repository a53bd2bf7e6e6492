package rehoptest

import (
	"context"
	"sync"
	"time"

	"github.com/rehop/rehop"
)

// signal wakes goroutines that wait for a change.
type signal struct {
	mu    sync.Mutex
	fresh chan struct{}
}

func (n *signal) init() { n.fresh = make(chan struct{}) }

// next returns a channel that is closed at the next change.
func (n *signal) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fresh
}

func (n *signal) wake() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.fresh)
	n.fresh = make(chan struct{})
}

// hooks wake goroutines that wait for a queue.
func (n *signal) hooks() rehop.Hooks {
	return rehop.Hooks{
		OnResult:     func(context.Context, *rehop.Delivery, rehop.Result) { n.wake() },
		OnPublishEnd: func(context.Context, *rehop.Message, time.Duration, error) { n.wake() },
	}
}

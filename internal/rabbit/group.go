package rabbit

import "sync"

// group waits for goroutines, and starts none after wait was called.
type group struct {
	mu      sync.Mutex
	running sync.WaitGroup
	closed  bool
}

// start runs f in a goroutine. False: the group has ended.
func (g *group) start(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Go(f)
	return true
}

// wait ends the group and returns when all have ended.
func (g *group) wait() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}

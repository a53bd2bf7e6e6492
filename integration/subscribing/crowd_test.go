package subscribing

import "sync"

// crowd counts how many are inside at once.
type crowd struct {
	mu       sync.Mutex
	now, max int
}

func (c *crowd) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	c.max = max(c.max, c.now)
}

func (c *crowd) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
}

func (c *crowd) inside() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *crowd) most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.max
}

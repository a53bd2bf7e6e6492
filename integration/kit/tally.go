package kit

import (
	"context"
	"sync"
	"testing"

	"github.com/rehop/rehop"
)

// Tally counts by name, from several goroutines. It is also a handler.
type Tally struct {
	mu     sync.Mutex
	counts map[string]int
}

// Handle counts by message id.
func (c *Tally) Handle(_ context.Context, d *rehop.Delivery) error {
	c.Add(d.ID)
	return nil
}

// Add counts a name, and returns how often it has been counted by now.
func (c *Tally) Add(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[string]int)
	}
	c.counts[name]++
	return c.counts[name]
}

// Len is how many names were counted.
func (c *Tally) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.counts)
}

// Of is how often a name was counted.
func (c *Tally) Of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[name]
}

// Sum is how often all names were counted.
func (c *Tally) Sum() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, k := range c.counts {
		n += k
	}
	return n
}

// WantSum checks Sum.
func (c *Tally) WantSum(t testing.TB, what string, want int) {
	t.Helper()
	if got := c.Sum(); got != want {
		t.Errorf("%s: got %d, want %d", what, got, want)
	}
}

// WantAttempts checks that a tally of attempts has each of the first three so often.
func (c *Tally) WantAttempts(t testing.TB, each int) {
	t.Helper()
	for _, attempt := range []string{"1", "2", "3"} {
		if got := c.Of(attempt); got != each {
			t.Errorf("runs of attempt %s: got %d, want %d", attempt, got, each)
		}
	}
}

package node

import (
	"sync"
	"time"
)

// tasks counts what runs in the background, so that Close can wait for it.
type tasks struct {
	mu      sync.Mutex
	idle    sync.Cond
	running int
	over    bool
}

// Enter starts a task; false: it is too late for that.
func (t *tasks) Enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.running++
	return true
}

// Leave ends a task.
func (t *tasks) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	if t.running == 0 {
		t.idle.Broadcast()
	}
}

// Run calls f as a task, unless it is too late for that.
func (t *tasks) Run(f func()) {
	if t.Enter() {
		defer t.Leave()
		f()
	}
}

// AfterFunc is time.AfterFunc for a task.
func (t *tasks) AfterFunc(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { t.Run(f) })
}

// Ended reports whether no more tasks can start.
func (t *tasks) Ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// end lets no more tasks start and waits for those that run.
func (t *tasks) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for t.running > 0 {
		t.idle.Wait()
	}
}

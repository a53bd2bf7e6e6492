package node

import "sync"

// tasks counts what runs in the background, so that Close can wait for it.
type tasks struct {
	mu      sync.Mutex
	idle    sync.Cond
	running int
	over    bool
	atClose map[int]func()
	next    int
}

func (t *tasks) init() {
	t.idle.L = &t.mu
	t.atClose = make(map[int]func())
}

// Enter begins a task; false: it is too late for that.
func (t *tasks) Enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.running++
	return true
}

func (t *tasks) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	if t.running == 0 {
		t.idle.Broadcast()
	}
}

// AtEnd has something called when the end begins, unless it is taken back before.
func (t *tasks) AtEnd(f func()) (takeBack func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := t.next
	t.next++
	t.atClose[id] = f
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.atClose, id)
	}
}

func (t *tasks) Ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// end lets no more tasks begin and waits for those that run.
func (t *tasks) end() {
	t.mu.Lock()
	t.over = true
	calls := t.atClose
	t.atClose = make(map[int]func())
	t.mu.Unlock()
	for _, f := range calls {
		f()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.running > 0 {
		t.idle.Wait()
	}
}

package inorder

import (
	"fmt"
	"slices"
	"sync"
)

// fate is what the script has for a message.
type fate int

const (
	good     fate = iota
	late          // it fails twice
	hopeless      // it always fails
)

// entry is what is known of one message.
type entry struct {
	confirmed bool
	ended     int    // how often it was handled, or has failed for good
	by        string // the process that handled it first
	begun     int
}

// Audit writes down what happens to the messages, and finds what must not.
type Audit struct {
	mu        sync.Mutex
	keys      map[string][]*entry // by number
	running   map[string]string   // what each process handles, by process and key
	breaches  []string
	examples  []string // of repeats
	confirmed int
	over      int // of the confirmed ones
	repeats   int // runs for messages that had ended
	late      int // of these, those after the end of a later message
	takeovers int
	changed   chan struct{}
}

// NewAudit returns an empty Audit.
func NewAudit() *Audit {
	return &Audit{keys: make(map[string][]*entry), running: make(map[string]string), changed: make(chan struct{})}
}

func (a *Audit) notify() {
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *Audit) breach(format string, args ...any) {
	if len(a.breaches) < 20 {
		a.breaches = append(a.breaches, fmt.Sprintf(format, args...))
	}
}

// entry returns what is known of a message; the first has the number 1.
func (a *Audit) entry(key string, n int) *entry {
	for len(a.keys[key]) < n {
		a.keys[key] = append(a.keys[key], new(entry))
	}
	return a.keys[key][n-1]
}

// Confirmed is called when the broker has a message.
func (a *Audit) Confirmed(key string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.entry(key, n)
	e.confirmed = true
	a.confirmed++
	if e.ended > 0 {
		a.over++
	}
	a.notify()
}

// Begin is called when a handler begins.
func (a *Audit) Begin(process, key string, n int, about string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.entry(key, n)
	e.begun++
	for i, earlier := range slices.Backward(a.keys[key][:n-1]) {
		if earlier.ended == 0 {
			a.breach("message %d of key %s has begun in %s, and %d had not ended", n, key, process, i+1)
		}
	}
	if other := a.running[process+key]; other != "" {
		a.breach("message %d of key %s has begun in %s while %s was running there", n, key, process, other)
	}
	a.running[process+key] = fmt.Sprint(n)
	if e.ended > 0 {
		if a.repeats++; len(a.examples) < 10 {
			a.examples = append(a.examples, fmt.Sprintf("%s/%d first by %s, now by %s: %s", key, n, e.by, process, about))
		}
		if slices.ContainsFunc(a.keys[key][n:], func(e *entry) bool { return e.ended > 0 }) {
			a.late++
		}
	}
}

// End is called when a handler has returned, and whether the message is over.
func (a *Audit) End(process, key string, n int, over bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.running, process+key)
	if !over {
		return
	}
	e := a.entry(key, n)
	if e.by == "" {
		e.by = process
	}
	if e.ended++; e.ended == 1 && e.confirmed {
		a.over++
	}
	a.notify()
}

// TookOver is called when another process, or another session, may handle messages from now on.
func (a *Audit) TookOver() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.takeovers++
}

// Gone is called when a process was stopped: what it was handling does not end.
func (a *Audit) Gone(process string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k := range a.running {
		if len(k) >= len(process) && k[:len(process)] == process {
			delete(a.running, k)
		}
	}
}

// Repeats is how many runs were for messages that had ended, with examples.
func (a *Audit) Repeats() (n int, examples []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.repeats, a.examples
}

// counts are how many messages were confirmed, and how many of these are over. The channel is closed when that changes.
func (a *Audit) counts() (confirmed, over int, changed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.confirmed, a.over, a.changed
}

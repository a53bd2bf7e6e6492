package consume

import (
	"bytes"
	"runtime"
	"sync"
)

// Inside knows which goroutines run a client's handlers and hooks, and for which subscription. Who
// waits for their end must not be one of them: it would wait for itself.
type Inside struct {
	mu         sync.Mutex
	goroutines map[string]*Subscription
}

// Enter notes that this goroutine works for a subscription; nil: for the client.
func (i *Inside) Enter(s *Subscription) (goroutine string) {
	goroutine = thisGoroutine()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.note(goroutine, s)
	return goroutine
}

// note is called with the mutex held.
func (i *Inside) note(goroutine string, s *Subscription) {
	if i.goroutines == nil {
		i.goroutines = make(map[string]*Subscription)
	}
	i.goroutines[goroutine] = s
}

// Visit is Enter for a goroutine of the user, which may work for a subscription already: then it
// continues to. The caller calls what it returns at the end.
func (i *Inside) Visit() (leave func()) {
	goroutine := thisGoroutine()
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, within := i.goroutines[goroutine]; within {
		return func() {}
	}
	i.note(goroutine, nil)
	return func() { i.Leave(goroutine) }
}

// Leave notes that nobody waits for a goroutine any more.
func (i *Inside) Leave(goroutine string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.goroutines, goroutine)
}

// Of reports whether this goroutine works for the client, and for which subscription.
func (i *Inside) Of() (s *Subscription, within bool) {
	goroutine := thisGoroutine()
	i.mu.Lock()
	defer i.mu.Unlock()
	s, within = i.goroutines[goroutine]
	return s, within
}

// thisGoroutine names the goroutine that calls it. Handlers may pass any context, or none of ours,
// so only the goroutine itself can say where a call comes from. It takes tens of microseconds, so
// it is asked for when goroutines start, once for a batch and when things end, and not for each
// message.
func thisGoroutine() string {
	line := make([]byte, 64)
	line = line[:runtime.Stack(line, false)] // "goroutine 7 [running]:…"
	line = bytes.TrimPrefix(line, []byte("goroutine "))
	number, _, _ := bytes.Cut(line, []byte(" "))
	return string(number)
}

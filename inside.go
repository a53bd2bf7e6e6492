package rehop

import (
	"bytes"
	"runtime"
	"sync"
)

// inside knows which goroutines run a client's handlers and hooks, and for which subscription. Who waits for their end must not be one
// of them: it would wait for itself.
type inside struct {
	mu         sync.Mutex
	goroutines map[string]*Subscription
}

// enter notes that this goroutine works for a subscription; nil: for the client.
func (i *inside) enter(s *Subscription) (goroutine string) {
	goroutine = thisGoroutine()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.note(goroutine, s)
	return goroutine
}

// note is called with the mutex held.
func (i *inside) note(goroutine string, s *Subscription) {
	if i.goroutines == nil {
		i.goroutines = make(map[string]*Subscription)
	}
	i.goroutines[goroutine] = s
}

// visit is enter for a goroutine of the user, which may work for a subscription already: then it continues to. The caller calls what it
// returns at the end.
func (i *inside) visit() (leave func()) {
	goroutine := thisGoroutine()
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, within := i.goroutines[goroutine]; within {
		return func() {}
	}
	i.note(goroutine, nil)
	return func() { i.leave(goroutine) }
}

// leave notes that nobody waits for a goroutine any more.
func (i *inside) leave(goroutine string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.goroutines, goroutine)
}

// of reports whether this goroutine works for the client, and for which subscription.
func (i *inside) of() (s *Subscription, within bool) {
	goroutine := thisGoroutine()
	i.mu.Lock()
	defer i.mu.Unlock()
	s, within = i.goroutines[goroutine]
	return s, within
}

// thisGoroutine names the goroutine that calls it. Handlers may pass any context, or none of ours, so only the goroutine itself can say
// where a call comes from. It takes tens of microseconds, so it is asked for when goroutines start, once for a batch and when things end, and
// not for each message.
func thisGoroutine() string {
	line := make([]byte, 64)
	line = line[:runtime.Stack(line, false)] // "goroutine 7 [running]:…"
	line = bytes.TrimPrefix(line, []byte("goroutine "))
	number, _, _ := bytes.Cut(line, []byte(" "))
	return string(number)
}

package consume

import (
	"bytes"
	"runtime"
	"sync"
)

// Inside knows which goroutines run a client's handlers and hooks, and for which subscription. Stop,
// Drain and Close must not be called on one of them: they would wait for themselves.
type Inside struct {
	goroutines sync.Map // of *Subscription by goroutine
}

// Enter notes that this goroutine works for a subscription; nil: for the client.
func (i *Inside) Enter(s *Subscription) (goroutine string) {
	goroutine = thisGoroutine()
	i.goroutines.Store(goroutine, s)
	return goroutine
}

// Visit is Enter for a goroutine that may work for a subscription or the client already: then it
// continues to, also after leave, which the caller calls at the end.
func (i *Inside) Visit(s *Subscription) (leave func()) {
	goroutine := thisGoroutine()
	if _, within := i.goroutines.LoadOrStore(goroutine, s); within {
		return func() {}
	}
	return func() { i.Leave(goroutine) }
}

// Leave notes that a goroutine has ended its work, or that nothing waits for it any more.
func (i *Inside) Leave(goroutine string) { i.goroutines.Delete(goroutine) }

// Of reports whether this goroutine works for the client, and for which subscription.
func (i *Inside) Of() (s *Subscription, within bool) {
	v, within := i.goroutines.Load(thisGoroutine())
	s, _ = v.(*Subscription)
	return s, within
}

// thisGoroutine names the goroutine that calls it. Handlers may pass any context, so only the goroutine
// itself identifies a call. It takes tens of microseconds, so it is called when goroutines start, once
// for a batch and when something ends, and not for each message.
func thisGoroutine() string {
	line := make([]byte, 64)
	line = line[:runtime.Stack(line, false)] // "goroutine 7 [running]:…"
	line = bytes.TrimPrefix(line, []byte("goroutine "))
	number, _, _ := bytes.Cut(line, []byte(" "))
	return string(number)
}

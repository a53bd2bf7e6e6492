package queue

import (
	"testing"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
)

// bin accepts everything and keeps the last item.
type bin struct{ last [1]Item }

func (b *bin) Deliver(it Item, _ *store.Content) bool {
	b.last[0] = it
	return true
}

func benchQueue() *Queue {
	began := time.Now()
	return New(Config{Type: Classic, Clock: func() time.Duration { return time.Since(began) + 1 }, Budget: &Budget{Limit: 1 << 30}, Wake: func() {}}, Unlimited())
}

// BenchmarkHandOver pushes a message to a waiting consumer and acks it. The message itself is one allocation.
func BenchmarkHandOver(b *testing.B) {
	q, content := benchQueue(), &store.Content{Body: make([]byte, 256)}
	sink := &bin{}
	c := &Consumer{Sink: sink}
	q.Subscribe(c)
	q.Resume(c)
	b.ReportAllocs()
	for b.Loop() {
		q.Push(NewMessage(content, 1), -1)
		q.Settle(sink.last[:])
	}
}

// BenchmarkBacklog pushes a message behind a thousand others, and gets and acks the first.
func BenchmarkBacklog(b *testing.B) {
	q, content := benchQueue(), &store.Content{Body: make([]byte, 256)}
	for range 1000 {
		q.Push(NewMessage(content, 1), -1)
	}
	var got [1]Item
	b.ReportAllocs()
	for b.Loop() {
		q.Push(NewMessage(content, 1), -1)
		got[0], _, _, _ = q.Get(false)
		q.Settle(got[:])
	}
}

// BenchmarkReturn returns a message, which is delivered again.
func BenchmarkReturn(b *testing.B) {
	q, content := benchQueue(), &store.Content{Body: make([]byte, 256)}
	sink := &bin{}
	c := &Consumer{Sink: sink}
	q.Subscribe(c)
	q.Resume(c)
	q.Push(NewMessage(content, 1), -1)
	b.ReportAllocs()
	for b.Loop() {
		q.Return(sink.last[:], true, true)
	}
}

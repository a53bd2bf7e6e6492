package queue

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
)

// worker consumes in its own goroutine.
type worker struct {
	Consumer
	inbox chan Item
}

func (w *worker) Deliver(it Item, _ *store.Content) bool {
	select {
	case w.inbox <- it:
		return true
	default:
		return false
	}
}

// TestConcurrency: with many users of a queue at once, each message is acked once.
func TestConcurrency(t *testing.T) {
	const publishers, each, workers = 4, 500, 3
	for _, kind := range []Type{Classic, Quorum} {
		began := time.Now()
		q := New(Config{Type: kind, Clock: func() time.Duration { return time.Since(began) + 1 }, Budget: &Budget{}, Wake: func() {}}, Unlimited())
		var acked sync.Map
		var left atomic.Int64
		left.Store(publishers * each)
		done := make(chan struct{})
		settle := func(it Item) {
			if !it.Redelivered { // everything is returned once
				q.Return([]Item{it}, it.Message.Size%2 == 0, true)
				return
			}
			if _, twice := acked.LoadOrStore(it.Message, true); twice {
				t.Error("a message was delivered again after its acknowledgement")
			}
			q.Settle([]Item{it})
			if left.Add(-1) == 0 {
				close(done)
			}
		}

		var all sync.WaitGroup
		for range publishers {
			all.Go(func() {
				for i := range each {
					q.Push(NewMessage(&store.Content{Body: make([]byte, i%10)}, 1), -1)
				}
			})
		}
		for i := range workers {
			w := &worker{inbox: make(chan Item, 5)}
			w.Consumer = Consumer{Sink: w, Tag: fmt.Sprint(i), Priority: i % 2}
			q.Subscribe(&w.Consumer)
			q.Resume(&w.Consumer)
			all.Go(func() {
				for {
					select {
					case it := <-w.inbox:
						settle(it)
						q.Resume(&w.Consumer)
					case <-done:
						return
					}
				}
			})
		}
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if it, content, _, _ := q.Get(false); content != nil {
					settle(it)
				}
				q.Status()
				q.Peek(3)
				q.Configure(Unlimited())
				q.Tick()
				q.TakeDead(false)
			}
		})
		all.Wait()
		if st := q.Status(); st.Ready != 0 || st.Unacked != 0 || st.ReadyBytes != 0 || st.UnackedBytes != 0 {
			t.Errorf("%s queue at the end: got %+v, want nothing", kind, st)
		}
		q.Stop()
	}
}

package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// benchQueue returns a client without hooks, and publishes n messages of 256 bytes to the queue of
// the given subscriber.
func benchQueue(b *testing.B, s rehop.Subscriber, n int) *rehop.Client {
	b.Helper()
	embedded := rehoptest.Open(b)
	config := embedded.Config()
	config.Hooks = nil
	c, err := rehop.Open(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	s.Handler = rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })
	declared, err := c.Subscribe(b.Context(), s)
	if err != nil {
		b.Fatal(err)
	}
	if err := declared.Drain(b.Context()); err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 256)
	for at := 0; at < n; at += 1000 {
		batch := make([]rehop.Message, min(1000, n-at))
		for i := range batch {
			batch[i] = rehop.Message{ID: fmt.Sprint(at + i), Key: s.Queue, Body: body}
		}
		if err := c.PublishBatch(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	return c
}

// benchConsume measures the time and the allocations, those of the embedded broker included, until
// the handler has returned the answer for b.N messages and the subscription is drained.
func benchConsume(b *testing.B, answer error, orderBy func(*rehop.Delivery) string) {
	s := rehop.Subscriber{Queue: "bench", Concurrency: 8, Prefetch: 256, Retry: rehop.NoRetry(), OrderBy: orderBy}
	c := benchQueue(b, s, b.N)
	var handled atomic.Int64
	done := make(chan struct{})
	s.Handler = rehop.HandlerFunc(func(ctx context.Context, _ *rehop.Delivery) error {
		if handled.Add(1) == int64(b.N) {
			close(done)
		}
		return answer
	})
	b.ReportAllocs()
	b.ResetTimer()
	running, err := c.Subscribe(b.Context(), s)
	if err != nil {
		b.Fatal(err)
	}
	<-done
	if err := running.Drain(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkConsume consumes messages that the handler handles at once.
func BenchmarkConsume(b *testing.B) { benchConsume(b, nil, nil) }

// BenchmarkConsumeInOrder consumes messages of a thousand keys in order.
func BenchmarkConsumeInOrder(b *testing.B) {
	benchConsume(b, nil, func(d *rehop.Delivery) string { return d.ID[max(0, len(d.ID)-3):] })
}

// BenchmarkFail consumes messages that go to the failed queue.
func BenchmarkFail(b *testing.B) { benchConsume(b, errors.New("no"), nil) }

// BenchmarkPublish publishes messages one at a time.
func BenchmarkPublish(b *testing.B) {
	c := benchQueue(b, rehop.Subscriber{Queue: "bench"}, 0)
	body := make([]byte, 256)
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		if err := c.Publish(b.Context(), rehop.Message{ID: "1", Key: "bench", Body: body}); err != nil {
			b.Fatal(err)
		}
	}
}

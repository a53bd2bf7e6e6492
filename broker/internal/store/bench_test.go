package store_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
)

// BenchmarkCommit has 64 publishers that commit messages of 256 B without waiting, and settles every
// message as a consumer would.
func BenchmarkCommit(b *testing.B) {
	for _, bb := range []struct {
		name string
		sync store.SyncMode
	}{{"synced", store.SyncAlways}, {"written", store.SyncNever}} {
		b.Run(bb.name, func(b *testing.B) {
			s, err := store.Open(store.Dir(b.TempDir()), store.Options{Sync: bb.sync})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			if err := s.Recover(nil, nil, nil); err != nil {
				b.Fatal(err)
			}
			queues := []store.QueueID{s.NewQueue()}
			body := make([]byte, 256)
			const publishers = 64
			b.ResetTimer()
			var all sync.WaitGroup
			for p := range publishers {
				all.Go(func() {
					var batch store.Batch
					for range b.N / publishers {
						m := new(store.Message)
						batch.Publish(m, store.Content{Exchange: "orders", Key: "created", Body: body}, store.Meta{Enqueued: int64(p), TTL: store.NoTTL}, queues)
						s.Commit(&batch)
						batch.Reset()
						if err := s.Throttle(context.Background()); err != nil {
							b.Error(err)
						}
						batch.Settle(m, queues[0])
						s.Commit(&batch)
						batch.Reset()
					}
				})
			}
			all.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// BenchmarkConfirmed has 64 publishers that wait until each message is durable.
func BenchmarkConfirmed(b *testing.B) {
	s, err := store.Open(store.Dir(b.TempDir()), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if err := s.Recover(nil, nil, nil); err != nil {
		b.Fatal(err)
	}
	queues := []store.QueueID{s.NewQueue()}
	body := make([]byte, 256)
	const publishers = 64
	b.ResetTimer()
	var all sync.WaitGroup
	for range publishers {
		all.Go(func() {
			var batch store.Batch
			for range b.N / publishers {
				batch.Publish(new(store.Message), store.Content{Body: body}, store.Meta{}, queues)
				if err := s.Wait(context.Background(), s.Commit(&batch)); err != nil {
					b.Error(err)
				}
				batch.Reset()
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(float64(b.N)/float64(max(s.Stats().Syncs, 1)), "msg/sync")
}

// BenchmarkRecover starts with 1 M messages of 1 KiB waiting.
func BenchmarkRecover(b *testing.B) {
	const messages = 1_000_000
	dir := store.Dir(b.TempDir())
	fill(b, dir, messages, 1024)
	type record struct{ store.Message }
	for b.Loop() {
		s, err := store.Open(dir, store.Options{})
		if err != nil {
			b.Fatal(err)
		}
		before := heap()
		start := time.Now()
		queue := make([]*store.Message, 0, messages)
		err = s.Recover(nil,
			func(store.Found) *store.Message { return &new(record).Message },
			func(m *store.Message, _ store.Hold) { queue = append(queue, m) })
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(start).Seconds(), "s")
		if len(queue) != messages {
			b.Fatalf("got %d messages, want %d", len(queue), messages)
		}
		b.ReportMetric(float64(heap()-before)/messages, "B/msg")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func fill(b *testing.B, fs store.FS, messages, size int) {
	s, err := store.Open(fs, store.Options{Sync: store.SyncNever})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Recover(nil, nil, nil); err != nil {
		b.Fatal(err)
	}
	queues := []store.QueueID{s.NewQueue()}
	body := make([]byte, size)
	var batch store.Batch
	for range messages {
		batch.Publish(new(store.Message), store.Content{Body: body}, store.Meta{}, queues)
		s.Commit(&batch)
		batch.Reset()
		if err := s.Throttle(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

package store_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

// gate blocks the syncs of a disk.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil while open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.closed)
	g.closed = nil
}

func (g *gate) pass(op storetest.Operation, _ string) (int, error) {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if op == storetest.Write && closed != nil {
		<-closed
	}
	return 0, nil
}

func TestSyncedMeansSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := storetest.NewDisk()
		var g gate
		disk.Fault = g.pass
		var marks []store.Mark
		u := newUser(t, 1)
		u.open(disk, store.Options{Synced: func(m store.Mark) { marks = append(marks, m) }})
		synctest.Wait()
		g.shut()
		first := u.step()
		u.wants(first)
		synctest.Wait()
		var last store.Mark
		for range 10 {
			last = max(last, u.step())
		}
		u.wants(last)
		synctest.Wait()
		if len(marks) > 0 || u.store.Durable() >= first {
			t.Errorf("got marks %v confirmed before anything was written, want none", marks)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := u.store.Wait(ctx, first); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v from Wait, want %v", err, context.Canceled)
		}
		g.open()
		u.wait(last)
		synctest.Wait()
		// What arrives while the first group is written becomes the second.
		if want := []store.Mark{first, last}; !slices.Equal(marks, want) {
			t.Errorf("got marks %v confirmed, want %v", marks, want)
		}
		u.close()
		if err := u.store.Wait(t.Context(), last); err != nil {
			t.Errorf("got %v from Wait for a durable mark after Close, want nil", err)
		}
		if err := u.store.Wait(t.Context(), last+100); !errors.Is(err, store.ErrClosed) {
			t.Errorf("got %v from Wait after Close, want %v", err, store.ErrClosed)
		}
		if err := u.store.Throttle(t.Context()); !errors.Is(err, store.ErrClosed) {
			t.Errorf("got %v from Throttle after Close, want %v", err, store.ErrClosed)
		}
		if err := u.store.Close(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("got %v from the second Close, want %v", err, store.ErrClosed)
		}
	})
}

// wants waits for a mark in a goroutine.
func (u *user) wants(mark store.Mark) {
	go func() { _ = u.store.Wait(context.Background(), mark) }()
}

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := storetest.NewDisk()
		var g gate
		disk.Fault = g.pass
		u := newUser(t, 2)
		u.open(disk, store.Options{})
		synctest.Wait()
		g.shut()
		var b store.Batch
		for range 15 {
			u.publish(&b, 1<<20)
			u.commit(&b)
			b.Reset()
			if err := u.store.Throttle(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		u.publish(&b, 2<<20)
		u.commit(&b)
		returned := make(chan error)
		go func() { returned <- u.store.Throttle(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-returned:
			t.Fatalf("got %v from Throttle with 17 MiB waiting, want it to wait", err)
		default:
		}
		g.open()
		if err := <-returned; err != nil {
			t.Errorf("got %v from Throttle, want nil", err)
		}
		u.close()
	})
}

func TestEmptyBatch(t *testing.T) {
	u := newUser(t, 3)
	u.open(storetest.NewDisk(), store.Options{})
	defer u.close()
	var b store.Batch
	var unstored store.Message
	b.Publish(&unstored, store.Content{}, store.Meta{}, nil)
	b.Settle(&unstored, 1)
	b.Count(&unstored, 1, 1)
	if mark := u.store.Commit(&b); mark != 0 || unstored.Stored() {
		t.Errorf("got mark %d, stored %v; want mark 0 and nothing stored", mark, unstored.Stored())
	}
	if mark := u.store.Define(nil, nil); mark != 0 {
		t.Errorf("got mark %d for no definitions, want 0", mark)
	}
	if err := u.store.Wait(t.Context(), 0); err != nil {
		t.Errorf("got %v for mark 0, want nil", err)
	}
}

// Contents of every size can be read, also those larger than a segment.
func TestSizes(t *testing.T) {
	disk := storetest.NewDisk()
	o := store.Options{SegmentSize: 4096}
	u := newUser(t, 4)
	u.open(disk, o)
	for _, size := range []int{0, 1, 4095, 4096, 4097, 64 << 10, 64<<10 + 1, 3 << 20} {
		var b store.Batch
		u.publish(&b, size)
		u.commit(&b)
	}
	long := &mail{content: store.Content{Exchange: strings.Repeat("e", 255), Key: strings.Repeat("k", 255), Properties: bytes.Repeat([]byte{1}, 100_000)}}
	long.meta = store.Meta{Enqueued: -1, TTL: 1<<32 - 1, Priority: 255, HasPriority: true, Persistent: true}
	long.queues = u.queues
	var b store.Batch
	b.Publish(&long.Message, long.content, long.meta, long.queues)
	u.live = append(u.live, long)
	u.wait(u.commit(&b))
	for _, m := range u.live {
		if got, err := u.store.Read(&m.Message); err != nil || !equalContent(got, m.content) {
			t.Errorf("message %d: got %d bytes, %v; want %d bytes", m.Seq(), len(got.Body), err, len(m.content.Body))
		}
	}
	u.close()
	u.mustRecover(disk, o, u.durable())
}

func TestMisuse(t *testing.T) {
	s, err := store.Open(storetest.NewDisk(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var stored store.Message
	var b store.Batch
	b.Publish(&stored, store.Content{}, store.Meta{}, []store.QueueID{1})
	mustPanic(t, "Commit before Recover", func() { s.Commit(&b) })
	mustPanic(t, "Define before Recover", func() { s.Define([]store.Definition{{}}, nil) })
	if err := s.Recover(nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	s.Commit(&b)
	mustPanic(t, "Publish of a stored message", func() { b.Publish(&stored, store.Content{}, store.Meta{}, []store.QueueID{1}) })
	mustPanic(t, "Publish with a key of 256 bytes", func() {
		b.Publish(new(store.Message), store.Content{Key: strings.Repeat("k", 256)}, store.Meta{}, []store.QueueID{1})
	})
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: got no panic, want one", what)
		}
	}()
	f()
}

// After many publishers and consumers at once, what each did is stored.
func TestConcurrentCommits(t *testing.T) {
	dir := store.Dir(t.TempDir())
	o := store.Options{SegmentSize: 64 << 10}
	s, err := store.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Recover(nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	queues := []store.QueueID{s.NewQueue(), s.NewQueue()}
	want := make(holds)
	var mu sync.Mutex
	var all sync.WaitGroup
	for p := range 8 {
		all.Go(func() {
			var b store.Batch
			for i := range 1000 {
				m := new(store.Message)
				body := bytes.Repeat([]byte{byte(p)}, i%500)
				b.Publish(m, store.Content{Body: body}, store.Meta{TTL: store.NoTTL}, queues)
				s.Commit(&b)
				b.Reset()
				if got, err := s.Read(m); err != nil || !bytes.Equal(got.Body, body) {
					t.Errorf("got %d bytes, %v; want %d", len(got.Body), err, len(body))
				}
				b.Settle(m, queues[0])
				if i%10 > 0 {
					b.Settle(m, queues[1])
				} else {
					mu.Lock()
					want[hold{m.Seq(), queues[1]}] = 0
					mu.Unlock()
				}
				s.Commit(&b)
				b.Reset()
			}
		})
	}
	all.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := recoverFrom(dir, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.store.Close()
	if sumHolds(r.holds) != sumHolds(want) {
		t.Errorf("got %d claims after a restart, want %d", len(r.holds), len(want))
	}
}

// A commit after the end of the log is not stored.
func TestCommitWhileClosing(t *testing.T) {
	disk := storetest.NewDisk()
	u := newUser(t, 5)
	var late store.Message
	var mark, defined store.Mark
	u.open(disk, store.Options{SegmentSize: 4096, Crash: func(point string) {
		if point == "before the end is noted" {
			var b store.Batch
			b.Publish(&late, store.Content{Body: make([]byte, 5000)}, store.Meta{}, u.queues)
			mark = u.store.Commit(&b)
			defined = u.store.Define([]store.Definition{{Key: "late"}}, nil)
		}
	}})
	u.wait(u.step())
	u.close()
	if late.Stored() || mark <= u.store.Durable() || defined <= u.store.Durable() {
		t.Errorf("got stored %v, marks %d and %d with %d durable; want nothing stored nor durable", late.Stored(), mark, defined, u.store.Durable())
	}
	u.mustRecover(disk, store.Options{SegmentSize: 4096}, u.durable())
}

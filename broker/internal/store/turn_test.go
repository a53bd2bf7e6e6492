package store_test

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

// A commit becomes durable soon, and at once if somebody waits for it.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := storetest.NewDisk()
		u := newUser(t, 1)
		u.open(disk, store.Options{})
		time.Sleep(aWhile)
		syncs := u.store.Stats().Syncs
		first := u.step()
		second := u.step()
		if synctest.Wait(); u.store.Durable() >= first {
			t.Errorf("got mark %d durable though nobody waits for it, want it to wait for company", u.store.Durable())
		}
		time.Sleep(aWhile)
		if got := u.store.Stats().Syncs - syncs; u.store.Durable() < second || got != 1 {
			t.Errorf("got mark %d durable by %d syncs after a while, want %d by one", u.store.Durable(), got, second)
		}
		mark := u.step()
		u.store.Flush() // writes itself, because nobody else does
		if u.store.Durable() < mark || u.durable() < mark {
			t.Errorf("got mark %d durable and %d reported after Flush, want %d", u.store.Durable(), u.durable(), mark)
		}
		mark = u.step()
		u.wants(mark)
		if synctest.Wait(); u.store.Durable() < mark {
			t.Errorf("got mark %d durable and somebody waits for %d", u.store.Durable(), mark)
		}
		u.store.Flush() // with nothing to do
		var b store.Batch
		u.publish(&b, 100_000)
		mark = u.commit(&b)
		if synctest.Wait(); u.store.Durable() < mark {
			t.Errorf("got mark %d durable, want %d: so much is not kept waiting", u.store.Durable(), mark)
		}
		u.close()
		u.mustRecover(disk, store.Options{}, mark)
	})
}

// When there are no commits for a while, the log gets a note that it is synced, but not after every commit
// of a sequential publisher.
func TestNoteAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := storetest.NewDisk()
		u := newUser(t, 2)
		groups := 0
		u.open(disk, store.Options{Crash: func(point string) {
			if point == "before a group is written" {
				groups++
			}
		}})
		time.Sleep(aWhile)
		groups = 0
		var b store.Batch
		for range 50 {
			u.publish(&b, 10)
			u.commit(&b)
			b.Reset()
			u.store.Flush()
			time.Sleep(time.Millisecond)
		}
		if synctest.Wait(); groups != 50 {
			t.Errorf("got %d groups written for 50 commits a millisecond apart, want no notes between them", groups)
		}
		mark := u.step()
		u.store.Flush()
		u.wait(mark)
		written := u.store.Stats().Written
		if synctest.Wait(); u.store.Stats().Written != written {
			t.Error("got a note at once, want none before the log is at rest")
		}
		time.Sleep(aWhile)
		if u.store.Stats().Written == written {
			t.Error("got no note though the log is at rest")
		}
		written = u.store.Stats().Written
		if time.Sleep(time.Hour); u.store.Stats().Written != written {
			t.Error("got more than one note in a log at rest")
		}
		u.close()
	})
}

// A caller of Flush does not wait for room on the disk. The committer does.
func TestFlushWhenDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := storetest.NewDisk()
		u := newUser(t, 3)
		u.open(disk, store.Options{DiskReserve: -1})
		u.wait(u.step())
		time.Sleep(aWhile)
		disk.SetCapacity(disk.Used())
		var b store.Batch
		u.publish(&b, 65_300) // more than the zeros after the end, and less than what is written without Flush
		mark := u.commit(&b)
		began := time.Now()
		u.store.Flush()
		if took := time.Since(began); took > 0 || u.store.Durable() >= mark {
			t.Errorf("Flush on a full disk took %v, mark %d durable; want it back at once without %d", took, u.store.Durable(), mark)
		}
		time.Sleep(time.Minute)
		b.Reset()
		last := u.step()
		u.store.Flush()
		disk.SetCapacity(1 << 40)
		u.wait(last)
		u.close()
		u.mustRecover(disk, store.Options{}, last)
	})
}

// If a write of a caller of Flush fails, the log fails, as with the committer.
func TestFlushFails(t *testing.T) {
	for _, op := range []storetest.Operation{storetest.Write, storetest.Sync} {
		synctest.Test(t, func(t *testing.T) {
			disk := storetest.NewDisk()
			var mu sync.Mutex
			armed := false
			disk.Fault = func(got storetest.Operation, _ string) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				if armed && got == op {
					return 3, syscall.EIO
				}
				return 0, nil
			}
			failures := 0
			u := newUser(t, 4)
			u.open(disk, store.Options{Failed: func(error) { failures++ }})
			u.wait(u.step())
			durable := u.durable()
			mu.Lock()
			armed = true
			mu.Unlock()
			mark := u.step()
			for range 3 {
				u.store.Flush()
			}
			if synctest.Wait(); failures != 1 || u.store.Durable() >= mark {
				t.Errorf("%s: got %d failures, mark %d durable; want one failure and less than %d", op, failures, u.store.Durable(), mark)
			}
			if err := u.store.Close(); !errors.Is(err, syscall.EIO) {
				t.Errorf("%s: got %v from Close, want %v", op, err, syscall.EIO)
			}
			disk.Fault = nil
			u.mustRecover(disk, store.Options{}, durable)
		})
	}
}

// Close waits for callers of Flush, and writes what was committed in the meantime.
func TestCloseDuringFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := storetest.NewDisk()
		var g gate
		disk.Fault = g.pass
		u := newUser(t, 5)
		u.open(disk, store.Options{})
		u.wait(u.step())
		time.Sleep(aWhile)
		g.shut()
		u.step()
		go u.store.Flush()
		synctest.Wait()
		last := u.step()
		closed := make(chan error)
		go func() { closed <- u.store.Close() }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatalf("got %v from Close while somebody writes, want it to wait", err)
		default:
		}
		g.open()
		if err := <-closed; err != nil || u.store.Durable() < last {
			t.Errorf("got %v from Close with mark %d durable, want %d", err, u.store.Durable(), last)
		}
		u.mustRecover(disk, store.Options{}, last)
	})
}

// Many flush at once on a real disk, and each commit becomes durable.
func TestConcurrentFlushes(t *testing.T) {
	dir := store.Dir(t.TempDir())
	o := store.Options{SegmentSize: 64 << 10}
	s, err := store.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Recover(nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	queues := []store.QueueID{s.NewQueue()}
	const publishers, messages = 8, 100
	var all sync.WaitGroup
	for range publishers {
		all.Go(func() {
			var b store.Batch
			for range messages {
				b.Publish(new(store.Message), store.Content{Body: make([]byte, 300)}, store.Meta{}, queues)
				mark := s.Commit(&b)
				b.Reset()
				s.Flush()
				if err := s.Wait(t.Context(), mark); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mustCheck(t, dir, publishers*messages)
}

package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

// After a failed write or sync, nothing is confirmed, nothing is synced again, and a restart finds
// everything that was confirmed.
func TestWriteErrors(t *testing.T) {
	for _, op := range []storetest.Operation{storetest.Write, storetest.Sync, storetest.SyncDir, storetest.Create} {
		for _, written := range []int{0, 7, 1 << 20} {
			for after := range 12 {
				name := fmt.Sprintf("%s fails after %d, %d bytes written", op, after, written)
				t.Run(name, func(t *testing.T) { testWriteError(t, op, after, written) })
			}
		}
	}
}

func testWriteError(t *testing.T, op storetest.Operation, after, written int) {
	disk := storetest.NewDisk()
	disk.LosesFailed = true
	var mu sync.Mutex
	armed, seen, failed, again := false, 0, false, 0
	disk.Fault = func(got storetest.Operation, _ string) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		if failed && (got == storetest.Sync || got == storetest.SyncDir) {
			again++
		}
		if got == op && armed {
			if seen++; seen > after {
				failed = true
				return written, syscall.EIO
			}
		}
		return 0, nil
	}
	failures := make(chan error, 10)
	u := newUser(t, uint64(after))
	u.open(disk, store.Options{
		SegmentSize: 4096,
		Synced: func(m store.Mark) {
			mu.Lock()
			defer mu.Unlock()
			// If an index cannot be created, the store does not fail.
			if failed && op != storetest.Create {
				t.Errorf("got mark %d confirmed after the %s failed, want none", m, op)
			}
		},
		Failed: func(err error) { failures <- err },
	})
	mu.Lock()
	armed = true
	mu.Unlock()
	var err error
	for range 2000 {
		if mark := u.step(); u.rng.IntN(3) == 0 {
			if err = u.store.Wait(context.Background(), mark); err != nil {
				break
			}
		}
	}
	if !errors.Is(err, syscall.EIO) {
		t.Fatalf("got %v from Wait, want %v", err, syscall.EIO)
	}
	if got := <-failures; !errors.Is(got, syscall.EIO) {
		t.Errorf("got Failed(%v), want %v", got, syscall.EIO)
	}
	if err := u.store.Throttle(context.Background()); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v from Throttle, want %v", err, syscall.EIO)
	}
	// What is in memory can still be read. Nothing is added to it, except by the cleaner.
	const large = 1000
	pending := u.store.Stats().Pending
	var b store.Batch
	var late store.Message
	b.Publish(&late, store.Content{Body: make([]byte, large)}, store.Meta{}, u.queues)
	if mark := u.store.Commit(&b); mark <= u.store.Durable() || late.Stored() || u.store.Stats().Pending >= pending+large {
		t.Errorf("got mark %d, stored %v, %d bytes pending after the failure; want it refused with %d pending", mark, late.Stored(), u.store.Stats().Pending, pending)
	}
	if mark := u.store.Define([]store.Definition{{Key: "late", Value: make([]byte, large)}}, nil); mark <= u.store.Durable() || u.store.Stats().Pending >= pending+large {
		t.Errorf("got mark %d for a definition after the failure, want it refused", mark)
	}
	for _, m := range u.live {
		if !m.Stored() { // it was published after the failure
			continue
		}
		if got, err := u.store.Read(&m.Message); err != nil || !equalContent(got, m.content) {
			t.Errorf("message %d: got %v, %v after the failure, want its content", m.Seq(), got, err)
		}
	}
	durable := u.durable()
	image := disk.PowerCut(rand.New(rand.NewPCG(uint64(after), uint64(written))))
	if err := u.store.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v from Close, want %v", err, syscall.EIO)
	}
	restarted := disk.Killed()
	mu.Lock()
	if again > 0 && op == storetest.Sync {
		t.Errorf("got %d syncs after one failed, want none", again)
	}
	if len(failures) > 0 {
		t.Errorf("got Failed called %d more times, want once", len(failures))
	}
	mu.Unlock()
	u.mustRecover(image, store.Options{SegmentSize: 4096}, durable)
	// A restart reads what the failed write or sync has left in memory, and makes it durable.
	u.mustRecover(restarted, store.Options{SegmentSize: 4096}, durable)
	u.mustRecover(restarted.PowerCut(u.rng), store.Options{SegmentSize: 4096}, durable)
}

// aWhile is, in virtual time, longer than commits and notes wait.
const aWhile = 10 * time.Millisecond

// A full disk delays confirms until there is room, and loses nothing.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := storetest.NewDisk()
		o := store.Options{SegmentSize: 4096, DiskReserve: -1}
		var full atomic.Bool
		o.Full = full.Store
		u := newUser(t, 1)
		u.open(disk, o)
		for range 10 {
			room := disk.Used() + u.rng.Int64N(10_000)
			disk.SetCapacity(room)
			for !full.Load() {
				u.step()
				time.Sleep(aWhile)
			}
			mark := u.step()
			for mark == 0 {
				mark = u.step()
			}
			time.Sleep(10 * time.Second)
			if got := u.durable(); got >= mark {
				t.Fatalf("got mark %d confirmed on a full disk, want less than %d", got, mark)
			}
			u.mustRecover(disk.Killed(), store.Options{SegmentSize: 4096}, u.durable())
			disk.SetCapacity(room + 20_000)
			u.wait(mark)
			synctest.Wait()
			if full.Load() {
				t.Fatal("got a disk still full after there was room, want it not full")
			}
		}
		u.close()
		disk.SetCapacity(1 << 40)
		u.mustRecover(disk, store.Options{SegmentSize: 4096}, u.durable())
	})
}

// Close does not wait for room.
func TestCloseWhenDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := storetest.NewDisk()
		u := newUser(t, 2)
		u.open(disk, store.Options{DiskReserve: -1})
		u.wait(u.step())
		synctest.Wait()
		durable := u.durable()
		disk.SetCapacity(disk.Used())
		u.step()
		time.Sleep(aWhile)
		if err := u.store.Close(); !errors.Is(err, store.ErrFull) {
			t.Errorf("got %v from Close, want %v", err, store.ErrFull)
		}
		disk.SetCapacity(1 << 40)
		u.mustRecover(disk, store.Options{}, durable)
	})
}

// The reserve is reported before the disk is full, and acks continue.
func TestDiskReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reserve = 64 << 10
		disk := storetest.NewDisk()
		disk.SetCapacity(4 * reserve)
		var changes []bool
		u := newUser(t, 3)
		u.open(disk, store.Options{SegmentSize: 8192, DiskReserve: reserve, Full: func(full bool) { changes = append(changes, full) }})
		var b store.Batch
		for synctest.Wait(); len(changes) == 0; synctest.Wait() {
			u.publish(&b, 1000)
			u.wait(u.commit(&b))
			b.Reset()
		}
		if free, _ := disk.Free(); free > reserve || free < reserve/2 {
			t.Errorf("got the disk reported full with %d bytes free, want about %d", free, reserve)
		}
		for len(u.live) > 0 {
			u.settle(&b, u.live[0])
			u.wait(u.commit(&b))
			b.Reset()
		}
		time.Sleep(2 * time.Second)
		if want := []bool{true, false}; fmt.Sprint(changes) != fmt.Sprint(want) {
			t.Errorf("got Full called with %v, want %v", changes, want)
		}
		u.close()
	})
}

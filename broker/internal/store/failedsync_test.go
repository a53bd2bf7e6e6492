package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

// fuse makes a disk fail at random.
type fuse struct {
	mu    sync.Mutex
	rng   *rand.Rand
	left  int // changes until the next fault; 0: it is not armed
	blown int
}

// arm makes one of the next changes fail.
func (f *fuse) arm(within int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = 1 + f.rng.IntN(within)
}

// disarm ends it, and reports whether there was a fault.
func (f *fuse) disarm() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	blown := f.left == 0
	f.left = 0
	return blown
}

func (f *fuse) fault(op storetest.Operation, _ string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Most faults are those of syncs.
	if f.left == 0 || op != storetest.Sync && f.rng.IntN(40) > 0 {
		return 0, nil
	}
	if f.left--; f.left > 0 {
		return 0, nil
	}
	f.blown++
	return f.rng.IntN(600), syscall.EIO
}

// After a failed sync, the next one succeeds without writing anything. So after a restart, a store must
// not assume that what it reads survives a power failure.
func TestFailedSyncAcrossRestart(t *testing.T) {
	for seed := range uint64(max(4, 16/store.Thinning)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			u := newUser(t, seed)
			f := &fuse{rng: rand.New(rand.NewPCG(seed, 7))}
			disk := storetest.NewDisk()
			disk.LosesFailed = true
			disk.Fault = f.fault
			o := store.Options{SegmentSize: 4096}
			if seed%4 == 3 {
				o.SegmentSize = 64 << 10
			}
			u.open(disk, o)
			const faults = 8
			for range faults {
				u.workUntilFault(disk, f, o)
			}
			t.Logf("%d faults, %d power cuts: nothing lost, nothing returned", f.blown, u.cuts)
			if f.blown < faults {
				t.Errorf("got %d faults, want at least %d: this test shows nothing", f.blown, faults)
			}
		})
	}
}

// workUntilFault works with a store until its disk fails, and continues as in a new process. The power may
// fail at any time.
func (u *user) workUntilFault(disk *storetest.Disk, f *fuse, o store.Options) {
	u.t.Helper()
	f.arm(20)
	for i := 0; i < 300 && !u.failed(); i++ {
		if mark := u.step(); u.rng.IntN(4) == 0 {
			_ = u.store.Wait(context.Background(), mark)
		}
		if i%10 == 0 {
			u.store.Define([]store.Definition{{Key: fmt.Sprint("queue ", u.rng.IntN(5)), Value: make([]byte, 3000)}}, nil)
		}
	}
	if err := u.store.Close(); err != nil && !errors.Is(err, syscall.EIO) {
		u.t.Fatalf("Close: %v", err)
	}
	durable := u.durable()
	u.survives("after the fault", disk, durable)
	// The first starts may fail too.
	for start := 0; ; start++ {
		if start < 2 {
			f.arm(6)
		}
		r, err := u.tryOpen(disk, o)
		f.disarm()
		if err == nil {
			if err := u.verify(r, durable); err != nil {
				u.t.Fatalf("start after the fault: %v", err)
			}
			u.adopt(r)
			break
		}
		if !errors.Is(err, syscall.EIO) {
			u.t.Fatalf("start after the fault: %v", err)
		}
		u.survives("after a start that failed", disk, durable)
	}
	// What was found stays, and so does what follows.
	if u.failed() {
		return
	}
	u.survives("after the start", disk, 0)
	for range 20 {
		if err := u.store.Wait(context.Background(), u.step()); err != nil {
			u.t.Fatal(err)
		}
	}
	u.survives("after more work", disk, u.durable())
}

// survives cuts the power and starts again with what is left.
func (u *user) survives(when string, disk *storetest.Disk, durable store.Mark) {
	u.t.Helper()
	for depth := range 2 {
		u.cuts++
		if err := u.verifyImage(image{when, disk.PowerCut(u.rng), durable}, depth); err != nil {
			u.t.Fatalf("power cut %s: %v", when, err)
		}
	}
}

func (u *user) failed() bool {
	return errors.Is(u.store.Throttle(context.Background()), syscall.EIO)
}

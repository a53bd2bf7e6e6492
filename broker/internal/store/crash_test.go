package store_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

// image is a disk after a crash, and what was confirmed before it.
type image struct {
	point   string
	disk    *storetest.Disk
	durable store.Mark
}

// album collects images of a disk while a user works on it.
type album struct {
	user *user
	disk *storetest.Disk
	rng  *rand.Rand
	keep int // images of each kind at a point

	mu     sync.Mutex
	passes map[string]int
	images []image
}

// shoot is called at a crash point.
func (a *album) shoot(point string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.passes[point]++
	// The first few, and some of those that follow.
	if n := a.passes[point]; n > a.keep && a.rng.IntN(n) >= a.keep {
		return
	}
	durable := a.user.durable()
	a.images = append(a.images,
		image{point + ", killed", a.disk.Killed(), durable},
		image{point + ", power cut", a.disk.PowerCut(a.rng), durable})
}

// TestCrash stops a store at every named point, by a kill and by a power failure, and starts it again.
func TestCrash(t *testing.T) {
	t.Parallel()
	const wantPasses = 10
	passes := make(map[string]int)
	images := 0
	for seed := uint64(0); seed < 7; seed += store.Thinning {
		disk := storetest.NewDisk()
		u := newUser(t, seed)
		a := &album{user: u, disk: disk, rng: rand.New(rand.NewPCG(seed, 2)), keep: max(3, 10/store.Thinning), passes: passes}
		o := store.Options{SegmentSize: 4096, Crash: a.shoot}
		for range 12 {
			u.open(disk, o)
			u.work(200)
			u.close()
			u.verifyImages(a.images)
			images += len(a.images)
			a.images = nil
		}
	}
	for _, point := range store.CrashPoints() {
		if passes[point] < wantPasses {
			t.Errorf("%s: got %d passes, want at least %d", point, passes[point], wantPasses)
		}
	}
	t.Logf("%d images", images)
}

// work does steps and changes definitions, and sometimes flushes or waits.
func (u *user) work(steps int) {
	for i := range steps {
		mark := u.step()
		if i%5 == 0 {
			u.store.Define([]store.Definition{{Key: fmt.Sprint("queue ", u.rng.IntN(5)), Value: make([]byte, 3000)}}, nil)
		}
		switch u.rng.IntN(20) {
		case 0:
			u.wait(mark)
		case 1, 2, 3, 4:
			u.store.Flush()
		}
	}
}

// verifyImages starts a store on each image. A start that is interrupted must do no harm.
func (u *user) verifyImages(images []image) {
	u.t.Helper()
	for _, im := range images {
		if err := u.verifyImage(im, 1); err != nil {
			u.t.Fatalf("crash %s: %v", im.point, err)
		}
	}
}

func (u *user) verifyImage(im image, depth int) error {
	var during []image
	o := store.Options{SegmentSize: 4096}
	if depth > 0 {
		rng := rand.New(rand.NewPCG(uint64(im.durable), uint64(depth)))
		var mu sync.Mutex
		o.Crash = func(point string) {
			mu.Lock()
			defer mu.Unlock()
			if rng.IntN(8) == 0 {
				during = append(during, image{im.point + ", then " + point, im.disk.PowerCut(rng), im.durable})
			}
		}
	}
	r, err := recoverFrom(im.disk, o, nil)
	if err != nil {
		return err
	}
	if err := u.verify(r, im.durable); err != nil {
		return err
	}
	if err := r.store.Close(); err != nil {
		return err
	}
	for _, next := range during {
		if err := u.verifyImage(next, depth-1); err != nil {
			return fmt.Errorf("and again %s: %w", next.point, err)
		}
	}
	return nil
}

// TestPowerCut cuts the power at any moment. Without syncs, that loses confirmed messages and does no
// other harm.
func TestPowerCut(t *testing.T) {
	for seed, sync := range []store.SyncMode{store.SyncAlways, store.SyncAlways, store.SyncNever} {
		t.Run(fmt.Sprint("seed ", seed, ", sync ", sync), func(t *testing.T) {
			t.Parallel()
			seed := uint64(seed)
			disk := storetest.NewDisk()
			u := newUser(t, seed)
			u.open(disk, store.Options{SegmentSize: 8192, Sync: sync})
			rng := rand.New(rand.NewPCG(seed, 3))
			var images []image
			for i := range 900 {
				mark := u.step()
				switch i % 7 {
				case 0:
					u.wait(mark)
				case 1, 3:
					u.store.Flush()
				}
				durable := u.durable()
				if sync == store.SyncNever {
					durable = 0
				}
				if i%min(store.Thinning, 4) == 0 {
					images = append(images, image{fmt.Sprint("after step ", i), disk.PowerCut(rng), durable})
				}
			}
			u.close()
			for _, im := range images {
				if err := u.verifyImage(im, 0); err != nil {
					t.Fatalf("power cut %s: %v", im.point, err)
				}
			}
		})
	}
}

package store_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/rehop/rehop/internal/node/store"
	"github.com/rehop/rehop/internal/node/store/storetest"
)

// littered is a directory with more garbage than messages, closed in order.
func littered(t *testing.T) (*user, *storetest.Disk) {
	t.Helper()
	disk := storetest.NewDisk()
	u := newUser(t, 21)
	u.open(disk, store.Options{SegmentSize: 64 << 10})
	for range 400 {
		u.step()
	}
	u.wait(u.store.Define([]store.Definition{{Key: "queue", Value: []byte("durable")}}, nil))
	u.close()
	return u, disk
}

func TestCompact(t *testing.T) {
	u, disk := littered(t)
	before, after, err := store.Compact(disk)
	if err != nil {
		t.Fatal(err)
	}
	if before.Dead < 8<<10 {
		t.Fatalf("got %d bytes of garbage to begin with: this test shows nothing", before.Dead)
	}
	if after.Dead > 2<<10 || after.Bytes >= before.Bytes || after.Messages != before.Messages || !after.Clean || after.Definitions != 1 {
		t.Errorf("got %+v after %+v; want the same messages and definitions, closed in order, and less than 2 KiB of garbage", after, before)
	}
	u.mustRecover(disk, store.Options{SegmentSize: 64 << 10}, u.durable())
}

func TestCompactTwice(t *testing.T) {
	_, disk := littered(t)
	if _, _, err := store.Compact(disk); err != nil {
		t.Fatal(err)
	}
	once := disk.Killed()
	if _, _, err := store.Compact(disk); err != nil {
		t.Fatal(err)
	}
	if !sameFiles(t, once, disk) {
		t.Error("a second compaction changed a file, want all left alone")
	}
}

// Whenever it is killed, or the power is cut, every message is there at the next start.
func TestCompactKilled(t *testing.T) {
	u, disk := littered(t)
	var (
		mu     sync.Mutex // the disk is asked by several goroutines
		images []*storetest.Disk
		rng    = rand.New(rand.NewPCG(23, 0))
	)
	disk.Fault = func(storetest.Operation, string) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		images = append(images, disk.Killed(), disk.PowerCut(rng))
		return 0, nil
	}
	if _, _, err := store.Compact(disk); err != nil {
		t.Fatal(err)
	}
	disk.Fault = nil
	if len(images) < 8 {
		t.Fatalf("got %d moments to be killed in, want more: this test shows nothing", len(images))
	}
	for _, image := range images {
		u.mustRecover(image, store.Options{SegmentSize: 64 << 10}, u.durable())
	}
}

func TestCompactRefuses(t *testing.T) {
	_, disk := littered(t)
	damaged := disk.Killed()
	names := segments(t, damaged)
	flip(damaged, names[0], 1000)
	open := storetest.NewDisk()
	u := newUser(t, 22)
	u.open(open, store.Options{SegmentSize: 4096})
	for range 100 {
		u.wait(u.step())
	}
	killed := open.Killed()
	u.close()
	for name, tt := range map[string]struct {
		disk *storetest.Disk
		want string
	}{"damaged": {damaged, "repaired first"}, "killed": {killed, "not closed in order"}} {
		before := tt.disk.Killed()
		_, _, err := store.Compact(tt.disk)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error that says %q", name, err, tt.want)
		}
		var corrupt *store.CorruptError
		if got := errors.As(err, &corrupt); got != (name == "damaged") {
			t.Errorf("%s: got a CorruptError %v, want %v", name, got, name == "damaged")
		}
		if !sameFiles(t, before, tt.disk) {
			t.Errorf("%s: Compact changed a file", name)
		}
	}
}

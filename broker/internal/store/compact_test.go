package store_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

// littered returns a directory with more garbage than messages, closed cleanly.
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
	before, after, err := store.Compact(t.Context(), disk)
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
	if _, _, err := store.Compact(t.Context(), disk); err != nil {
		t.Fatal(err)
	}
	once := disk.Killed()
	if _, _, err := store.Compact(t.Context(), disk); err != nil {
		t.Fatal(err)
	}
	if !sameFiles(t, once, disk) {
		t.Error("a second compaction changed a file, want all left alone")
	}
}

// Whenever it is killed, or the power fails, the next start finds every message.
func TestCompactKilled(t *testing.T) {
	u, disk := littered(t)
	var (
		mu     sync.Mutex // several goroutines use the disk
		images []*storetest.Disk
		rng    = rand.New(rand.NewPCG(23, 0))
	)
	disk.Fault = func(storetest.Operation, string) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		images = append(images, disk.Killed(), disk.PowerCut(rng))
		return 0, nil
	}
	if _, _, err := store.Compact(t.Context(), disk); err != nil {
		t.Fatal(err)
	}
	disk.Fault = nil
	if len(images) < 8 {
		t.Fatalf("got %d moments to be killed in, want more: this test shows nothing", len(images))
	}
	for _, image := range images {
		u.mustRecover(image.Killed(), store.Options{SegmentSize: 64 << 10}, u.durable())
		// It can be run again, with the same result as if it had not been killed.
		_, after, err := store.Compact(t.Context(), image)
		if err != nil || !after.Clean || after.Dead > 4<<10 {
			t.Fatalf("compact again: got %v and %+v; want the directory closed in order, and no garbage", err, after)
		}
		u.mustRecover(image, store.Options{SegmentSize: 64 << 10}, u.durable())
	}
}

// A broker that was started after the kill has delivered messages: that the directory was closed cleanly
// before no longer matters.
func TestCompactKilledAndStarted(t *testing.T) {
	u, disk := littered(t)
	var killed *storetest.Disk
	var mu sync.Mutex
	disk.Fault = func(do storetest.Operation, name string) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		if killed == nil && do == storetest.Remove {
			killed = disk.Killed()
		}
		return 0, nil
	}
	if _, _, err := store.Compact(t.Context(), disk); err != nil {
		t.Fatal(err)
	}
	r, err := recoverFrom(killed, store.Options{SegmentSize: 64 << 10}, nil)
	if err != nil {
		t.Fatal(err)
	}
	crashed := killed.Killed()
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := crashed.List()
	if err != nil || slices.Contains(names, "compacting") {
		t.Errorf("got %v and files %q after a start, want none that says that it is being compacted", err, names)
	}
	u.mustRecover(crashed, store.Options{SegmentSize: 64 << 10}, u.durable())
}

// If it is interrupted, it stops between two segments and closes the directory cleanly.
func TestCompactInterrupted(t *testing.T) {
	u, disk := littered(t)
	ctx, interrupt := context.WithCancel(t.Context())
	var creations atomic.Int32
	disk.Fault = func(do storetest.Operation, name string) (int, error) {
		if do == storetest.Create && creations.Add(1) == 2 { // the first is the file that marks the directory
			interrupt()
		}
		return 0, nil
	}
	if _, _, err := store.Compact(ctx, disk); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want that it was interrupted", err)
	}
	disk.Fault = nil
	report, err := store.Check(t.Context(), disk)
	if err != nil || !report.Clean {
		t.Errorf("got %v and %+v, want a directory that is closed in order", err, report)
	}
	if _, _, err := store.Compact(t.Context(), disk); err != nil {
		t.Errorf("compact again: %v", err)
	}
	u.mustRecover(disk, store.Options{SegmentSize: 64 << 10}, u.durable())
}

// In a directory without a store nothing is created or locked, whatever the names of its files. In a
// directory with a store, a check creates nothing.
func TestCheckLeavesDirectoriesAlone(t *testing.T) {
	for _, name := range []string{"app.log", "definitions.log", "0000000000000001.log"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("2026-01-01 started"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, check := store.Check(t.Context(), store.Dir(dir))
		_, repair := store.Repair(t.Context(), store.Dir(dir), nil)
		_, _, compact := store.Compact(t.Context(), store.Dir(dir))
		for _, err := range []error{check, repair, compact} {
			if !errors.Is(err, store.ErrNoStore) {
				t.Errorf("%s: got %v, want %v", name, err, store.ErrNoStore)
			}
		}
		wantFiles(t, dir, name)
	}
	dir := t.TempDir()
	u := newUser(t, 24)
	u.open(store.Dir(dir), store.Options{})
	u.wait(u.step())
	u.close()
	if err := os.Remove(filepath.Join(dir, "LOCK")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Check(t.Context(), store.Dir(dir)); err != nil {
		t.Error(err)
	}
	wantFiles(t, dir, "0000000000000001.log", "closed", "definitions.log")
}

func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	got, err := store.Dir(dir).List()
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v and files %q, want %q", err, got, want)
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
	}{"damaged": {damaged, "repair it first"}, "killed": {killed, "not closed"}} {
		before := tt.disk.Killed()
		_, _, err := store.Compact(t.Context(), tt.disk)
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

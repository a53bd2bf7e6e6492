package store_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

// filled returns a disk with several segments and definitions, and the user that filled it. The oldest
// segments have indexes.
func filled(t *testing.T, o store.Options) (*user, *storetest.Disk) {
	t.Helper()
	disk := storetest.NewDisk()
	indexed := make(chan struct{}, 1)
	o.Crash = func(point string) {
		if point == "after an index is written" {
			select {
			case indexed <- struct{}{}:
			default:
			}
		}
	}
	u := newUser(t, 11)
	u.open(disk, o)
	for range 40 {
		var b store.Batch
		u.publish(&b, 600)
		u.wait(u.commit(&b))
	}
	u.wait(u.store.Define([]store.Definition{{Key: "queue", Value: []byte("durable")}}, nil))
	<-indexed
	u.close()
	if n := len(segments(t, disk)); n < 5 {
		t.Fatalf("got %d segments, want at least 5", n)
	}
	return u, disk
}

func TestMissingFiles(t *testing.T) {
	o := store.Options{SegmentSize: 4096}
	u, disk := filled(t, o)
	names, err := disk.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			without := disk.Killed()
			if err := without.Remove(name); err != nil {
				t.Fatal(err)
			}
			r, err := recoverFrom(without, o, nil)
			if strings.HasSuffix(name, ".idx") || name == "closed" {
				if err != nil {
					t.Fatalf("got %v, want the file to be of no consequence", err)
				}
				if err := u.verify(r, u.durable()); err != nil {
					t.Error(err)
				}
				r.store.Close()
				return
			}
			var corrupt *store.CorruptError
			if !errors.As(err, &corrupt) || corrupt.File != name {
				t.Fatalf("got %v, want a *CorruptError that names %s", err, name)
			}
		})
	}
}

func TestAllSegmentsMissing(t *testing.T) {
	o := store.Options{SegmentSize: 4096}
	_, disk := filled(t, o)
	for _, name := range segments(t, disk) {
		if err := disk.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	_, err := recoverFrom(disk, o, nil)
	var corrupt *store.CorruptError
	if !errors.As(err, &corrupt) {
		t.Fatalf("got %v, want a *CorruptError", err)
	}
}

// Files of other programs, copies, and leftovers of a crash do not matter.
func TestForeignFiles(t *testing.T) {
	o := store.Options{SegmentSize: 4096}
	u, disk := filled(t, o)
	first := disk.Bytes(segments(t, disk)[0])
	for _, name := range []string{
		"notes.txt", "0000000000000001 (copy).log", "0000000000000001.LOG", "1.log", "00000000000000ZZ.log",
		"000000000000000A.log", "0000000000000000.log", "0000000000000001.log~", "00000000000000ff.idx", "definitions.tmp",
	} {
		disk.Put(name, first)
	}
	u.mustRecover(disk, o, u.durable())
	if disk.Bytes("notes.txt") == nil {
		t.Error("the store removed a file that is not its own")
	}
	for _, gone := range []string{"00000000000000ff.idx", "definitions.tmp"} {
		if disk.Bytes(gone) != nil {
			t.Errorf("got %s still there, want it removed", gone)
		}
	}
}

// A segment with the name of another is not read as that one.
func TestDuplicateSegment(t *testing.T) {
	o := store.Options{SegmentSize: 4096}
	_, disk := filled(t, o)
	names := segments(t, disk)
	disk.Put(names[2], disk.Bytes(names[1]))
	_, err := recoverFrom(disk, o, nil)
	var corrupt *store.CorruptError
	if !errors.As(err, &corrupt) || corrupt.File != names[2] {
		t.Fatalf("got %v, want a *CorruptError that names %s", err, names[2])
	}
}

// An index of another segment, or of an older state of the same one, is not used.
func TestForeignIndex(t *testing.T) {
	o := store.Options{SegmentSize: 4096}
	u, disk := filled(t, o)
	index := strings.Replace(segments(t, disk)[0], ".log", ".idx", 1)
	if disk.Bytes(index) == nil {
		t.Fatalf("there is no %s", index)
	}
	for _, name := range segments(t, disk) {
		disk.Put(strings.Replace(name, ".log", ".idx", 1), disk.Bytes(index))
	}
	u.mustRecover(disk, o, u.durable())
}

func TestTruncatedSealedSegment(t *testing.T) {
	o := store.Options{SegmentSize: 4096}
	_, disk := filled(t, o)
	for _, name := range segments(t, disk)[:3] {
		whole := disk.Bytes(name)
		for _, size := range []int{len(whole) - 1, len(whole) / 2, 200, 128, 10, 0} {
			cut := disk.Killed()
			cut.Put(name, whole[:size])
			_, err := recoverFrom(cut, o, nil)
			var corrupt *store.CorruptError
			if !errors.As(err, &corrupt) || corrupt.File != name {
				t.Errorf("%s cut off at %d: got %v, want a *CorruptError that names it", name, size, err)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	for _, version := range []uint32{0, 4, 1 << 31} {
		for _, name := range []string{"0000000000000001.log", "definitions.log"} {
			o := store.Options{SegmentSize: 4096}
			_, disk := filled(t, o)
			b := disk.Bytes(name)
			for copied := range 2 {
				header := b[copied*64:]
				binary.LittleEndian.PutUint32(header[4:], version)
				sum := crc32.Checksum(header[:40], crc32.MakeTable(crc32.Castagnoli))
				binary.LittleEndian.PutUint32(header[40:], sum)
			}
			disk.Put(name, b)
			_, err := recoverFrom(disk, o, nil)
			var got *store.VersionError
			if !errors.As(err, &got) || got.Version != version || got.File != name {
				t.Errorf("%s of version %d: got %v, want a *VersionError that says so", name, version, err)
			}
		}
	}
}

func TestLock(t *testing.T) {
	dir := store.Dir(t.TempDir())
	u := newUser(t, 1)
	u.open(dir, store.Options{})
	for name, open := range map[string]func() error{
		"Open":   func() error { _, err := store.Open(dir, store.Options{}); return err },
		"Check":  func() error { _, err := store.Check(t.Context(), dir); return err },
		"Repair": func() error { _, err := store.Repair(t.Context(), dir, nil); return err },
	} {
		if err := open(); !errors.Is(err, store.ErrLocked) {
			t.Errorf("%s of a directory in use: got %v, want %v", name, err, store.ErrLocked)
		}
	}
	u.close()
	u.open(dir, store.Options{})
	u.close()
}

func TestOpenErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		fs      store.FS
		options store.Options
	}{
		"a file":           {store.Dir(file), store.Options{}},
		"below a file":     {store.Dir(filepath.Join(file, "below")), store.Options{}},
		"small segments":   {storetest.NewDisk(), store.Options{SegmentSize: 1}},
		"large segments":   {storetest.NewDisk(), store.Options{SegmentSize: 2 << 30}},
		"unknown syncmode": {storetest.NewDisk(), store.Options{Sync: 7}},
	} {
		if s, err := store.Open(tt.fs, tt.options); err == nil {
			s.Close()
			t.Errorf("%s: got a store, want an error", name)
		}
	}
	missing := store.Dir(filepath.Join(t.TempDir(), "missing"))
	if _, err := store.Check(t.Context(), missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Check of a directory that does not exist: got %v, want %v", err, fs.ErrNotExist)
	}
}

// Settled segments are removed together with their indexes while the store runs.
func TestFilesAreRemoved(t *testing.T) {
	o := store.Options{SegmentSize: 4096}
	u, disk := filled(t, o)
	before := segments(t, disk)
	removed := make(chan struct{}, 100)
	o.Crash = func(point string) {
		if point == "after a segment is removed" {
			removed <- struct{}{}
		}
	}
	u.open(disk, o)
	var b store.Batch
	for len(u.live) > 0 {
		u.settle(&b, u.live[0])
	}
	u.commit(&b)
	for range len(before) - 1 {
		<-removed
	}
	u.close()
	names, err := disk.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range before[:len(before)-1] {
		if index := strings.Replace(name, ".log", ".idx", 1); slices.Contains(names, name) || slices.Contains(names, index) {
			t.Errorf("got %v, want nothing of %s", names, name)
		}
	}
}

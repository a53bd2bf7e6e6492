package store_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

// A file that has lost its end since a clean stop is damaged, wherever it ends now. It is not treated as
// after a crash. Nothing is changed, and a repair keeps what is left.
func TestCutAfterClose(t *testing.T) {
	o := store.Options{SegmentSize: 4096}
	u, disk := filled(t, o)
	names := segments(t, disk)
	last := names[len(names)-1]
	cuts := 0
	for _, name := range []string{last, "definitions.log"} {
		whole := disk.Bytes(name)
		for size := 0; size < len(whole); size += 1 + store.Thinning {
			for _, content := range [][]byte{whole[:size], append(bytes.Clone(whole[:size]), make([]byte, len(whole)-size)...)} {
				if bytes.Equal(content, whole) {
					continue // the end was zeros
				}
				cuts++
				cut := disk.Killed()
				cut.Put(name, content)
				before := cut.Killed()
				_, err := recoverFrom(cut, o, nil)
				var corrupt *store.CorruptError
				if !errors.As(err, &corrupt) || corrupt.File != name {
					t.Fatalf("%s ends at %d of %d: got %v, want a *CorruptError that names it", name, size, len(whole), err)
				}
				if !sameFiles(t, before, cut) {
					t.Fatalf("%s ends at %d of %d: a file was changed by the start that was refused", name, size, len(whole))
				}
				if cuts%20 == 0 {
					u.mustRepair(cut, o)
				}
			}
		}
	}
	t.Logf("%d cuts", cuts)
}

// mustRepair repairs a disk and opens it.
func (u *user) mustRepair(disk *storetest.Disk, o store.Options) {
	u.t.Helper()
	report, err := store.Repair(u.t.Context(), disk, nil)
	if err != nil || len(report.Damage) == 0 {
		u.t.Fatalf("Repair: got %+v, %v; want damage, repaired", report, err)
	}
	r, err := recoverFrom(disk, o, nil)
	if err != nil {
		u.t.Fatalf("after the repair: %v", err)
	}
	if len(r.mails) != report.Messages {
		u.t.Errorf("after the repair: got %d messages, want %d as reported", len(r.mails), report.Messages)
	}
	u.mustBeUsable(r.store)
	if err := r.store.Close(); err != nil {
		u.t.Fatal(err)
	}
	if report, err := store.Check(u.t.Context(), disk); err != nil || len(report.Damage) > 0 {
		u.t.Errorf("after the repair: got %+v, %v from Check; want no damage", report, err)
	}
}

// All files are lost, except the one with their lengths.
func TestOnlyExtentLeft(t *testing.T) {
	o := store.Options{SegmentSize: 4096}
	u, disk := filled(t, o)
	names, err := disk.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name != "closed" {
			disk.Remove(name)
		}
	}
	var corrupt *store.CorruptError
	if _, err := recoverFrom(disk, o, nil); !errors.As(err, &corrupt) {
		t.Fatalf("got %v, want a *CorruptError", err)
	}
	u.mustRepair(disk, o)
}

// An unfinished write after the last clean stop is cut off as usual, several times.
func TestTornAfterClose(t *testing.T) {
	o := store.Options{SegmentSize: 4096}
	u, disk := filled(t, o)
	names := segments(t, disk)
	last := names[len(names)-1]
	whole := disk.Bytes(last)
	for _, torn := range []string{"torn", strings.Repeat("\x00", 5000), "x" + strings.Repeat("\x00", 300)} {
		crashed := disk.Killed()
		crashed.Put(last, append(bytes.Clone(whole), torn...))
		u.mustRecover(crashed, o, u.durable())
	}
}

// The file itself is either sound or damaged.
func TestDamagedExtent(t *testing.T) {
	o := store.Options{SegmentSize: 4096}
	u, disk := filled(t, o)
	whole := disk.Bytes("closed")
	contents := [][]byte{nil, whole[:10], make([]byte, len(whole)), append(bytes.Clone(whole), 0)}
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 1 << (i % 8)
		contents = append(contents, flipped)
	}
	for i, content := range contents {
		damaged := disk.Killed()
		damaged.Put("closed", content)
		_, err := recoverFrom(damaged, o, nil)
		var corrupt *store.CorruptError
		if !errors.As(err, &corrupt) || corrupt.File != "closed" {
			t.Fatalf("content %d: got %v, want a *CorruptError that names the file", i, err)
		}
		if i > 4 {
			continue
		}
		report, err := store.Repair(t.Context(), damaged, nil)
		if err != nil || len(report.SetAside) != 1 || !bytes.Equal(damaged.Bytes(report.SetAside[0]), content) {
			t.Fatalf("content %d: got %+v, %v from Repair; want it set aside", i, report, err)
		}
		u.mustRecover(damaged, o, u.durable())
	}
}

// A disk that is too full for the lengths does not prevent a clean stop.
func TestNoRoomForExtent(t *testing.T) {
	disk := storetest.NewDisk()
	u := newUser(t, 1)
	disk.Fault = func(op storetest.Operation, name string) (int, error) {
		if op == storetest.Write && name == "closed.tmp" {
			disk.SetCapacity(disk.Used())
		}
		return 0, nil
	}
	u.open(disk, store.Options{DiskReserve: -1})
	u.wait(u.step())
	u.close()
	if disk.Bytes("closed") != nil || disk.Bytes("closed.tmp") != nil {
		t.Error("got a file that says how long the log is, want none")
	}
	disk.SetCapacity(1 << 40)
	u.mustRecover(disk, store.Options{}, u.durable())
}

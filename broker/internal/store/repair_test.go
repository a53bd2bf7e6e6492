package store_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

func TestCheckChangesNothing(t *testing.T) {
	o := store.Options{SegmentSize: 4096}
	u, disk := filled(t, o)
	torn := disk.Killed()
	names := segments(t, torn)
	last := names[len(names)-1]
	torn.Put(last, append(torn.Bytes(last), "torn"...))
	damaged := disk.Killed()
	flip(damaged, names[1], 1000)
	for name, tt := range map[string]struct {
		disk   *storetest.Disk
		torn   int64
		damage int
	}{"sound": {disk, 0, 0}, "torn": {torn, 4, 0}, "damaged": {damaged, 0, 1}} {
		before := tt.disk.Killed()
		report, err := store.Check(t.Context(), tt.disk)
		if err != nil {
			t.Fatal(err)
		}
		if report.Torn != tt.torn || len(report.Damage) != tt.damage || report.Definitions != 1 || report.Segments != len(names) {
			t.Errorf("%s: got %+v, want %d bytes torn, %d damage, 1 definition, %d segments", name, report, tt.torn, tt.damage, len(names))
		}
		if want := len(u.live) - tt.damage; report.Messages != want {
			t.Errorf("%s: got %d messages, want %d", name, report.Messages, want)
		}
		if !sameFiles(t, before, tt.disk) {
			t.Errorf("%s: Check changed a file", name)
		}
	}
}

func flip(disk *storetest.Disk, name string, offset int) {
	b := disk.Bytes(name)
	b[offset] ^= 0x10
	disk.Put(name, b)
}

func sameFiles(t *testing.T, a, b *storetest.Disk) bool {
	t.Helper()
	namesA, _ := a.List()
	namesB, _ := b.List()
	return slices.Equal(namesA, namesB) && !slices.ContainsFunc(namesA, func(name string) bool {
		return !bytes.Equal(a.Bytes(name), b.Bytes(name))
	})
}

func TestRepairOfSoundDirectory(t *testing.T) {
	_, disk := filled(t, store.Options{SegmentSize: 4096})
	before := disk.Killed()
	report, err := store.Repair(t.Context(), disk, nil)
	if err != nil || len(report.Damage) > 0 || len(report.SetAside) > 0 {
		t.Errorf("got %+v, %v; want nothing to repair", report, err)
	}
	if !sameFiles(t, before, disk) {
		t.Error("Repair changed a file, want all left alone")
	}
}

// Whatever is damaged, a repair recovers the rest, and keeps the damaged file.
func TestRepair(t *testing.T) {
	o := store.Options{SegmentSize: 4096}
	u, sound := filled(t, o)
	names := segments(t, sound)
	for _, tt := range []struct {
		name     string
		damage   func(*storetest.Disk)
		lost     int // messages at most
		setAside string
	}{
		{"a body", func(d *storetest.Disk) { flip(d, names[1], 600) }, 1, names[1]},
		{"a record's length", func(d *storetest.Disk) { flip(d, names[1], 128+21+7) }, 5, names[1]},
		{"the middle of a segment", func(d *storetest.Disk) { zero(d, names[2], 1000, 2000) }, 4, names[2]},
		{"a header", func(d *storetest.Disk) { zero(d, names[1], 0, 128) }, 7, names[1]},
		{"all but the header", func(d *storetest.Disk) { zero(d, names[3], 128, 4096) }, 7, names[3]},
		{"the end of a segment", func(d *storetest.Disk) { d.Put(names[2], d.Bytes(names[2])[:3000]) }, 3, names[2]},
		{"a missing segment", func(d *storetest.Disk) { d.Remove(names[2]) }, 7, ""},
		{"the first segment missing", func(d *storetest.Disk) { d.Remove(names[0]) }, 7, ""},
		{"the definitions", func(d *storetest.Disk) { flip(d, "definitions.log", 130) }, 0, "definitions.log"},
		{"the definitions' header", func(d *storetest.Disk) { zero(d, "definitions.log", 0, 128) }, 0, "definitions.log"},
		{"the definitions missing", func(d *storetest.Disk) { d.Remove("definitions.log") }, 0, ""},
		{"the last segment", func(d *storetest.Disk) { flip(d, names[len(names)-1], 300) }, 1, names[len(names)-1]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			disk := sound.Killed()
			tt.damage(disk)
			bad := disk.Bytes(tt.setAside)
			report, err := store.Repair(t.Context(), disk, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Damage) == 0 {
				t.Error("got no damage reported, want some")
			}
			if tt.setAside != "" && (len(report.SetAside) != 1 || !strings.HasPrefix(report.SetAside[0], tt.setAside) || !bytes.Equal(disk.Bytes(report.SetAside[0]), bad)) {
				t.Errorf("got %v set aside, want %s as it was", report.SetAside, tt.setAside)
			}
			r, err := recoverFrom(disk, o, nil)
			if err != nil {
				t.Fatalf("after the repair: %v", err)
			}
			if r.clean && !strings.Contains(tt.name, "definitions") {
				t.Error("the log is clean after the repair, want the next start to know that consumers may have had messages")
			}
			if lost := len(u.live) - len(r.mails); lost > tt.lost || lost < 0 {
				t.Errorf("got %d messages lost, want at most %d", lost, tt.lost)
			}
			for seq, m := range r.mails {
				if want := u.mails[seq]; want == nil || !equalContent(m.content, want.content) || m.meta != want.meta {
					t.Errorf("message %d is not what was published", seq)
				}
			}
			u.mustBeUsable(r.store)
			if err := r.store.Close(); err != nil {
				t.Fatal(err)
			}
			if report, err := store.Check(t.Context(), disk); err != nil || len(report.Damage) > 0 {
				t.Errorf("after the repair: got %+v, %v from Check; want no damage", report, err)
			}
		})
	}
}

// mustBeUsable commits something.
func (u *user) mustBeUsable(s *store.Store) {
	u.t.Helper()
	var b store.Batch
	b.Publish(new(store.Message), store.Content{}, store.Meta{}, u.queues)
	if err := s.Wait(u.t.Context(), s.Commit(&b)); err != nil {
		u.t.Error(err)
	}
}

func zero(disk *storetest.Disk, name string, from, to int) {
	b := disk.Bytes(name)
	clear(b[from:min(to, len(b))])
	disk.Put(name, b)
}

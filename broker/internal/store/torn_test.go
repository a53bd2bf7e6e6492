package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

// A log that is cut off anywhere, or has zeros from there on, has exactly what was committed up to there.
func TestTruncation(t *testing.T) {
	const (
		tail = 64 << 10
		step = 61
	)
	disk := storetest.NewDisk()
	u := newUser(t, 1)
	u.open(disk, store.Options{})
	type commit struct {
		mark store.Mark
		end  int64 // of the log
	}
	commits := []commit{{}}
	for u.store.Stats().Bytes < tail+2000 {
		mark := u.step()
		u.wait(mark)
		commits = append(commits, commit{mark, u.store.Stats().Bytes})
	}
	killed := disk.Killed()
	u.close()
	log := segments(t, killed)[0]
	whole := killed.Bytes(log)
	records := int(commits[len(commits)-1].end)
	for size := records; size > records-tail; size -= step {
		for commits[len(commits)-1].end > int64(size) {
			commits = commits[:len(commits)-1]
		}
		cut := killed.Killed()
		cut.Put(log, whole[:size])
		if size%2 == 0 {
			// Like a power failure in a file that had zeros there.
			cut.Put(log, append(bytes.Clone(whole[:size]), make([]byte, len(whole)-size)...))
		}
		r, err := recoverFrom(cut, store.Options{}, nil)
		if err != nil {
			t.Fatalf("cut off at %d of %d: %v", size, records, err)
		}
		if err := u.verify(r, commits[len(commits)-1].mark); err != nil {
			t.Fatalf("cut off at %d of %d: %v", size, records, err)
		}
		r.store.Close()
	}
}

// segments returns the names of the segments on a disk, oldest first.
func segments(t testing.TB, disk *storetest.Disk) []string {
	t.Helper()
	names, err := disk.List()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasSuffix(name, ".log") || name == "definitions.log"
	})
}

// If a file has grown and its data was lost, there are zeros.
func TestZeroFilledTail(t *testing.T) {
	disk := storetest.NewDisk()
	u := newUser(t, 2)
	u.open(disk, store.Options{})
	for range 100 {
		u.wait(u.step())
	}
	durable := u.durable()
	killed := disk.Killed()
	u.close()
	for _, name := range []string{segments(t, killed)[0], "definitions.log"} {
		killed.Put(name, append(killed.Bytes(name), make([]byte, 100_000)...))
	}
	u.mustRecover(killed, store.Options{}, durable)
}

// A flipped bit either does not matter or is reported with its place. It is never treated as an unfinished
// write and never returned, because a note shows that it was synced.
func TestBitFlips(t *testing.T) {
	o := store.Options{SegmentSize: 4096}
	u := newUser(t, 3)
	var disk *storetest.Disk
	var definitions []store.Definition
	synctest.Test(t, func(t *testing.T) {
		running := storetest.NewDisk()
		u.open(running, o)
		for i := range 70 {
			u.wait(u.step())
			if i%30 == 0 {
				u.store.Define([]store.Definition{{Key: fmt.Sprint("queue ", i), Value: []byte("durable")}}, nil)
			}
		}
		time.Sleep(aWhile)
		definitions = u.store.Definitions()
		disk = running.Killed()
		u.close()
	})
	durable := u.durable()
	names, err := disk.List()
	if err != nil {
		t.Fatal(err)
	}
	reported, tolerated := 0, 0
	for _, name := range names {
		whole := disk.Bytes(name)
		for i := 0; i < len(whole); i += store.Thinning {
			flipped := disk.Killed()
			b := bytes.Clone(whole)
			b[i] ^= 1 << (i % 8)
			flipped.Put(name, b)
			r, err := recoverFrom(flipped, o, nil)
			var corrupt *store.CorruptError
			var version *store.VersionError
			switch {
			case errors.As(err, &corrupt):
				reported++
				if corrupt.File != name || corrupt.Offset > int64(i) {
					t.Fatalf("%s: bit flipped at %d: got %v, want that place", name, i, err)
				}
				continue
			case errors.As(err, &version):
				reported++
				continue
			case err != nil:
				t.Fatalf("%s: bit flipped at %d: got error %v, want a *CorruptError", name, i, err)
			}
			if err := u.verify(r, durable); err != nil {
				t.Fatalf("%s: bit flipped at %d: %v", name, i, err)
			}
			if got := r.store.Definitions(); !equalDefinitions(got, definitions) {
				t.Fatalf("%s: bit flipped at %d: got definitions %q, want %q", name, i, got, definitions)
			}
			tolerated++
			r.store.Close()
		}
	}
	if reported == 0 || tolerated == 0 {
		t.Errorf("got %d flips reported and %d of no consequence, want some of both", reported, tolerated)
	}
	t.Logf("%d reported, %d of no consequence", reported, tolerated)
}

func equalDefinitions(a, b []store.Definition) bool {
	return slices.EqualFunc(a, b, func(x, y store.Definition) bool { return x.Key == y.Key && bytes.Equal(x.Value, y.Value) })
}

// A crash can leave the last segment without its header, but not with records after a damaged header.
func TestLastHeader(t *testing.T) {
	o := store.Options{SegmentSize: 4096}
	_, disk := filled(t, o)
	names := segments(t, disk)
	last := names[len(names)-1]
	for _, tt := range []struct {
		name    string
		content []byte
		corrupt bool
	}{
		{"empty", nil, false},
		{"half a header", disk.Bytes(last)[:30], false},
		{"zeros for a header", make([]byte, 128), false},
		{"records behind zeros", append(make([]byte, 128), disk.Bytes(last)[128:]...), true},
	} {
		d := disk.Killed()
		if err := d.Remove("closed"); err != nil { // it was not closed, but crashed
			t.Fatal(err)
		}
		d.Put(last, tt.content)
		r, err := recoverFrom(d, o, nil)
		var corrupt *store.CorruptError
		if got := errors.As(err, &corrupt); got != tt.corrupt {
			t.Errorf("%s: got error %v, want a *CorruptError %v", tt.name, err, tt.corrupt)
		}
		if err == nil {
			r.store.Close()
		}
	}
}

// After the next segment has begun, the one before it cannot have an unfinished write.
func TestTornBeforeNextSegment(t *testing.T) {
	o := store.Options{SegmentSize: 4096}
	u, disk := filled(t, o)
	names := segments(t, disk)
	last := names[len(names)-1]
	next := fmt.Sprintf("%016x.log", len(names)+1)
	disk.Put(next, nil)
	u.mustRecover(disk.Killed(), o, u.durable())
	content := disk.Bytes(last)
	disk.Put(last, content[:len(content)-4])
	_, err := recoverFrom(disk, o, nil)
	var corrupt *store.CorruptError
	if !errors.As(err, &corrupt) || corrupt.File != last {
		t.Errorf("got %v, want a *CorruptError that names %s", err, last)
	}
}

// Records of another log are not accepted, although each of them is sound.
func TestForeignRecords(t *testing.T) {
	var disks []*storetest.Disk
	for range 2 {
		disk := storetest.NewDisk()
		u := newUser(t, 5)
		u.open(disk, store.Options{})
		for range 20 {
			u.step()
		}
		u.close()
		disks = append(disks, disk)
	}
	const name, header = "0000000000000001.log", 128
	disks[0].Put(name, append(disks[0].Bytes(name)[:header], disks[1].Bytes(name)[header:]...))
	if err := disks[0].Remove("closed"); err != nil { // which knows that there were records
		t.Fatal(err)
	}
	r, err := recoverFrom(disks[0], store.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.store.Close()
	if len(r.mails) > 0 {
		t.Errorf("got %d messages of another log, want none", len(r.mails))
	}
}

// A body with a copy of the log does not make an unfinished write look like damage.
func TestBodyLikeLog(t *testing.T) {
	const log = "0000000000000001.log"
	disk := storetest.NewDisk()
	var torn *storetest.Disk
	u := newUser(t, 6)
	var bait atomic.Pointer[[]byte]
	u.open(disk, store.Options{Crash: func(point string) {
		if point != "after a group is written" {
			return
		}
		body := bait.Load()
		if body == nil || torn != nil {
			return
		}
		// Not every group has the body: some have only a note.
		if written := disk.Killed(); bytes.LastIndex(written.Bytes(log), *body) > 0 {
			torn = written
		}
	}})
	for range 20 {
		u.wait(u.step())
	}
	durable := u.durable()
	body := disk.Bytes(log)
	var b store.Batch
	m := u.publish(&b, 0)
	b.Reset()
	m.content.Body = body
	b.Publish(&m.Message, m.content, m.meta, m.queues)
	bait.Store(&body)
	u.wait(u.commit(&b))
	u.close()
	whole := torn.Bytes(log)
	whole[bytes.LastIndex(whole, body)-50] ^= 1
	torn.Put(log, whole)
	u.mustRecover(torn, store.Options{}, durable)
}

// FuzzRecover opens directories with arbitrary bytes after sound headers.
func FuzzRecover(f *testing.F) {
	disk := storetest.NewDisk()
	u := newUser(f, 1)
	u.open(disk, store.Options{})
	for range 5 {
		u.step()
	}
	u.store.Define([]store.Definition{{Key: "queue", Value: []byte("durable")}}, nil)
	u.close()
	const header = 128
	log, definitions := disk.Bytes("0000000000000001.log"), disk.Bytes("definitions.log")
	f.Add(log[header:], definitions[header:])
	f.Add(log[header:], []byte{})
	f.Add([]byte{}, definitions[header:])
	f.Add(log[header+10:], make([]byte, 100))
	f.Fuzz(func(t *testing.T, logTail, definitionsTail []byte) {
		disk := storetest.NewDisk()
		disk.Put("0000000000000001.log", append(bytes.Clone(log[:header]), logTail...))
		disk.Put("definitions.log", append(bytes.Clone(definitions[:header]), definitionsTail...))
		r, err := recoverFrom(disk, store.Options{}, nil)
		var corrupt *store.CorruptError
		if errors.As(err, &corrupt) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := r.store.Close(); err != nil {
			t.Fatal(err)
		}
		mustCheck(t, disk, len(r.mails))
	})
}

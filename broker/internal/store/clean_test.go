package store_test

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

func TestDropQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := storetest.NewDisk()
		u := newUser(t, 7)
		u.open(disk, store.Options{SegmentSize: 4096})
		for range 1500 {
			u.step()
		}
		for _, q := range u.queues[1:] {
			u.store.DropQueue(q)
			for _, m := range append([]*mail(nil), u.live...) {
				u.forget(m, q)
			}
		}
		synctest.Wait()
		if got, want := u.store.Stats().Messages, len(u.live); got != want {
			t.Errorf("got %d messages after three of four queues were dropped, want %d", got, want)
		}
		u.store.DropQueue(u.queues[0])
		synctest.Wait()
		if got := u.store.Stats(); got.Messages != 0 || got.Segments != 1 {
			t.Errorf("got %d messages in %d segments after all queues were dropped, want none in one", got.Messages, got.Segments)
		}
		u.close()
	})
}

// Queues are dropped while the cleaner checks for dropped queues. This test is for the race detector.
func TestDropQueuesMeanwhile(t *testing.T) {
	u := newUser(t, 7)
	u.open(storetest.NewDisk(), store.Options{})
	for q := range store.QueueID(300_000) {
		u.store.DropQueue(1_000_000 + q)
		for range u.rng.IntN(8) {
			runtime.Gosched()
		}
	}
	u.close()
}

// A segment that was removed and exists again, because the directory was not synced, is not read: the
// records that settle its messages may be removed.
func TestLeftoverSegments(t *testing.T) {
	disk := storetest.NewDisk()
	o := store.Options{SegmentSize: 4096}
	var before *storetest.Disk
	o.Crash = func(point string) {
		if point == "after a segment is discarded" && before == nil {
			before = disk.Killed()
		}
	}
	u := newUser(t, 8)
	u.open(disk, o)
	// Each message is settled after the next is published, so some are settled in a later segment.
	var b store.Batch
	for range 60 {
		u.publish(&b, 500)
		u.wait(u.commit(&b))
		b.Reset()
		for len(u.live) > 1 {
			u.settle(&b, u.live[0])
		}
		u.wait(u.commit(&b))
		b.Reset()
	}
	u.close()
	oldest := segments(t, before)[0]
	if segments(t, disk)[0] == oldest {
		t.Fatal("got no segment removed, want some: this test shows nothing")
	}
	for name, content := range map[string][]byte{"whole": before.Bytes(oldest), "damaged": before.Bytes(oldest)[:1000]} {
		left := disk.Killed()
		left.Put(oldest, content)
		r, err := recoverFrom(left, store.Options{SegmentSize: 4096}, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := u.verify(r, u.durable()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		r.store.Close()
		if left.Bytes(oldest) != nil {
			t.Errorf("%s: got %s still there, want it removed", name, oldest)
		}
	}
}

// With segments so small that each sync begins a new one, space is freed fast enough.
func TestCleaningKeepsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := storetest.NewDisk()
		disk.Fault = func(op storetest.Operation, _ string) (int, error) {
			if op == storetest.Sync {
				time.Sleep(time.Millisecond)
			}
			return 0, nil
		}
		u := newUser(t, 9)
		u.open(disk, store.Options{SegmentSize: 4096})
		var b store.Batch
		most := 0
		for i := range 200 {
			for range 10 {
				u.publish(&b, 5000)
				u.commit(&b)
				b.Reset()
			}
			// Most are settled soon. Some stay, so that there is something to copy.
			for at := 0; len(u.live) > 100; {
				if m := u.live[at]; m.Seq()%10 == 0 && m.Seq()+500 > uint64(10*i) {
					at++
					continue
				}
				u.settle(&b, u.live[at])
			}
			u.wait(u.commit(&b))
			b.Reset()
			if i > 50 {
				most = max(most, u.store.Stats().Segments)
			}
		}
		stats := u.store.Stats()
		if stats.Copied == 0 {
			t.Error("got nothing copied: this test shows nothing")
		}
		if most > 300 {
			t.Errorf("got up to %d segments with 100 messages live, want at most 300; at the end %+v", most, stats)
		}
		u.close()
		disk.Fault = nil
		u.mustRecover(disk, store.Options{SegmentSize: 4096}, u.durable())
	})
}

// A message that cannot be read does not prevent cleaning.
func TestCleaningSetsAside(t *testing.T) {
	disk := storetest.NewDisk()
	o := store.Options{SegmentSize: 4096}
	u := newUser(t, 10)
	u.open(disk, o)
	var b store.Batch
	var stay []*mail
	for range 10 {
		stay = append(stay, u.publish(&b, 200))
	}
	bad := stay[4]
	u.wait(u.commit(&b))
	b.Reset()
	const oldest = "0000000000000001.log"
	f, err := disk.Open(oldest)
	if err != nil {
		t.Fatal(err)
	}
	at := int64(bytes.Index(disk.Bytes(oldest), bad.content.Body))
	if _, err := f.WriteAt([]byte("damage"), at+50); err != nil {
		t.Fatal(err)
	}
	removed := u.store.Stats().Removed
	for u.store.Stats().Removed < removed+20 {
		m := u.publish(&b, 1000)
		u.wait(u.commit(&b))
		b.Reset()
		for len(m.queues) > 0 {
			u.settle(&b, m)
		}
		u.wait(u.commit(&b))
		b.Reset()
	}
	if got := u.store.Stats().SetAside; got != 1 {
		t.Errorf("got %d messages set aside, want 1", got)
	}
	const aside = oldest + ".damaged"
	var corrupt *store.CorruptError
	if _, err := u.store.Read(&bad.Message); !errors.As(err, &corrupt) || corrupt.File != aside || corrupt.Offset > at {
		t.Errorf("got %v for the message that was set aside, want a *CorruptError that names %s", err, aside)
	}
	for _, m := range stay {
		if got, err := u.store.Read(&m.Message); m != bad && (err != nil || !equalContent(got, m.content)) {
			t.Errorf("message %d: got %v, %v; want its content", m.Seq(), got, err)
		}
	}
	u.close()
	if disk.Bytes(oldest) != nil || disk.Bytes(aside) == nil {
		t.Errorf("got %s there %v and %s there %v, want it renamed", oldest, disk.Bytes(oldest) != nil, aside, disk.Bytes(aside) != nil)
	}
	report, err := store.Check(t.Context(), disk)
	if err != nil || len(report.Damage) > 0 || report.Messages != len(stay)-1 || !slices.Equal(report.SetAside, []string{aside}) {
		t.Errorf("Check: got %+v, %v; want %d messages, no damage, and %s set aside", report, err, len(stay)-1, aside)
	}
	for _, q := range slices.Clone(bad.queues) {
		u.forget(bad, q)
	}
	u.history = append(u.history, fingerprint{u.durable(), sumHolds(u.holds)})
	u.mustRecover(disk, o, u.durable())
}

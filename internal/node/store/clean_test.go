package store_test

import (
	"testing"
	"testing/synctest"

	"github.com/rehop/rehop/internal/node/store"
	"github.com/rehop/rehop/internal/node/store/storetest"
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

// A segment that was to be removed and is there again, because the directory had not been synced, is
// not read: the settlements of its messages may be gone.
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
	// Each message is settled after the next is published, and so some in a later segment.
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

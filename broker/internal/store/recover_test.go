package store_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

func TestReopen(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options store.Options
		steps   int
	}{
		{"one segment", store.Options{}, 200},
		{"many segments", store.Options{SegmentSize: 4096}, 2000},
		{"not synced", store.Options{SegmentSize: 4096, Sync: store.SyncNever}, 2000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			disk := storetest.NewDisk()
			u := newUser(t, 1)
			u.open(disk, tt.options)
			var last store.Mark
			for range tt.steps {
				last = max(last, u.step())
			}
			u.close()
			if got := u.durable(); got < last {
				t.Errorf("got mark %d durable after Close, want %d or a later one", got, last)
			}
			u.mustRecover(disk, tt.options, last)
		})
	}
}

func TestReopenDirectory(t *testing.T) {
	dir := store.Dir(t.TempDir() + "/made/by/the/store")
	o := store.Options{SegmentSize: 16 << 10}
	u := newUser(t, 2)
	u.open(dir, o)
	for range 1000 {
		u.step()
	}
	u.close()
	u.mustRecover(dir, o, u.durable())
}

// The store continues where it was, several times, and removes what it does not need.
func TestModel(t *testing.T) {
	for s := range uint64(8) {
		t.Run(fmt.Sprint("seed ", s), func(t *testing.T) {
			t.Parallel()
			disk := storetest.NewDisk()
			o := store.Options{SegmentSize: 4096}
			u := newUser(t, s)
			u.open(disk, o)
			removed := int64(0)
			// With one processor the cleaner may have to wait for a while.
			for round := 0; round < 12 || removed == 0 && round < 500; round++ {
				for range 300 {
					mark := u.step()
					if u.rng.IntN(10) == 0 {
						u.wait(mark)
					}
				}
				removed += u.store.Stats().Removed
				u.close()
				u.mustRecover(disk, o, u.durable())
				u.open(disk, o)
				if !u.store.Clean() {
					t.Error("got a log that was not closed in order, want one that was")
				}
			}
			if removed == 0 {
				t.Error("got no segment removed, want some: this test shows nothing")
			}
			u.close()
			mustCheck(t, disk, len(u.live))
		})
	}
}

func TestClean(t *testing.T) {
	disk := storetest.NewDisk()
	u := newUser(t, 3)
	u.open(disk, store.Options{})
	if !u.store.Clean() {
		t.Error("got a new directory not clean, want clean")
	}
	u.wait(u.step())
	killed := disk.Killed()
	u.close()
	for _, tt := range []struct {
		name string
		disk *storetest.Disk
		want bool
	}{{"closed", disk, true}, {"killed", killed, false}} {
		r, err := recoverFrom(tt.disk, store.Options{}, nil)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if r.clean != tt.want {
			t.Errorf("%s: got clean %v, want %v", tt.name, r.clean, tt.want)
		}
		r.store.Close()
	}
}

func TestRecoverOnlyQueuesThatLive(t *testing.T) {
	disk := storetest.NewDisk()
	u := newUser(t, 4)
	u.open(disk, store.Options{SegmentSize: 4096})
	for range 500 {
		u.step()
	}
	u.close()
	gone := u.queues[0]
	want := maps.Clone(u.holds)
	maps.DeleteFunc(want, func(h hold, _ int) bool { return h.queue == gone })
	queues := make(map[store.QueueID]bool)
	for _, q := range u.queues[1:] {
		queues[q] = true
	}
	r, err := recoverFrom(disk, store.Options{}, queues)
	if err != nil {
		t.Fatal(err)
	}
	defer r.store.Close()
	if !maps.Equal(r.holds, want) {
		t.Errorf("got %d claims, want the %d of queues that live", len(r.holds), len(want))
	}
}

func TestRecoverWithoutWhatTheCallerDrops(t *testing.T) {
	disk := storetest.NewDisk()
	u := newUser(t, 5)
	u.open(disk, store.Options{})
	for range 200 {
		u.step()
	}
	u.close()
	s, err := store.Open(disk, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Recover(nil,
		func(f store.Found) *store.Message {
			if !f.Persistent {
				return nil
			}
			return new(store.Message)
		},
		func(m *store.Message, h store.Hold) {
			if !m.Meta().Persistent {
				t.Errorf("got message %d held by queue %d, want it dropped", m.Seq(), h.Queue)
			}
			delete(u.holds, hold{m.Seq(), h.Queue})
		})
	if err != nil {
		t.Fatal(err)
	}
	for h := range u.holds {
		if u.mails[h.seq].meta.Persistent {
			t.Errorf("message %d of queue %d was not recovered", h.seq, h.queue)
		}
	}
}

func TestQueueIDsAreNeverUsedAgain(t *testing.T) {
	disk := storetest.NewDisk()
	u := newUser(t, 6)
	u.open(disk, store.Options{})
	used := u.store.NewQueue()
	var b store.Batch
	var m store.Message
	b.Publish(&m, store.Content{}, store.Meta{}, []store.QueueID{used})
	u.store.Commit(&b)
	u.close()
	r, err := recoverFrom(disk, store.Options{}, map[store.QueueID]bool{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.store.Close()
	if len(r.holds) != 0 {
		t.Errorf("got %v, want nothing of a queue that is gone", r.holds)
	}
	if got := r.store.NewQueue(); got <= used {
		t.Errorf("got queue %d, want one after %d", got, used)
	}
}

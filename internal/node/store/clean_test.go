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

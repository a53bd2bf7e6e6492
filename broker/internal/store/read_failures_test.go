package store_test

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

// The cleaner does not give up a message that cannot be read for a while: it copies it later. It gives up
// one that cannot be read for a long time, so that the log does not grow without limit.
func TestCleaningWaitsForTheDisk(t *testing.T) {
	for name, tt := range map[string]struct {
		outage   time.Duration // 0: without end
		setAside int64
	}{"a second": {time.Second, 0}, "five minutes": {5 * time.Minute, 0}, "for ever": {0, 3}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const oldest = "0000000000000001.log"
				disk := storetest.NewDisk()
				var fails atomic.Bool
				var tries atomic.Int64
				disk.ReadFault = func(name string, _ int64) error {
					if name == oldest && fails.Load() {
						tries.Add(1)
						return syscall.EIO
					}
					return nil
				}
				u := newUser(t, 12)
				u.open(disk, store.Options{SegmentSize: 4096})
				var b store.Batch
				for range 3 {
					u.publish(&b, 200)
				}
				u.wait(u.commit(&b))
				b.Reset()
				stay := append([]*mail{}, u.live...)
				fails.Store(true)
				// Enough garbage, so that the rest of the oldest segment is copied.
				for range 40 {
					m := u.publish(&b, 1000)
					u.wait(u.commit(&b))
					b.Reset()
					for len(m.queues) > 0 {
						u.settle(&b, m)
					}
					u.wait(u.commit(&b))
					b.Reset()
				}
				synctest.Wait()
				if tries.Load() == 0 || disk.Bytes(oldest) == nil {
					t.Fatalf("got %d tries to read, and the segment there %v: this test shows nothing", tries.Load(), disk.Bytes(oldest) != nil)
				}
				if tt.outage > 0 {
					time.Sleep(tt.outage)
					if got := u.store.Stats().SetAside; got > 0 {
						t.Errorf("got %d messages set aside while the disk was away, want none", got)
					}
					fails.Store(false)
				}
				time.Sleep(20 * time.Minute)
				if got := u.store.Stats().SetAside; got != tt.setAside {
					t.Errorf("got %d messages set aside, want %d", got, tt.setAside)
				}
				if disk.Bytes(oldest) != nil {
					t.Error("the oldest segment is still there, want its space given back")
				}
				if tries.Load() > 200 {
					t.Errorf("got %d tries to read, want few", tries.Load())
				}
				for _, m := range stay {
					got, err := u.store.Read(&m.Message)
					if tt.setAside == 0 && (err != nil || !equalContent(got, m.content)) || tt.setAside > 0 && !errors.Is(err, syscall.EIO) {
						t.Errorf("message %d: got %v, %v", m.Seq(), got, err)
					}
				}
				fails.Store(false)
				u.close()
			})
		})
	}
}

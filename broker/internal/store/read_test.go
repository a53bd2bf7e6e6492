package store_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

// A message can be read before, while and after it is written.
func TestReadEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := storetest.NewDisk()
		var g gate
		disk.Fault = g.pass
		u := newUser(t, 1)
		u.open(disk, store.Options{SegmentSize: 4096})
		synctest.Wait()
		g.shut()
		publish := func() *mail {
			var b store.Batch
			m := u.publish(&b, 3000)
			u.commit(&b)
			return m
		}
		writing := publish()
		synctest.Wait()
		pending := publish()
		for name, m := range map[string]*mail{"writing": writing, "pending": pending} {
			if got, err := u.store.Read(&m.Message); err != nil || !equalContent(got, m.content) {
				t.Errorf("%s: got %v, %v; want its content", name, got, err)
			}
		}
		g.open()
		synctest.Wait()
		if got, err := u.store.Read(&writing.Message); err != nil || !equalContent(got, writing.content) {
			t.Errorf("written: got %v, %v; want its content", got, err)
		}
		u.close()
	})
}

func TestReadSettled(t *testing.T) {
	u := newUser(t, 2)
	u.open(storetest.NewDisk(), store.Options{})
	defer u.close()
	var b store.Batch
	m := u.publish(&b, 10)
	u.commit(&b)
	b.Reset()
	for len(m.queues) > 0 {
		if _, err := u.store.Read(&m.Message); err != nil {
			t.Errorf("got %v while a queue holds the message, want its content", err)
		}
		u.settle(&b, m)
		u.commit(&b)
		b.Reset()
	}
	if _, err := u.store.Read(&m.Message); !errors.Is(err, store.ErrSettled) {
		t.Errorf("got %v after all queues settled, want %v", err, store.ErrSettled)
	}
}

// A damaged body is not returned.
func TestReadCorrupt(t *testing.T) {
	disk := storetest.NewDisk()
	u := newUser(t, 3)
	u.open(disk, store.Options{})
	defer u.store.Close()
	var b store.Batch
	m := u.publish(&b, 1000)
	u.wait(u.commit(&b))
	f, err := disk.Open("0000000000000001.log")
	if err != nil {
		t.Fatal(err)
	}
	size := u.store.Stats().Bytes
	if _, err := f.WriteAt([]byte("damage"), size-500); err != nil {
		t.Fatal(err)
	}
	var corrupt *store.CorruptError
	if _, err := u.store.Read(&m.Message); !errors.As(err, &corrupt) || corrupt.File != "0000000000000001.log" || corrupt.Offset > size-500 {
		t.Errorf("got %v, want a *CorruptError with file and offset", err)
	}
}

// Messages are read while their segments are copied and removed.
func TestReadWhileCleaning(t *testing.T) {
	dir := store.Dir(t.TempDir())
	u := newUser(t, 4)
	u.open(dir, store.Options{SegmentSize: 4096, Sync: store.SyncNever})
	var b store.Batch
	var stay []*mail
	for range 20 {
		stay = append(stay, u.publish(&b, 100))
	}
	u.commit(&b)
	b.Reset()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; u.store.Stats().Copied < 200; i++ {
			m := stay[i%len(stay)]
			if got, err := u.store.Read(&m.Message); err != nil || !equalContent(got, m.content) {
				t.Errorf("got %v, %v; want its content", got, err)
				return
			}
		}
	}()
	for reading := true; reading; {
		m := u.publish(&b, 500)
		u.wait(u.commit(&b))
		b.Reset()
		for len(m.queues) > 0 {
			u.settle(&b, m)
		}
		u.commit(&b)
		b.Reset()
		select {
		case <-done:
			reading = false
		default:
		}
	}
	u.close()
}

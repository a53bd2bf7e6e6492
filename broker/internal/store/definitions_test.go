package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

func TestDefinitions(t *testing.T) {
	disk := storetest.NewDisk()
	u := newUser(t, 1)
	u.open(disk, store.Options{})
	u.store.Define([]store.Definition{{"vhost /", []byte("1")}, {"queue a", []byte("2")}, {"queue b", nil}}, nil)
	u.store.Define([]store.Definition{{"queue a", []byte("3")}}, []string{"queue b", "never defined"})
	want := []store.Definition{{"queue a", []byte("3")}, {"vhost /", []byte("1")}}
	if got := u.store.Definitions(); !equalDefinitions(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	u.close()
	u.open(disk, store.Options{})
	if got := u.store.Definitions(); !equalDefinitions(got, want) {
		t.Errorf("after a restart: got %q, want %q", got, want)
	}
	u.close()
}

// The file of definitions does not grow without limit, and a power failure at any time leaves all or
// nothing of each change.
func TestDefinitionsArePackedAndAtomic(t *testing.T) {
	const keys = 20
	disk := storetest.NewDisk()
	rng := rand.New(rand.NewPCG(1, 1))
	type photo struct {
		disk    *storetest.Disk
		durable int
	}
	var (
		mu       sync.Mutex
		photos   []photo
		versions = make(map[store.Mark]int)
		durable  int
	)
	o := store.Options{
		Synced: func(m store.Mark) {
			mu.Lock()
			defer mu.Unlock()
			durable = max(durable, versions[m])
		},
		Crash: func(string) {
			mu.Lock()
			defer mu.Unlock()
			if rng.IntN(20) == 0 {
				photos = append(photos, photo{disk.PowerCut(rng), durable})
			}
		},
	}
	u := newUser(t, 2)
	u.open(disk, o)
	largest := 0
	for version := 1; version <= 1500; version++ {
		var puts []store.Definition
		for k := range keys {
			puts = append(puts, store.Definition{Key: fmt.Sprint("key ", k), Value: fmt.Appendf(nil, "%d %s", version, strings.Repeat("x", 50))})
		}
		mark := u.store.Define(puts, nil)
		mu.Lock()
		versions[mark] = version
		mu.Unlock()
		if version%3 == 0 {
			u.wait(mark)
			largest = max(largest, len(disk.Bytes("definitions.log")))
		}
	}
	u.close()
	if largest > 256<<10 {
		t.Errorf("got %d bytes of definitions at worst, want less than 256 KiB for %d bytes", largest, keys*70)
	}
	for _, p := range photos {
		r, err := recoverFrom(p.disk, store.Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		all := r.store.Definitions()
		version := 0
		for _, d := range all {
			var v int
			fmt.Sscan(string(d.Value), &v)
			if version != 0 && v != version {
				t.Fatalf("got definitions of versions %d and %d, want one of them", v, version)
			}
			version = v
		}
		if version < p.durable || len(all) != keys && version > 0 {
			t.Fatalf("got %d definitions of version %d, want %d of version %d or later", len(all), version, keys, p.durable)
		}
		if !slices.IsSortedFunc(all, func(a, b store.Definition) int { return strings.Compare(a.Key, b.Key) }) {
			t.Fatalf("got %q, want them sorted", all)
		}
		r.store.Close()
	}
	if len(photos) < 50 {
		t.Errorf("got %d images, want at least 50", len(photos))
	}
}

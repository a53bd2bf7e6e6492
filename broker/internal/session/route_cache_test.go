package session

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/rehop/rehop/broker/internal/node"
)

// nodeOf is a node with this much memory.
func nodeOf(memory int64) *node.Node { return &node.Node{Config: node.Config{MemoryLimit: memory}} }

// A connection caches routes within bounds, for any number of queues and keys, whatever changes meanwhile.
func TestRoutesAreBounded(t *testing.T) {
	many := make([]*node.Queue, 3000)
	for i := range many {
		many[i] = &node.Queue{}
	}
	for name, c := range map[string]struct {
		keys, queues int
		changes      bool // of the topology, with each message
	}{
		"3,000 queues, 4,000 keys":    {4000, 3000, false},
		"512 queues, 4,000 keys":      {4000, 512, false},
		"1 queue, 100,000 keys":       {100_000, 1, false},
		"500 queues, always changing": {4000, 500, true},
	} {
		t.Run(name, func(t *testing.T) {
			cache := newRouteCache(nodeOf(1 << 30))
			before := heapInUse()
			for i := range c.keys {
				r := cache.to([]byte("exchange"), fmt.Appendf(nil, "key.%d", i))
				version := uint64(1)
				if c.changes {
					version += uint64(i)
				}
				queues := append(make([]*node.Queue, 0, c.queues), many[:c.queues]...)
				cache.remember(r, version, queues, true)
				if i%997 > 0 {
					continue
				}
				held := 0
				for _, known := range cache.known {
					held += known.weight()
				}
				if held > routeCacheSize || held != cache.size {
					t.Fatalf("after %d keys: %d bytes are held and %d counted, want at most %d", i+1, held, cache.size, routeCacheSize)
				}
			}
			if grown := heapInUse() - before; grown > 2*routeCacheSize {
				t.Errorf("the heap has grown by %d KiB, want at most %d", grown>>10, 2*routeCacheSize>>10)
			}
			runtime.KeepAlive(&cache)
		})
	}
}

// Cached routes are found again, and others are looked up each time.
func TestRoutesAreRemembered(t *testing.T) {
	cache := newRouteCache(nodeOf(1 << 30))
	r := cache.to([]byte("x"), []byte("k"))
	q := &node.Queue{}
	cache.remember(r, 7, []*node.Queue{q}, true)
	cache.to([]byte("x"), []byte("other"))
	if again := cache.to([]byte("x"), []byte("k")); again != r || again.version != 7 || len(again.queues) != 1 || !again.plain {
		t.Errorf("got %+v, want what was remembered", again)
	}
	far := cache.to([]byte("x"), []byte("far"))
	cache.remember(far, 7, make([]*node.Queue, maxRouteQueues+1), true)
	if far.version != 0 || far.queues != nil {
		t.Errorf("a route to %d queues is remembered", maxRouteQueues+1)
	}
	cache.remember(cache.to([]byte("x"), []byte("later")), 8, []*node.Queue{q}, true)
	if old := cache.to([]byte("x"), []byte("k")); old.version != 0 || old.queues != nil {
		t.Errorf("got %+v after a change, want nothing of before", old)
	}
}

// The caches of all connections have a bound together, and each connection remembers at least its newest route.
func TestRoutesOfManyConnections(t *testing.T) {
	const memory = 32 << 20
	n := nodeOf(memory)
	caches := make([]routeCache, 100)
	queue := []*node.Queue{{}}
	before := heapInUse()
	for i := range caches {
		cache := newRouteCache(n)
		for j := range 1000 {
			cache.remember(cache.to([]byte("exchange"), fmt.Appendf(nil, "key.%0100d", j)), 1, queue, true)
		}
		last := []byte("the last key")
		cache.remember(cache.to([]byte("exchange"), last), 1, queue, true)
		cache.last = nil
		if r := cache.to([]byte("exchange"), last); r.version != 1 {
			t.Errorf("connection %d: its newest route is forgotten", i)
		}
		caches[i] = cache
	}
	sum := 0
	for i := range caches {
		sum += caches[i].size
	}
	counted := n.MemoryUse.Routes.Load()
	// Those beyond the bound have one route each.
	if most := int64(memory/16 + len(caches)<<10); counted != int64(sum) || counted > most {
		t.Errorf("%d bytes are counted and the caches have %d, want the same and at most %d", counted, sum, most)
	}
	if grown := heapInUse() - before; grown > memory/8 {
		t.Errorf("the heap has grown by %d KiB, want at most %d", grown>>10, memory/8>>10)
	}
	for i := range caches {
		caches[i].clear()
	}
	if left := n.MemoryUse.Routes.Load(); left != 0 {
		t.Errorf("%d bytes are counted after all caches are empty", left)
	}
}

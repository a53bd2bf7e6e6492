package session

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/rehop/rehop/broker/internal/node"
)

// A connection caches routes within bounds, for any number of queues and keys, whatever changes meanwhile.
func TestWaysAreBounded(t *testing.T) {
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
			ws := newRouteCache()
			before := heapInUse()
			for i := range c.keys {
				w := ws.to([]byte("exchange"), fmt.Appendf(nil, "key.%d", i))
				version := uint64(1)
				if c.changes {
					version += uint64(i)
				}
				queues := append(make([]*node.Queue, 0, c.queues), many[:c.queues]...)
				ws.remember(w, version, queues, true)
				if i%997 > 0 {
					continue
				}
				held := 0
				for _, known := range ws.known {
					held += known.weight()
				}
				if held > routeCacheSize || held != ws.size {
					t.Fatalf("after %d keys: %d bytes are held and %d counted, want at most %d", i+1, held, ws.size, routeCacheSize)
				}
			}
			if grown := heapInUse() - before; grown > 2*routeCacheSize {
				t.Errorf("the heap has grown by %d KiB, want at most %d", grown>>10, 2*routeCacheSize>>10)
			}
			runtime.KeepAlive(&ws)
		})
	}
}

// Cached routes are found again, and others are looked up each time.
func TestWaysRemember(t *testing.T) {
	ws := newRouteCache()
	w := ws.to([]byte("x"), []byte("k"))
	q := &node.Queue{}
	ws.remember(w, 7, []*node.Queue{q}, true)
	ws.to([]byte("x"), []byte("other"))
	if again := ws.to([]byte("x"), []byte("k")); again != w || again.version != 7 || len(again.queues) != 1 || !again.plain {
		t.Errorf("got %+v, want what was remembered", again)
	}
	far := ws.to([]byte("x"), []byte("far"))
	ws.remember(far, 7, make([]*node.Queue, maxRouteQueues+1), true)
	if far.version != 0 || far.queues != nil {
		t.Errorf("a way to %d queues is remembered", maxRouteQueues+1)
	}
	ws.remember(ws.to([]byte("x"), []byte("later")), 8, []*node.Queue{q}, true)
	if old := ws.to([]byte("x"), []byte("k")); old.version != 0 || old.queues != nil {
		t.Errorf("got %+v after a change, want nothing of before", old)
	}
}

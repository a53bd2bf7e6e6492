package node

import (
	"sync"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
)

// recentBytes is the size of the cache.
const recentBytes = 4 << 20

// contentCache keeps contents that were read from disk for one queue while other queues have the message too and will
// need it soon: in a fanout, all queues have the same messages, and their consumers are often equally fast.
type contentCache struct {
	mu       sync.Mutex
	contents map[*queue.Message]*store.Content
	order    []*queue.Message // oldest first
	bytes    int
}

func (r *contentCache) find(m *queue.Message) *store.Content {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.contents[m]
}

// add keeps a content, and drops the oldest if the cache is full.
func (r *contentCache) add(m *queue.Message, c *store.Content) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.contents[m]; known || recentSize(c) > recentBytes {
		return
	}
	if r.contents == nil {
		r.contents = make(map[*queue.Message]*store.Content)
	}
	r.contents[m] = c
	r.order = append(r.order, m)
	for r.bytes += recentSize(c); r.bytes > recentBytes; {
		oldest := r.order[0]
		r.bytes -= recentSize(r.contents[oldest])
		delete(r.contents, oldest)
		r.order[0] = nil
		r.order = r.order[1:]
	}
}

// PublicationOverhead is about how much memory a message uses in addition to its content.
const PublicationOverhead = 512

// recentSize is about how much memory a content uses.
func recentSize(c *store.Content) int { return PublicationOverhead + len(c.Properties) + len(c.Body) }

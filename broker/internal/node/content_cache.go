package node

import (
	"sync"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
)

// recentBytes is how much is kept of contents that were read from disk.
const recentBytes = 4 << 20

// contentCache keeps contents that were read from disk for one queue while others hold the messages too, and will ask for them soon: in a
// fanout all queues have the same messages, and consumers that are about as fast.
type contentCache struct {
	mu       sync.Mutex
	contents map[*queue.Message]*store.Content
	order    []*queue.Message // oldest first
	bytes    int
}

// find returns the content of a message, or nil.
func (r *contentCache) find(m *queue.Message) *store.Content {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.contents[m]
}

// add keeps a content, and forgets the oldest if there are too many.
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

// PublicationOverhead is about what a publication costs in memory beside its content.
const PublicationOverhead = 512

// recentSize is about what a content takes in memory.
func recentSize(c *store.Content) int { return PublicationOverhead + len(c.Properties) + len(c.Body) }

package session

import (
	"sync/atomic"

	"github.com/rehop/rehop/broker/internal/node"
)

// route is where messages with an exchange and a key go.
type route struct {
	exchange string
	key      string
	version  uint64 // of the virtual host when the route was found; 0: it is unknown
	source   *node.Exchange
	queues   []*node.Queue
	plain    bool // all messages with this key go to these queues
}

// routeCache has the routes of a connection.
type routeCache struct {
	known   map[string]*route
	last    *route
	key     []byte
	size    int           // about how many bytes the cache uses
	version uint64        // of the virtual host when the newest was found: older routes are useless, and may have deleted queues
	total   *atomic.Int64 // about how many bytes the caches of all connections use
	limit   int64         // of total; beyond it each connection has one route
}

// Bounds of the cache. Together, the caches of all connections have a sixteenth of the memory, which is about an eighth with
// garbage.
const (
	maxRoutes      = 4096
	routeCacheSize = 1 << 20
	// maxRouteQueues is how many queues a cached route may have. To find more takes long, but to publish to them takes longer.
	maxRouteQueues = 512
	// routeOverhead is about how much memory a route uses in addition to its queues and its names, which it has twice.
	routeOverhead = 192
)

func newRouteCache(n *node.Node) routeCache {
	return routeCache{known: make(map[string]*route), total: &n.MemoryUse.Routes, limit: n.Config.MemoryLimit / 16}
}

func (r *route) weight() int { return routeOverhead + 2*(len(r.exchange)+len(r.key)) + 8*cap(r.queues) }

func routeKey[T string | []byte](buf []byte, exchange, key T) []byte {
	return append(append(append(buf, byte(len(exchange))), exchange...), key...)
}

// to returns the route of an exchange and a key, which are parts of a frame.
func (c *routeCache) to(exchange, key []byte) *route {
	if r := c.last; r != nil && r.exchange == string(exchange) && r.key == string(key) {
		return r
	}
	c.key = routeKey(c.key[:0], exchange, key)
	r := c.known[string(c.key)]
	if r == nil {
		r = &route{exchange: string(exchange), key: string(key)}
		if len(c.known) >= maxRoutes || !c.hasRoom(r.weight()) {
			c.clear()
		}
		c.known[string(c.key)] = r
		c.grow(r.weight())
	}
	c.last = r
	return r
}

func (c *routeCache) hasRoom(size int) bool {
	return c.size+size <= routeCacheSize && c.total.Load()+int64(size) <= c.limit
}

func (c *routeCache) grow(size int) {
	c.size += size
	c.total.Add(int64(size))
}

// clear removes everything. A message in progress can still use its route, which becomes unknown.
func (c *routeCache) clear() {
	for _, r := range c.known {
		r.version, r.queues, r.plain = 0, nil, false
	}
	c.known, c.last = make(map[string]*route), nil
	c.grow(-c.size)
}

// remember sets a route, unless it uses too much memory.
func (c *routeCache) remember(r *route, version uint64, queues []*node.Queue, plain bool) {
	more := 8 * cap(queues)
	if len(queues) > maxRouteQueues {
		more = 0
	}
	if c.version != version || !c.hasRoom(more) {
		c.clear()
		c.version = version
		c.known[string(routeKey(nil, r.exchange, r.key))] = r
		c.grow(r.weight())
	}
	if len(queues) > maxRouteQueues {
		return
	}
	r.version, r.queues, r.plain = version, queues, plain
	c.grow(more)
}

package session

import "github.com/rehop/rehop/broker/internal/node"

// route is where messages with an exchange and a key go.
type route struct {
	exchange string
	key      string
	version  uint64 // of the virtual host when this was found out; 0: it is not known
	source   *node.Exchange
	queues   []*node.Queue
	plain    bool // all such messages go to these queues
}

// routeCache remembers where messages went.
type routeCache struct {
	known   map[string]*route
	last    *route
	key     []byte
	size    int    // about how many bytes all that is remembered takes
	version uint64 // of the virtual host when the newest was found out: what is older is of no use, and may lead to queues that are gone
}

// manyWays and waysSize bound what is remembered.
const (
	maxRoutes      = 4096
	routeCacheSize = 1 << 20
)

// rememberedQueues is to how many queues a route may lead to be remembered. To find more takes long, but handing over takes longer.
const rememberedQueues = 512

// routeOverhead is about what a route takes besides its names, which are held twice, and its queues.
const routeOverhead = 192

func newRouteCache() routeCache { return routeCache{known: make(map[string]*route)} }

// weight is about how many bytes a route takes.
func (w *route) weight() int { return routeOverhead + 2*(len(w.exchange)+len(w.key)) + 8*cap(w.queues) }

// to returns the route of an exchange and a key, which the payload of a frame holds.
func (ws *routeCache) to(exchange, key []byte) *route {
	if w := ws.last; w != nil && w.exchange == string(exchange) && w.key == string(key) {
		return w
	}
	ws.key = append(append(append(ws.key[:0], byte(len(exchange))), exchange...), key...)
	w := ws.known[string(ws.key)]
	if w == nil {
		w = &route{exchange: string(exchange), key: string(key)}
		ws.makeRoom(w.weight())
		ws.known[string(ws.key)] = w
		ws.size += w.weight()
	}
	ws.last = w
	return w
}

// makeRoom forgets everything if there is no room for so much more. Those who hold a route can still use it.
func (ws *routeCache) makeRoom(size int) {
	if len(ws.known) >= maxRoutes || ws.size+size > routeCacheSize {
		ws.clear()
	}
}

// clear forgets everything. A route that a message in progress holds is not known any more.
func (ws *routeCache) clear() {
	for _, w := range ws.known {
		w.version, w.queues, w.plain = 0, nil, false
	}
	ws.known, ws.size, ws.last = make(map[string]*route), 0, nil
}

// remember notes what was found out about a route, unless it takes too much room.
func (ws *routeCache) remember(w *route, version uint64, queues []*node.Queue, plain bool) {
	more := 8 * cap(queues)
	if len(queues) > rememberedQueues {
		more = 0
	}
	if ws.version != version || ws.size+more > routeCacheSize {
		ws.clear()
		ws.version = version
		ws.known[string(append(append([]byte{byte(len(w.exchange))}, w.exchange...), w.key...))] = w
		ws.size = w.weight()
	}
	if len(queues) > rememberedQueues {
		return
	}
	w.version, w.queues, w.plain = version, queues, plain
	ws.size += more
}

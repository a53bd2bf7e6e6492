package rehopotel

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/rehop/rehop"
)

// standing is the last reported state of a client's connections and subscriptions.
type standing struct {
	mu        sync.Mutex
	states    map[string]rehop.State // by connection
	receiving map[string]string      // by queue: up or down
	paused    map[string]bool        // by queue

	publish, consume server // the brokers of the connections
}

// server is the address of a broker, for spans.
type server struct {
	known atomic.Pointer[[]attribute.KeyValue]
}

// attributes are its address and port, if they are known.
func (s *server) attributes() []attribute.KeyValue {
	if known := s.known.Load(); known != nil {
		return *known
	}
	return nil
}

func (s *server) set(address string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return
	}
	known := []attribute.KeyValue{semconv.ServerAddress(host)}
	if n, err := strconv.Atoi(port); err == nil {
		known = append(known, semconv.ServerPort(n))
	}
	s.known.Store(&known)
}

func newStanding() *standing {
	return &standing{states: make(map[string]rehop.State), receiving: make(map[string]string), paused: make(map[string]bool)}
}

// onState counts connections by state. A closed connection is not counted any more.
func (c *client) onState(change rehop.StateChange) {
	switch change.Connection {
	case "publish":
		c.standing.publish.set(change.Address)
	case "consume":
		c.standing.consume.set(change.Address)
	}
	c.standing.mu.Lock()
	before, known := c.standing.states[change.Connection]
	if change.State == rehop.StateClosed {
		delete(c.standing.states, change.Connection)
	} else {
		c.standing.states[change.Connection] = change.State
	}
	c.standing.mu.Unlock()
	if known && before == change.State {
		return
	}
	ctx, connection := context.Background(), keyConnection.String(change.Connection)
	if known {
		c.count.connections.Add(ctx, -1, with(connection, keyState.String(string(before))))
	}
	// Other states are exported with 0, so that an alert can distinguish them from a client that does not report.
	for _, state := range []rehop.State{rehop.StateOpen, rehop.StateBlocked, rehop.StateRecovering} {
		n := int64(0)
		if state == change.State {
			n = 1
		}
		c.count.connections.Add(ctx, n, with(connection, keyState.String(string(state))))
	}
	if change.Connection == "consume" && change.State == rehop.StateClosed {
		c.allGone()
	}
}

// allGone removes all subscriptions: a client that is closed does not report each of them.
func (c *client) allGone() {
	c.standing.mu.Lock()
	queues := slices.Collect(maps.Keys(c.standing.receiving))
	c.standing.mu.Unlock()
	for _, queue := range queues {
		c.gone(queue)
	}
}

// gone removes a subscription that has ended from the count.
func (c *client) gone(queue string) {
	c.receives(queue, "")
	c.onPause(rehop.PauseEvent{Queue: queue})
}

// Whether a subscription receives messages.
const (
	up   = "up"
	down = "down"
)

// onConsumer counts subscriptions that receive messages, and those that should.
func (c *client) onConsumer(e rehop.ConsumerEvent) {
	if e.Ended {
		c.gone(e.Queue)
		return
	}
	state := down
	if e.Up {
		state = up
	}
	c.receives(e.Queue, state)
	// With 0 before the first event, so that an alert sees it as an increase.
	c.count.stuck.Add(context.Background(), 0, with(keyQueue.String(e.Queue)))
}

// onOpen exports the counters of the exchanges that a client declares.
func (c *client) onOpen(config rehop.Config) {
	for _, x := range config.Exchanges {
		c.knowExchange(x.Name)
	}
}

// knowExchange exports the counter of an exchange with 0.
func (t *Telemetry) knowExchange(name string) {
	t.count.unroutable.Add(context.Background(), 0, with(keyExchange.String(destination(name))))
}

func (c *client) receives(queue, now string) {
	c.standing.mu.Lock()
	before := c.standing.receiving[queue]
	c.standing.receiving[queue] = now
	c.standing.mu.Unlock()
	for _, state := range []string{up, down} {
		n := int64(0)
		if state == now {
			n++
		}
		if state == before {
			n--
		}
		c.count.consumers.Add(context.Background(), n, with(keyQueue.String(queue), keyState.String(state)))
	}
}

func (c *client) onPause(e rehop.PauseEvent) {
	c.standing.mu.Lock()
	before := c.standing.paused[e.Queue]
	c.standing.paused[e.Queue] = e.Paused
	c.standing.mu.Unlock()
	n := int64(0) // exported too: it shows that there is a subscription
	switch {
	case e.Paused && !before:
		n = 1
	case before && !e.Paused:
		n = -1
	}
	c.count.paused.Add(context.Background(), n, with(keyQueue.String(e.Queue)))
}

// onHeld records what waits in order by key.
func (c *client) onHeld(e rehop.HeldEvent) {
	ctx, queue := context.Background(), with(keyQueue.String(e.Queue))
	age, stalled := 0., int64(0)
	if !e.Oldest.IsZero() {
		age = time.Since(e.Oldest).Seconds()
	}
	if e.Stalled {
		stalled = 1
	}
	c.count.held.Record(ctx, int64(e.Messages), queue)
	c.count.heldKeys.Record(ctx, int64(e.Keys), queue)
	c.count.heldOldest.Record(ctx, age, queue)
	c.count.blocked.Record(ctx, int64(e.Blocked), queue)
	c.count.stalled.Record(ctx, stalled, queue)
}

// onStuck counts reports of handlers that ignore their context.
func (c *client) onStuck(e rehop.StuckHandler) {
	if !e.Returned {
		c.count.stuck.Add(context.Background(), 1, with(keyQueue.String(e.Queue)))
	}
}

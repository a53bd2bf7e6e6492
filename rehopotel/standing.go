package rehopotel

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/rehop/rehop"
)

// standing is how a client's connections and subscriptions stand, as far as it has told.
type standing struct {
	mu        sync.Mutex
	states    map[string]rehop.State // by connection
	receiving map[string]string      // by queue: up or down
	paused    map[string]bool        // by queue

	publish, consume server // what the connections lead to
}

// server is a broker in spans.
type server struct {
	known atomic.Pointer[[]attribute.KeyValue]
}

// attributes are its address and port, as far as they are known.
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

// OnState counts connections by their state. One that is closed for good is none any more.
func (h *Hook) OnState(change rehop.StateChange) {
	switch change.Connection {
	case "publish":
		h.standing.publish.set(change.Address)
	case "consume":
		h.standing.consume.set(change.Address)
	}
	h.standing.mu.Lock()
	before, known := h.standing.states[change.Connection]
	if change.State == rehop.StateClosed {
		delete(h.standing.states, change.Connection)
	} else {
		h.standing.states[change.Connection] = change.State
	}
	h.standing.mu.Unlock()
	if known && before == change.State {
		return
	}
	ctx, connection := context.Background(), keyConnection.String(change.Connection)
	if known {
		h.count.connections.Add(ctx, -1, with(connection, keyState.String(string(before))))
	}
	// A state that was never there counts 0 from the start, so that an alert can tell it from a client that does not report.
	for _, state := range []rehop.State{rehop.StateOpen, rehop.StateBlocked, rehop.StateRecovering} {
		n := int64(0)
		if state == change.State {
			n = 1
		}
		h.count.connections.Add(ctx, n, with(connection, keyState.String(string(state))))
	}
	if change.Connection == "consume" && change.State == rehop.StateClosed {
		h.allGone()
	}
}

// allGone: a client that is closed does not tell of each subscription.
func (h *Hook) allGone() {
	h.standing.mu.Lock()
	queues := slices.Collect(maps.Keys(h.standing.receiving))
	h.standing.mu.Unlock()
	for _, queue := range queues {
		h.OnConsumerEnd(queue)
	}
}

// OnConsumerEnd takes a subscription that has ended out of the count.
func (h *Hook) OnConsumerEnd(queue string) {
	h.receives(queue, "")
	h.OnPause(rehop.PauseEvent{Queue: queue})
}

// Whether a subscription receives.
const (
	up   = "up"
	down = "down"
)

// OnConsumer counts subscriptions that receive, and those that should.
func (h *Hook) OnConsumer(e rehop.ConsumerEvent) {
	state := down
	if e.Up {
		state = up
	}
	h.receives(e.Queue, state)
	// Counters with 0, before the first event: from then on an alert sees it as an increase.
	h.count.stuck.Add(context.Background(), 0, with(keyQueue.String(e.Queue)))
}

// OnOpen makes the exchanges known that a client declares.
func (h *Hook) OnOpen(config rehop.Config) {
	for _, x := range config.Exchanges {
		h.knowExchange(x.Name)
	}
}

// knowExchange has an exchange counted from 0.
func (h *Hook) knowExchange(name string) {
	h.count.unrouted.Add(context.Background(), 0, with(keyExchange.String(destination(name))))
}

func (h *Hook) receives(queue, now string) {
	h.standing.mu.Lock()
	before := h.standing.receiving[queue]
	h.standing.receiving[queue] = now
	h.standing.mu.Unlock()
	for _, state := range []string{up, down} {
		n := int64(0)
		if state == now {
			n++
		}
		if state == before {
			n--
		}
		h.count.consumers.Add(context.Background(), n, with(keyQueue.String(queue), keyState.String(state)))
	}
}

// OnPause counts subscriptions that pause.
func (h *Hook) OnPause(e rehop.PauseEvent) {
	h.standing.mu.Lock()
	before := h.standing.paused[e.Queue]
	h.standing.paused[e.Queue] = e.Paused
	h.standing.mu.Unlock()
	n := int64(0) // which counts, too: it says that there is a subscription
	switch {
	case e.Paused && !before:
		n = 1
	case before && !e.Paused:
		n = -1
	}
	h.count.paused.Add(context.Background(), n, with(keyQueue.String(e.Queue)))
}

// OnStuck counts reports of handlers that ignore their context.
func (h *Hook) OnStuck(e rehop.StuckHandler) {
	if !e.Returned {
		h.count.stuck.Add(context.Background(), 1, with(keyQueue.String(e.Queue)))
	}
}

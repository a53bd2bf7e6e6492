package rehopotel

import (
	"context"
	"sync"

	"github.com/rehop/rehop"
)

// standing is how a client's connections and subscriptions stand, as far as it has told.
type standing struct {
	mu        sync.Mutex
	states    map[string]rehop.State // by connection
	consuming map[string]bool        // by queue
	paused    map[string]bool        // by queue
}

func newStanding() standing {
	return standing{states: make(map[string]rehop.State), consuming: make(map[string]bool), paused: make(map[string]bool)}
}

// OnState counts connections by their state.
func (h *Hook) OnState(change rehop.StateChange) {
	h.standing.mu.Lock()
	before, known := h.standing.states[change.Connection]
	h.standing.states[change.Connection] = change.State
	h.standing.mu.Unlock()
	if known && before == change.State {
		return
	}
	ctx, connection := context.Background(), keyConnection.String(change.Connection)
	if known {
		h.count.connections.Add(ctx, -1, with(connection, keyState.String(string(before))))
	}
	// A state that was never there counts 0 from the start, so that an alert can tell it from a client that does not report.
	for _, state := range []rehop.State{rehop.StateOpen, rehop.StateBlocked, rehop.StateRecovering, rehop.StateClosed} {
		n := int64(0)
		if state == change.State {
			n = 1
		}
		h.count.connections.Add(ctx, n, with(connection, keyState.String(string(state))))
	}
	if change.Connection == "consume" && change.State == rehop.StateClosed {
		h.allDown()
	}
}

// allDown: a client that is closed does not tell of each subscription.
func (h *Hook) allDown() {
	h.standing.mu.Lock()
	queues := make([]string, 0, len(h.standing.consuming))
	for queue := range h.standing.consuming {
		queues = append(queues, queue)
	}
	h.standing.mu.Unlock()
	for _, queue := range queues {
		h.OnConsumer(rehop.ConsumerEvent{Queue: queue})
		h.OnPause(rehop.PauseEvent{Queue: queue})
	}
}

// OnConsumer counts subscriptions that receive.
func (h *Hook) OnConsumer(e rehop.ConsumerEvent) {
	h.count.consumers.Add(context.Background(), h.standing.turn(h.standing.consuming, e.Queue, e.Up), with(keyQueue.String(e.Queue)))
}

// OnPause counts subscriptions that pause.
func (h *Hook) OnPause(e rehop.PauseEvent) {
	h.count.paused.Add(context.Background(), h.standing.turn(h.standing.paused, e.Queue, e.Paused), with(keyQueue.String(e.Queue)))
}

// turn sets what is known of a queue, and says how much that changes a sum. The first word of a queue counts too, even as 0.
func (s *standing) turn(known map[string]bool, queue string, now bool) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := known[queue]
	known[queue] = now
	switch {
	case now && !before:
		return 1
	case before && !now:
		return -1
	}
	return 0
}

// OnStuck counts reports of handlers that ignore their context.
func (h *Hook) OnStuck(e rehop.StuckHandler) {
	if !e.Returned {
		h.count.stuck.Add(context.Background(), 1, with(keyQueue.String(e.Queue)))
	}
}

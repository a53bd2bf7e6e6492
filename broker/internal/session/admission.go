package session

import (
	"container/list"
	"fmt"
	"sync"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// admission bounds the connections from the network: those that have logged in by MaxConnections, and handshakes by a
// limit of their own. So strangers, who cannot log in, take no room from those who can.
type admission struct {
	mu         sync.Mutex
	handshakes list.List // of *Connection, the oldest first
	waiting    map[*Connection]*list.Element
	admitted   map[*Connection]struct{}
}

func (a *admission) init() {
	a.waiting, a.admitted = make(map[*Connection]*list.Element), make(map[*Connection]struct{})
}

// begin counts a handshake. If there are too many, it ends the oldest: one that logs in takes milliseconds.
func (a *admission) begin(c *Connection, limit int) {
	if c.peer.InProcess() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit > 0 && a.handshakes.Len() >= limit {
		oldest := a.handshakes.Remove(a.handshakes.Front()).(*Connection)
		delete(a.waiting, oldest)
		oldest.crowdedOut.Store(true)
		// Its reader ends it, unless the handshake is just over: then the reader removes the deadline after endHandshake.
		_ = oldest.conn.SetDeadline(time.Now())
	}
	a.waiting[c] = a.handshakes.PushBack(c)
}

// admit counts a connection that has logged in, unless there are as many as there may be.
func (a *admission) admit(c *Connection, limit int) error {
	if c.peer.InProcess() {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit > 0 && len(a.admitted) >= limit {
		return node.Refuse(wire.NotAllowed, "connection refused for user '%s': the broker has %d connections, which is its limit", c.User, limit)
	}
	a.admitted[c] = struct{}{}
	return nil
}

// endHandshake counts a handshake no longer.
func (a *admission) endHandshake(c *Connection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e, there := a.waiting[c]; there {
		a.handshakes.Remove(e)
		delete(a.waiting, c)
	}
}

// leave counts a connection no longer.
func (a *admission) leave(c *Connection) {
	a.endHandshake(c)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.admitted, c)
}

// errCrowdedOut is the reason for the end of a handshake.
func errCrowdedOut(limit int) error {
	return fmt.Errorf("%d newer connections had not logged in either, which is the limit", limit)
}

package session

import (
	"sync"
	"time"

	"github.com/rehop/rehop/internal/wire"
)

// heartbeatTimer sends heartbeats and closes the connection if those of the client stay away.
type heartbeatTimer struct {
	mu       sync.Mutex
	timer    *time.Timer
	stopped  bool
	sent     uint64
	received uint64
	silent   int
}

// silentTicks is after how many ticks without a frame a client is lost. There are two in each interval.
const silentTicks = 5

func (p *heartbeatTimer) start(c *Connection) {
	if c.Heartbeat == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = c.node.Tasks.AfterFunc(c.Heartbeat/2, func() { p.tick(c) })
}

func (p *heartbeatTimer) tick(c *Connection) {

	sent, received := c.out.sent(), c.received.Load()
	p.mu.Lock()
	quiet := sent == p.sent
	if received == p.received && !c.blocked.Load() && !c.working.Load() {
		p.silent++
	} else {
		p.silent = 0
	}
	p.sent, p.received = sent, received
	dead := p.silent >= silentTicks
	if !p.stopped && !dead {
		p.timer.Reset(c.Heartbeat / 2)
	}
	p.mu.Unlock()
	switch {
	case dead:
		c.node.Log.Warn("missed heartbeats from a client", "connection", c.Name, "heartbeat", c.Heartbeat)
		_ = c.conn.Close()
	case quiet:
		c.out.unlock(wire.AppendHeartbeat(c.out.lock()))
	}
}

func (p *heartbeatTimer) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

package layouts

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// cable is what lies between a client and its broker.
type cable struct {
	connect func(ctx context.Context, network, addr string) (net.Conn, error)

	mu    sync.Mutex
	down  bool
	lines map[*line]struct{}
	deaf  atomic.Bool // what the client sends disappears
}

func newCable(connect func(context.Context, string, string) (net.Conn, error)) *cable {
	return &cable{connect: connect, lines: make(map[*line]struct{})}
}

var errDown = errors.New("the broker cannot be reached")

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l := &line{conn, c}
	c.mu.Lock()
	down := c.down
	if !down {
		c.lines[l] = struct{}{}
	}
	c.mu.Unlock()
	if down {
		_ = conn.Close()
		return nil, errDown
	}
	return l, nil
}

// cut ends all connections, as if the client's process had died.
func (c *cable) cut() {
	c.mu.Lock()
	var all []*line
	for l := range c.lines {
		all = append(all, l)
	}
	c.mu.Unlock()
	for _, l := range all {
		_ = l.Close()
	}
}

// pull cuts the cable until repair.
func (c *cable) pull() {
	c.setDown(true)
	c.cut()
}

func (c *cable) repair() {
	c.deaf.Store(false)
	c.setDown(false)
}

func (c *cable) setDown(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// line is one connection.
type line struct {
	net.Conn
	cable *cable
}

func (l *line) Write(p []byte) (int, error) {
	if l.cable.deaf.Load() {
		return len(p), nil
	}
	return l.Conn.Write(p)
}

func (l *line) Close() error {
	l.cable.mu.Lock()
	delete(l.cable.lines, l)
	l.cable.mu.Unlock()
	return l.Conn.Close()
}

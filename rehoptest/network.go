package rehoptest

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// network is the connections between the clients and the broker.
type network struct {
	connect func(ctx context.Context, network, addr string) (net.Conn, error)

	mu    sync.Mutex
	down  bool
	conns map[*clientConn]struct{}
}

func (c *network) init(connect func(context.Context, string, string) (net.Conn, error)) {
	c.connect = connect
	c.conns = make(map[*clientConn]struct{})
}

var errDown = errors.New("the broker is down: the test has called Down")

func (c *network) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	s := &clientConn{Conn: conn, network: c}
	c.mu.Lock()
	down := c.down
	if !down {
		c.conns[s] = struct{}{}
	}
	c.mu.Unlock()
	if down {
		_ = conn.Close()
		return nil, errDown
	}
	return s, nil
}

// setDown refuses connections from now on, or takes them again.
func (c *network) setDown(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// present are the current connections.
func (c *network) present() []*clientConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.conns))
}

// closeSilent lets the broker see the end of silent connections.
func (c *network) closeSilent() {
	for _, s := range c.present() {
		if s.silent.Load() {
			_ = s.Conn.Close()
		}
	}
}

// clientConn is one connection.
type clientConn struct {
	net.Conn
	network *network
	silent  atomic.Bool // what is sent disappears
}

func (s *clientConn) Read(p []byte) (int, error) {
	for {
		n, err := s.Conn.Read(p)
		if err != nil || !s.silent.Load() {
			return n, err
		}
	}
}

func (s *clientConn) Write(p []byte) (int, error) {
	if s.silent.Load() {
		return len(p), nil
	}
	return s.Conn.Write(p)
}

func (s *clientConn) Close() error {
	if s.silent.Load() { // the broker does not notice
		return s.Conn.SetDeadline(time.Unix(1, 0))
	}
	s.network.mu.Lock()
	delete(s.network.conns, s)
	s.network.mu.Unlock()
	return s.Conn.Close()
}

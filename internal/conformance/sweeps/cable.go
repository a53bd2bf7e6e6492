package sweeps

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// cable is connections that can be cut, and that count what comes from the broker.
type cable struct {
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	bytes atomic.Int64
	mu    sync.Mutex
	conns []net.Conn
}

// metered counts what is read.
type metered struct {
	net.Conn
	bytes *atomic.Int64
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.bytes.Add(int64(n))
	return n, err
}

func (c *cable) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, addr)
	if err == nil {
		conn = metered{conn, &c.bytes}
		c.mu.Lock()
		c.conns = append(c.conns, conn)
		c.mu.Unlock()
	}
	return conn, err
}

// cut cuts all connections that there are.
func (c *cable) cut() {
	c.mu.Lock()
	conns := c.conns
	c.conns = nil
	c.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
}

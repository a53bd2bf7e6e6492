package rehoptest

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// cable is what lies between the clients and the broker.
type cable struct {
	connect func(ctx context.Context, network, addr string) (net.Conn, error)

	mu      sync.Mutex
	down    bool
	strands map[*strand]struct{}
}

func (c *cable) init(connect func(context.Context, string, string) (net.Conn, error)) {
	c.connect = connect
	c.strands = make(map[*strand]struct{})
}

var errDown = errors.New("the broker is down: the test has called Down")

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	s := &strand{Conn: conn, cable: c}
	c.mu.Lock()
	down := c.down
	if !down {
		c.strands[s] = struct{}{}
	}
	c.mu.Unlock()
	if down {
		_ = conn.Close()
		return nil, errDown
	}
	return s, nil
}

// setDown refuses connections from now on, or takes them again.
func (c *cable) setDown(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// present are the connections of this moment.
func (c *cable) present() (all []*strand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.strands {
		all = append(all, s)
	}
	return all
}

// mend lets the broker see the end of connections that are silent.
func (c *cable) mend() {
	for _, s := range c.present() {
		if s.silent.Load() {
			_ = s.Conn.Close()
		}
	}
}

// strand is one connection.
type strand struct {
	net.Conn
	cable  *cable
	silent atomic.Bool // what is sent disappears
}

func (s *strand) Read(p []byte) (int, error) {
	for {
		n, err := s.Conn.Read(p)
		if err != nil || !s.silent.Load() {
			return n, err
		}
	}
}

func (s *strand) Write(p []byte) (int, error) {
	if s.silent.Load() {
		return len(p), nil
	}
	return s.Conn.Write(p)
}

func (s *strand) Close() error {
	if s.silent.Load() { // the broker does not hear of it
		return s.Conn.SetDeadline(time.Unix(1, 0))
	}
	s.cable.mu.Lock()
	delete(s.cable.strands, s)
	s.cable.mu.Unlock()
	return s.Conn.Close()
}

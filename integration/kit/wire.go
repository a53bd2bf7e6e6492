package kit

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
)

// Wire is a Config.Dial that can lead elsewhere, and whose connections can be held up and cut.
type Wire struct {
	mu    sync.Mutex
	taps  []*Tap
	dials int
	addr  string // if set, where all connections go
}

// Dial connects.
func (w *Wire) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	w.dials++
	if w.addr != "" {
		addr = w.addr
	}
	w.mu.Unlock()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &Tap{Conn: conn, cut: make(chan struct{})}
	w.mu.Lock()
	w.taps = append(w.taps, c)
	w.mu.Unlock()
	return c, nil
}

// Lead makes all connections from now on go to an address.
func (w *Wire) Lead(addr string) {
	w.mu.Lock()
	w.addr = addr
	w.mu.Unlock()
}

// Dials is how often a connection was tried.
func (w *Wire) Dials() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials
}

// Newest is the newest connection of a client named "test" with a role, "publish" or "consume".
func (w *Wire) Newest(t testing.TB, role string) *Tap {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.taps) - 1; i >= 0; i-- {
		if w.taps[i].Count("test "+role) > 0 {
			return w.taps[i]
		}
	}
	t.Fatalf("no connection is named %q", "test "+role)
	return nil
}

// Tap is one connection of a Wire.
type Tap struct {
	net.Conn
	mu   sync.Mutex
	sent bytes.Buffer  // everything that was written
	held chan struct{} // not nil: reads wait until it is closed
	cut  chan struct{}
	once sync.Once
}

func (c *Tap) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.sent.Write(p)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// Count is how often a text was sent.
func (c *Tap) Count(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Count(c.sent.String(), text)
}

func (c *Tap) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	held := c.held
	c.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-c.cut:
			return 0, net.ErrClosed
		}
	}
	return n, err
}

// Hold keeps back what the broker sends from now on, until release or Close.
func (c *Tap) Hold() (release func()) {
	held := make(chan struct{})
	c.mu.Lock()
	c.held = held
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		c.held = nil
		c.mu.Unlock()
		close(held)
	}
}

// Close cuts the connection, and drops what was held back.
func (c *Tap) Close() error {
	c.once.Do(func() { close(c.cut) })
	return c.Conn.Close()
}

package subscribing

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
)

// frame is a method that a client has sent.
type frame struct {
	class, method uint16
}

// wire is a Config.Dial that reads along what clients send, and can cut their connections.
type wire struct {
	mu     sync.Mutex
	conns  []net.Conn
	frames []frame
}

func (w *wire) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.conns = append(w.conns, conn)
	w.mu.Unlock()
	return &wireConn{Conn: conn, wire: w, skip: len("AMQP\x00\x00\x09\x01")}, nil
}

// cut breaks all connections without a word.
func (w *wire) cut() {
	w.mu.Lock()
	conns := w.conns
	w.conns = nil
	w.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// sent are the frames of one method so far.
func (w *wire) sent(class, method uint16) []frame {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []frame
	for _, f := range w.frames {
		if f.class == class && f.method == method {
			found = append(found, f)
		}
	}
	return found
}

// wireConn parses the frames that are written to it.
type wireConn struct {
	net.Conn
	wire *wire
	skip int    // bytes until the next frame begins
	head []byte // the beginning of a frame: type, channel, size, and of a method its class and number
}

const headLen = 7 + 4

func (c *wireConn) Write(p []byte) (int, error) {
	c.parse(p)
	return c.Conn.Write(p)
}

func (c *wireConn) parse(p []byte) {
	for len(p) > 0 {
		if c.skip > 0 {
			n := min(c.skip, len(p))
			c.skip -= n
			p = p[n:]
			continue
		}
		c.head = append(c.head, p[0])
		p = p[1:]
		if len(c.head) < 7 {
			continue
		}
		kind, size := c.head[0], int(binary.BigEndian.Uint32(c.head[3:7]))
		if kind != 1 {
			c.skip, c.head = size+1, c.head[:0]
			continue
		}
		if len(c.head) < headLen {
			continue
		}
		f := frame{class: binary.BigEndian.Uint16(c.head[7:9]), method: binary.BigEndian.Uint16(c.head[9:11])}
		c.skip, c.head = size-4+1, c.head[:0]
		c.wire.mu.Lock()
		c.wire.frames = append(c.wire.frames, f)
		c.wire.mu.Unlock()
	}
}

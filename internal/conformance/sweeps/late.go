package sweeps

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
)

// lateDeliveries is connections on which deliveries after the first ones come late: when the client has acked some, and then asks for the depth of a
// queue.
type lateDeliveries struct {
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	after int // how many come at once
	came  atomic.Bool
}

func (l *lateDeliveries) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := l.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	const protocolHeader = 8
	return &lateConn{Conn: conn, of: l, in: bufio.NewReader(conn), skip: protocolHeader}, nil
}

type lateConn struct {
	net.Conn
	of   *lateDeliveries
	open atomic.Bool

	in    *bufio.Reader
	got   int             // deliveries that have begun
	holds map[uint16]bool // whether the last method on a channel was held back
	held  bytes.Buffer
	out   bytes.Buffer

	skip  int // bytes that are sent before the first frame
	sent  []byte
	acked bool
}

// Methods of AMQP, by class and number.
const (
	frameMethod  = 1
	queueDeclare = 50<<16 | 10
	basicDeliver = 60<<16 | 60
	basicAck     = 60<<16 | 80
)

const frameHeader, frameEnd = 7, 1

func (c *lateConn) Read(p []byte) (int, error) {
	for c.out.Len() == 0 {
		header, err := c.in.Peek(frameHeader)
		if err != nil {
			return 0, err
		}
		frame := make([]byte, frameHeader+int(binary.BigEndian.Uint32(header[3:]))+frameEnd)
		if _, err := io.ReadFull(c.in, frame); err != nil {
			return 0, err
		}
		channel := binary.BigEndian.Uint16(frame[1:])
		if frame[0] == frameMethod {
			if c.holds == nil {
				c.holds = make(map[uint16]bool)
			}
			delivers := methodOf(frame) == basicDeliver
			if delivers {
				c.got++
			}
			c.holds[channel] = delivers && c.got > c.of.after
		}
		if c.open.Load() {
			_, _ = c.held.WriteTo(&c.out)
		} else if c.holds[channel] {
			c.of.came.Store(true)
			c.held.Write(frame)
			continue
		}
		c.out.Write(frame)
	}
	return c.out.Read(p)
}

func (c *lateConn) Write(p []byte) (int, error) {
	some := p
	if n := min(c.skip, len(some)); n > 0 {
		c.skip -= n
		some = some[n:]
	}
	for c.sent = append(c.sent, some...); len(c.sent) >= frameHeader; {
		size := frameHeader + int(binary.BigEndian.Uint32(c.sent[3:])) + frameEnd
		if len(c.sent) < size {
			break
		}
		if c.sent[0] == frameMethod {
			method := methodOf(c.sent)
			c.acked = c.acked || method == basicAck
			if c.acked && method == queueDeclare {
				c.open.Store(true)
			}
		}
		c.sent = c.sent[size:]
	}
	return c.Conn.Write(p)
}

func methodOf(frame []byte) uint32 { return binary.BigEndian.Uint32(frame[frameHeader:]) }

package rabbit

import (
	"errors"
	"net"
	"sync"
	"time"
)

// flushGrace is how long a closing connection may take to write what it has gathered.
const flushGrace = 200 * time.Millisecond

// errGatherClosed is what a write after Close gets.
var errGatherClosed = errors.New("connection is closed")

// gatherConn writes in the background. amqp091-go flushes after every message; with many publishers
// at once, what arrives while one system call is under way leaves together with the next.
//
// Write never blocks, so no lock of amqp091-go is ever held across a stalled socket. What it holds
// is bounded by its users: a publisher has a window of unconfirmed bytes, a consumer its prefetch.
type gatherConn struct {
	net.Conn

	mu      sync.Mutex
	pending []byte
	err     error // why writing has ended
	closing bool

	wake chan struct{}
	done chan struct{} // closed when the writer has ended
}

func gather(conn net.Conn) *gatherConn {
	g := &gatherConn{Conn: conn, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go g.write()
	return g
}

func (g *gatherConn) Write(p []byte) (int, error) {
	g.mu.Lock()
	if g.err != nil || g.closing {
		err := g.err
		g.mu.Unlock()
		if err == nil {
			err = errGatherClosed
		}
		return 0, err
	}
	g.pending = append(g.pending, p...)
	g.mu.Unlock()
	g.signal()
	return len(p), nil
}

func (g *gatherConn) signal() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// maxSpare is the largest buffer that is kept for the next round.
const maxSpare = 1 << 20

func (g *gatherConn) write() {
	defer close(g.done)
	var spare []byte
	for range g.wake {
		for {
			g.mu.Lock()
			batch, closing := g.pending, g.closing
			g.pending = spare[:0]
			g.mu.Unlock()
			if len(batch) == 0 {
				if closing {
					return
				}
				spare = batch
				break
			}
			if _, err := g.Conn.Write(batch); err != nil {
				g.mu.Lock()
				g.err, g.pending = err, nil
				g.mu.Unlock()
				// The reader notices, and amqp091-go shuts the connection down.
				_ = g.Conn.Close()
				return
			}
			if spare = batch; cap(spare) > maxSpare {
				spare = nil
			}
		}
	}
}

// Close writes what is pending, if the peer takes it soon, and closes the connection.
func (g *gatherConn) Close() error {
	g.mu.Lock()
	g.closing = true
	g.mu.Unlock()
	_ = g.Conn.SetWriteDeadline(time.Now().Add(flushGrace))
	g.signal()
	<-g.done
	return g.Conn.Close()
}

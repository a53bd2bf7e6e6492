package rabbit

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/internal/prompt"
)

// flushGrace is how long a closing connection may take to write what it has gathered.
const flushGrace = 200 * time.Millisecond

// errGatherClosed is what a write after Close gets.
var errGatherClosed = errors.New("connection is closed")

// readBuffer is how much is read at once. amqp091-go asks for 4 KiB at a time.
const readBuffer = 64 << 10

// gatherConn is a transport that makes few system calls, and that cannot be wedged.
//
// It writes in the background. amqp091-go flushes after every message; with many publishers at once,
// what arrives while one system call is under way leaves together with the next. Where
// nobody else publishes, what comes is written at once, as far as the socket takes it. Write never blocks, so no lock of amqp091-go
// is ever held across a stalled socket. What it holds is bounded by its users: a publisher has a window
// of unconfirmed bytes, a consumer its prefetch.
//
// It also watches the reader. amqp091-go reads in one goroutine, which waits for ever when the broker
// sends an answer that nobody asked for; heartbeats would go on, and nobody would notice.
type gatherConn struct {
	net.Conn
	reader *bufio.Reader
	reads  atomic.Uint64 // how often the reader has asked the peer for more

	prompt prompt.Writer // nil: only the writer writes

	mu      sync.Mutex
	pending []byte
	last    time.Time // when something was last to be written
	pauses  int       // between how many in a row there was a pause
	busy    bool      // somebody writes
	err     error     // why writing has ended
	closing bool

	wake chan struct{}
	done chan struct{} // closed when the writer has ended
}

func gather(conn net.Conn) *gatherConn {
	g := &gatherConn{Conn: conn, reader: bufio.NewReaderSize(conn, readBuffer), prompt: prompt.To(conn), wake: make(chan struct{}, 1), done: make(chan struct{})}
	go g.write()
	return g
}

func (g *gatherConn) Read(p []byte) (int, error) {
	if g.reader.Buffered() == 0 {
		g.reads.Add(1)
	}
	return g.reader.Read(p)
}

// watch closes the connection when its reader has got nothing during two heartbeats in a row: the peer
// is gone, or the reader is stuck. amqp091-go notices the first only if it has read something since
// the connection was opened.
func (g *gatherConn) watch(heartbeat time.Duration) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	last, silent := g.reads.Load(), false
	for {
		select {
		case <-g.done:
			return
		case <-ticker.C:
		}
		now := g.reads.Load()
		stands := now == last
		if stands && silent {
			_ = g.Conn.Close()
			return
		}
		last, silent = now, stands
	}
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
	if now := time.Now(); now.Sub(g.last) < pause || g.busy || len(g.pending) > 0 {
		g.last, g.pauses = now, 0
	} else {
		g.last, g.pauses = now, g.pauses+1
	}
	if g.prompt != nil && g.pauses >= manyPauses {
		g.busy = true
		g.mu.Unlock()
		g.writeNow(p)
		return len(p), nil
	}
	g.pending = append(g.pending, p...)
	g.mu.Unlock()
	g.signal()
	return len(p), nil
}

// Between two messages of one publisher there is a pause, in which the broker answers. Those of many leave such a pause now and then. A
// message larger than amqp091-go's buffer of 4 KiB comes in parts without a pause, and is left to the writer: that it is woken is then
// the least of it.
const (
	pause      = 50 * time.Microsecond
	manyPauses = 4
)

// writeNow writes what the socket takes without waiting, and leaves the rest, and errors, to the writer.
func (g *gatherConn) writeNow(p []byte) {
	n, _ := g.prompt.TryWrite(p)
	g.mu.Lock()
	g.busy = false
	if n < len(p) {
		g.pending = append(append(make([]byte, 0, len(p)-n+len(g.pending)), p[n:]...), g.pending...)
	}
	more := len(g.pending) > 0 || g.closing
	g.mu.Unlock()
	if more {
		g.signal()
	}
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
			if g.busy { // who writes wakes this one in the end
				g.mu.Unlock()
				break
			}
			batch, closing := g.pending, g.closing
			g.pending, g.busy = spare[:0], len(batch) > 0
			g.mu.Unlock()
			if len(batch) == 0 {
				if closing {
					_ = g.Conn.Close()
					return
				}
				spare = batch
				break
			}
			_, err := g.Conn.Write(batch)
			g.mu.Lock()
			if g.busy = false; err != nil {
				g.err, g.pending = err, nil
			}
			g.mu.Unlock()
			if err != nil {
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

// Close lets the writer write what is pending, if the peer takes it soon, and then close the
// connection. It does not wait for that: amqp091-go calls it with a lock held.
func (g *gatherConn) Close() error {
	g.mu.Lock()
	g.closing = true
	g.mu.Unlock()
	_ = g.Conn.SetWriteDeadline(time.Now().Add(flushGrace))
	g.signal()
	return nil
}

package rabbit

import (
	"bufio"
	"cmp"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/internal/prompt"
)

// flushGrace is how long a closing connection may take to write what it has gathered.
const flushGrace = 200 * time.Millisecond

// errGatherClosed is the error of a write after Close.
var errGatherClosed = errors.New("connection is closed")

// readBuffer is how much is read at once. amqp091-go asks for 4 KiB at a time.
const readBuffer = 64 << 10

// gatherConn is a transport that makes few system calls, and that cannot get stuck.
//
// It writes in the background. amqp091-go flushes after every message; with many publishers at once,
// what arrives during one system call is written together with the next. The messages of a sequential
// publisher are written at once, as far as the socket accepts them. Write never blocks, so no lock of
// amqp091-go is held across a stalled socket. What it holds is limited by its users: a publisher has a
// window of unconfirmed bytes, a consumer its prefetch.
//
// It also watches the reader. amqp091-go reads in one goroutine, which blocks forever when the broker
// sends an answer that no call waits for; heartbeats would continue, and the fault would stay unnoticed.
type gatherConn struct {
	net.Conn
	reader *bufio.Reader
	reads  atomic.Uint64 // how often the reader has asked the peer for more

	prompt prompt.Writer // nil: only the writer writes

	mu      sync.Mutex
	pending []byte
	last    time.Time // when something was last to be written
	pauses  int       // between how many in a row there was a pause
	busy    bool      // a goroutine writes
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
		if now == last && silent {
			_ = g.Conn.Close()
			return
		}
		last, silent = now, now == last
	}
}

func (g *gatherConn) Write(p []byte) (int, error) {
	g.mu.Lock()
	if g.err != nil || g.closing {
		defer g.mu.Unlock()
		return 0, cmp.Or(g.err, errGatherClosed)
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

// Between two messages of a sequential publisher there is a pause, in which the broker answers. Those of
// many publishers leave such a pause now and then. A message larger than amqp091-go's buffer of 4 KiB
// comes in parts without a pause, and is left to the writer.
const (
	pause      = 50 * time.Microsecond
	manyPauses = 4
)

// writeNow writes what the socket accepts without waiting, and leaves the rest, and errors, to the writer.
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
			if g.busy { // the goroutine that writes wakes this one at the end
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

// Close lets the writer write what is pending, if the peer accepts it soon, and then close the connection.
// It does not wait for that: amqp091-go calls it with a lock held.
func (g *gatherConn) Close() error {
	g.mu.Lock()
	g.closing = true
	g.mu.Unlock()
	_ = g.Conn.SetWriteDeadline(time.Now().Add(flushGrace))
	g.signal()
	return nil
}

package session

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/rehop/rehop/internal/prompt"
	"github.com/rehop/rehop/internal/wire"
)

// Bounds of what waits to be written to one client.
const (
	// stopDeliveringAt is above how many bytes nothing more is delivered until the client has read.
	stopDeliveringAt = 256 << 10
	// stopReadingAt is above how many bytes nothing more is read from a client that does not read its answers.
	stopReadingAt = 1 << 20
	// keptBuffer is the largest buffer that is reused.
	keptBuffer = 1 << 20
	// promptBytes is up to how many bytes flush writes itself instead of waking the writer.
	promptBytes = 16 << 10
)

// socketWriter collects frames and writes many of them at once.
type socketWriter struct {
	conn   net.Conn
	prompt prompt.Writer // nil: only the writer writes

	full atomic.Bool // buf has more than stopReadingAt

	mu      sync.Mutex
	work    sync.Cond // something to write, or the end
	room    sync.Cond // less to write, or the end
	busy    bool      // a goroutine writes
	rest    []byte    // what could not be written at once, before buf
	buf     []byte
	spare   []byte
	ending  bool        // write what is there, then end
	broken  bool        // nothing can be written
	waiting []*consumer // to be resumed when there is room
	written uint64      // bytes
	ended   chan struct{}
}

func newSocketWriter(conn net.Conn) *socketWriter {
	o := &socketWriter{conn: conn, prompt: prompt.To(conn), ended: make(chan struct{})}
	o.work.L, o.room.L = &o.mu, &o.mu
	return o
}

// write writes until the end. It calls resume for consumers when there is room again, and failed if the client is gone.
func (o *socketWriter) write(resume func(*consumer), failed func()) {
	defer close(o.ended)
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for o.busy || len(o.rest)+len(o.buf) == 0 && !o.ending {
			o.work.Wait()
		}
		if len(o.rest)+len(o.buf) == 0 || o.broken {
			o.broken = true
			o.room.Broadcast()
			return
		}
		o.busy = true
		buf := o.take()
		waiting := o.waiting
		o.waiting = nil
		o.room.Broadcast()
		o.mu.Unlock()
		n, err := o.conn.Write(buf)
		if err != nil {
			_ = o.conn.Close() // ends the reader
		} else {
			for _, c := range waiting {
				resume(c)
			}
		}
		o.mu.Lock()
		o.busy = false
		o.reuse(buf)
		o.written += uint64(n)
		if err != nil {
			o.broken, o.ending = true, true
			o.mu.Unlock()
			failed()
			o.mu.Lock()
		}
	}
}

// take returns what has to be written next. The writer is locked.
func (o *socketWriter) take() []byte {
	if buf := o.rest; len(buf) > 0 {
		o.rest = nil
		return buf
	}
	buf := o.buf
	o.buf, o.spare = o.spare[:0], nil
	o.full.Store(false)
	return buf
}

// reuse keeps a buffer that was written. The writer is locked.
func (o *socketWriter) reuse(buf []byte) {
	if cap(buf) <= keptBuffer {
		o.spare = buf[:0]
	}
}

// lock returns the buffer to append frames to. The writer is locked until unlock is called with the result.
func (o *socketWriter) lock() []byte {
	o.mu.Lock()
	return o.buf
}

func (o *socketWriter) unlock(buf []byte) {
	if o.broken || o.ending {
		buf = o.buf
	}
	o.buf = buf
	if len(buf) > stopReadingAt {
		o.full.Store(true)
	}
	o.work.Signal()
	o.mu.Unlock()
}

// flush is unlock for callers that write themselves instead of waking the writer. It does not wait for the client: it
// leaves the rest, and errors, to the writer.
func (o *socketWriter) flush(buf []byte) {
	if o.prompt == nil || o.busy || o.broken || o.ending || len(o.rest) > 0 || len(buf) == 0 || len(buf) > promptBytes {
		o.unlock(buf)
		return
	}
	o.buf = buf
	o.busy = true
	buf = o.take()
	o.mu.Unlock()
	n, _ := o.prompt.TryWrite(buf)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy = false
	o.written += uint64(n)
	if n < len(buf) {
		o.rest = buf[n:]
	} else {
		o.reuse(buf)
	}
	if len(o.rest)+len(o.buf) > 0 || o.ending {
		o.work.Signal()
	}
}

// lockFor is lock for a delivery. If there is no room, it does not lock, and the consumer is resumed when there is.
func (o *socketWriter) lockFor(c *consumer) (buf []byte, ok bool) {
	o.mu.Lock()
	if o.broken || o.ending {
		o.mu.Unlock()
		return nil, false
	}
	if len(o.buf) > stopDeliveringAt {
		o.waiting = append(o.waiting, c)
		o.mu.Unlock()
		return nil, false
	}
	return o.buf, true
}

func (o *socketWriter) send(channel uint16, m wire.Method) {
	o.unlock(wire.AppendMethod(o.lock(), channel, m))
}

// awaitRoom returns when the client has read most of what was written, or when over returns true. False: the client is gone.
func (o *socketWriter) awaitRoom(over func() bool) bool {
	if !o.full.Load() {
		return true // a client that is gone cannot be read from either
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.buf) > stopReadingAt && !o.broken && !over() {
		o.room.Wait()
	}
	return !o.broken
}

func (o *socketWriter) isBroken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.broken
}

// wake makes awaitRoom call over again.
func (o *socketWriter) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.room.Broadcast()
}

// end makes the writer write the rest and end. It returns at once.
func (o *socketWriter) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ending = true
	o.work.Signal()
}

func (o *socketWriter) sent() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written
}

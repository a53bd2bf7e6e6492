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
	// fullOutbox is where no more is delivered until the client has read.
	fullOutbox = 256 << 10
	// crammedOutbox is where nothing more is read from a client that does not read its answers.
	crammedOutbox = 1 << 20
	// keptBuffer is the largest buffer that is kept for the next time.
	keptBuffer = 1 << 20
	// promptBytes is how much is written by who has it rather than by the writer.
	promptBytes = 16 << 10
)

// outbox gathers frames and writes many of them at once.
type outbox struct {
	conn   net.Conn
	prompt prompt.Writer // nil: only the writer writes

	crammed atomic.Bool // there is more in buf than crammedOutbox

	mu      sync.Mutex
	work    sync.Cond // something to write, or the end
	room    sync.Cond // less to write, or the end
	busy    bool      // somebody writes
	rest    []byte    // what could not be written at once, before buf
	buf     []byte
	spare   []byte
	ending  bool        // write what is there, then end
	broken  bool        // nothing can be written
	waiting []*consumer // to be served again when there is room
	written uint64      // bytes
	ended   chan struct{}
}

func newOutbox(conn net.Conn) *outbox {
	o := &outbox{conn: conn, prompt: prompt.To(conn), ended: make(chan struct{})}
	o.work.L, o.room.L = &o.mu, &o.mu
	return o
}

// write writes until the end. It calls resume for consumers that there is room for again, and failed if the client is gone.
func (o *outbox) write(resume func(*consumer), failed func()) {
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
		o.keep(buf)
		o.written += uint64(n)
		if err != nil {
			o.broken, o.ending = true, true
			o.mu.Unlock()
			failed()
			o.mu.Lock()
		}
	}
}

// take returns what is to be written next. The outbox is locked.
func (o *outbox) take() []byte {
	if buf := o.rest; len(buf) > 0 {
		o.rest = nil
		return buf
	}
	buf := o.buf
	o.buf, o.spare = o.spare[:0], nil
	o.crammed.Store(false)
	return buf
}

// keep puts a buffer by that was written. The outbox is locked.
func (o *outbox) keep(buf []byte) {
	if cap(buf) <= keptBuffer {
		o.spare = buf[:0]
	}
}

// open returns the buffer to append frames to. The outbox is locked until shut is called with the result.
func (o *outbox) open() []byte {
	o.mu.Lock()
	return o.buf
}

func (o *outbox) shut(buf []byte) {
	if o.broken || o.ending {
		buf = o.buf
	}
	o.buf = buf
	if len(buf) > crammedOutbox {
		o.crammed.Store(true)
	}
	o.work.Signal()
	o.mu.Unlock()
}

// dispatch is shut for who would rather write itself than wake the writer. It does not wait for the client: what that does not take
// at once is left to the writer, and so is an error.
func (o *outbox) dispatch(buf []byte) {
	if o.prompt == nil || o.busy || o.broken || o.ending || len(o.rest) > 0 || len(buf) == 0 || len(buf) > promptBytes {
		o.shut(buf)
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
		o.keep(buf)
	}
	if len(o.rest)+len(o.buf) > 0 || o.ending {
		o.work.Signal()
	}
}

// openFor is open for a delivery: if there is no room, it is not open, and the consumer is called when there is.
func (o *outbox) openFor(c *consumer) (buf []byte, ok bool) {
	o.mu.Lock()
	if o.broken || o.ending {
		o.mu.Unlock()
		return nil, false
	}
	if len(o.buf) > fullOutbox {
		o.waiting = append(o.waiting, c)
		o.mu.Unlock()
		return nil, false
	}
	return o.buf, true
}

// send writes a method.
func (o *outbox) send(channel uint16, m wire.Method) {
	o.shut(wire.AppendMethod(o.open(), channel, m))
}

// awaitRoom returns when the client has read most of what was written to it, or when over says that waiting is of no use.
// False: the client is gone.
func (o *outbox) awaitRoom(over func() bool) bool {
	if !o.crammed.Load() {
		return true // a client that is gone cannot be read from either
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.buf) > crammedOutbox && !o.broken && !over() {
		o.room.Wait()
	}
	return !o.broken
}

// isBroken reports whether the client is gone.
func (o *outbox) isBroken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.broken
}

// wake has those who wait for room look again.
func (o *outbox) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.room.Broadcast()
}

// end writes what is there and ends the writer; it returns at once.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ending = true
	o.work.Signal()
}

// sent returns how many bytes were written.
func (o *outbox) sent() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written
}

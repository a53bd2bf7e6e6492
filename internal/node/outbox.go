package node

import (
	"net"
	"sync"

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
)

// outbox gathers frames and writes many of them at once.
type outbox struct {
	conn net.Conn

	mu      sync.Mutex
	work    sync.Cond // something to write, or the end
	room    sync.Cond // less to write, or the end
	buf     []byte
	spare   []byte
	ending  bool        // write what is there, then end
	broken  bool        // nothing can be written
	waiting []*consumer // to be served again when there is room
	written uint64      // bytes
	ended   chan struct{}
}

func newOutbox(conn net.Conn) *outbox {
	o := &outbox{conn: conn, ended: make(chan struct{})}
	o.work.L, o.room.L = &o.mu, &o.mu
	return o
}

// write writes until the end. It calls resume for consumers that there is room for again, and failed if the client is gone.
func (o *outbox) write(resume func(*consumer), failed func()) {
	defer close(o.ended)
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for len(o.buf) == 0 && !o.ending {
			o.work.Wait()
		}
		if len(o.buf) == 0 || o.broken {
			o.broken = true
			o.room.Broadcast()
			return
		}
		buf := o.buf
		o.buf, o.spare = o.spare[:0], nil
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
		o.written += uint64(n)
		if cap(buf) <= keptBuffer {
			o.spare = buf[:0]
		}
		if err != nil {
			o.broken, o.ending = true, true
			o.mu.Unlock()
			failed()
			o.mu.Lock()
		}
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
	o.work.Signal()
	o.mu.Unlock()
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

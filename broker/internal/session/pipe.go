package session

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// newPipe returns the two ends of a connection within the process. Unlike net.Pipe it has a buffer, so that writers need
// not wait for each read. It waits only with condition variables and timers, which testing/synctest supports.
func newPipe(number uint64) (client, server net.Conn) {
	up, down := newStream(), newStream()
	return &pipeConn{number, down, up}, &pipeConn{number, up, down}
}

// pipeRoom is how much may be written before it is read.
const pipeRoom = 64 << 10

// stream is one direction of a pipe.
type stream struct {
	mu      sync.Mutex
	change  sync.Cond
	buf     []byte
	from    int
	ended   bool // by the writer
	dropped bool // by the reader
	reading deadline
	writing deadline
}

func newStream() *stream {
	s := &stream{}
	s.change.L = &s.mu
	return s
}

// deadline is when waiting ends.
type deadline struct {
	timer *time.Timer // nil: none is set
	set   int         // how often one was set
	over  bool
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

func (s *stream) setDeadline(d *deadline, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.stop()
	if d.over = !t.IsZero() && time.Until(t) <= 0; d.over {
		s.change.Broadcast() // only then: clients set a deadline with each frame, and others wait for data
		return
	}
	if t.IsZero() {
		return
	}
	d.set++
	set := d.set
	d.timer = time.AfterFunc(time.Until(t), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if d.timer != nil && d.set == set { // it was not stopped a moment too late
			d.over = true
			s.change.Broadcast()
		}
	})
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.dropped:
			return 0, io.ErrClosedPipe
		case s.reading.over:
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case s.from < len(s.buf):
			n := copy(p, s.buf[s.from:])
			if s.from += n; s.from == len(s.buf) {
				s.buf, s.from = s.buf[:0], 0
			}
			s.change.Broadcast()
			return n, nil
		case s.ended:
			return 0, io.EOF
		}
		s.change.Wait()
	}
}

// write writes everything, or what there is room for if wait is false.
func (s *stream) write(p []byte, wait bool) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.ended, s.dropped:
			return n, io.ErrClosedPipe
		case s.writing.over:
			return n, os.ErrDeadlineExceeded
		}
		if room := pipeRoom - (len(s.buf) - s.from); room > 0 {
			part := p[:min(room, len(p))]
			if s.from > 0 && len(s.buf)+len(part) > cap(s.buf) {
				s.buf = s.buf[:copy(s.buf, s.buf[s.from:])]
				s.from = 0
			}
			s.buf = append(s.buf, part...)
			n, p = n+len(part), p[len(part):]
			s.change.Broadcast()
		}
		if len(p) == 0 || !wait {
			return n, nil
		}
		s.change.Wait()
	}
}

// The writer calls end, the reader calls drop.
func (s *stream) end()  { s.close(&s.ended) }
func (s *stream) drop() { s.close(&s.dropped) }

func (s *stream) close(how *bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*how = true
	s.reading.stop()
	s.writing.stop()
	s.change.Broadcast()
}

// pipeConn is one end of a pipe.
type pipeConn struct {
	number  uint64
	in, out *stream
}

func (c *pipeConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *pipeConn) Write(p []byte) (int, error) { return c.out.write(p, true) }

// TryWrite writes what there is room for. It is for the socketWriter.
func (c *pipeConn) TryWrite(p []byte) (int, error) { return c.out.write(p, false) }

func (c *pipeConn) Close() error {
	c.in.drop()
	c.out.end()
	return nil
}

// CloseWrite ends what this side writes; it can still read.
func (c *pipeConn) CloseWrite() error {
	c.out.end()
	return nil
}

func (c *pipeConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.reading, t)
	return nil
}

func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writing, t)
	return nil
}

func (c *pipeConn) LocalAddr() net.Addr  { return pipeAddr(c.number) }
func (c *pipeConn) RemoteAddr() net.Addr { return pipeAddr(c.number) }

// pipeAddr is the number of a pipe.
type pipeAddr uint64

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return fmt.Sprintf("pipe:%d", uint64(a)) }

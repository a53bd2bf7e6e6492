//go:build unix

package prompt

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// system is a connection that the system's calls reach, without anything in between that keeps bytes back.
func system(conn net.Conn) syscall.Conn {
	switch c := conn.(type) {
	case *net.TCPConn:
		return c
	case *net.UnixConn:
		return c
	}
	return nil
}

// To returns a way to write to a connection without waiting, or nil if there is none.
func To(conn net.Conn) Writer {
	if w, ok := conn.(Writer); ok {
		return w
	}
	if c := system(conn); c != nil {
		return newSocket(c)
	}
	return nil
}

// From returns a way to look at a connection without sleeping, or nil if there is none.
func From(conn net.Conn) Reader {
	c := system(conn)
	if c == nil {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	w := &pollingReader{raw: raw}
	w.poll = w.read
	return w
}

// socket writes to a socket of the system, all of which are in non-blocking mode.
type socket struct {
	raw syscall.RawConn
	try func(fd uintptr) bool // kept, so that none is made for each write
	buf []byte
	n   int
	err error
}

func newSocket(c syscall.Conn) Writer {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	s := &socket{raw: raw}
	s.try = s.write
	return s
}

func (s *socket) TryWrite(b []byte) (int, error) {
	s.buf, s.n, s.err = b, 0, nil
	err := s.raw.Write(s.try)
	s.buf = nil
	return s.n, errors.Join(err, s.err)
}

// write tries once. That it is done is what keeps the system from waiting for room.
func (s *socket) write(fd uintptr) (done bool) {
	n, err := syscall.Write(int(fd), s.buf)
	s.n = max(n, 0)
	if err != nil && !errors.Is(err, syscall.EAGAIN) {
		s.err = err
	}
	return true
}

// watch reads from a socket of the system.
type pollingReader struct {
	raw   syscall.RawConn
	poll  func(fd uintptr) bool // kept, so that none is made for each read
	buf   []byte
	until time.Time
	n     int
	err   error
}

func (w *pollingReader) ReadWithin(b []byte, limit time.Duration) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	w.buf, w.until, w.n, w.err = b, time.Now().Add(limit), 0, nil
	err := w.raw.Read(w.poll)
	w.buf = nil
	if err == nil {
		err = w.err
	}
	return w.n, err
}

// mostLooks bounds a look where the clock stands still, which virtual time does while somebody looks.
const maxPolls = 1000

// read tries until something is there or the time is over. That it is done is what keeps the system from sleeping.
func (w *pollingReader) read(fd uintptr) (done bool) {
	for range maxPolls {
		n, err := syscall.Read(int(fd), w.buf)
		switch {
		case err == nil && n == 0:
			w.err = io.EOF
		case err == nil:
			w.n = n
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
			if time.Now().Before(w.until) {
				continue
			}
		default:
			w.err = os.NewSyscallError("read", err)
		}
		break
	}
	return true
}

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

// system returns the socket of a connection that system calls can use directly, without a layer in
// between that buffers bytes; nil if it has none.
func system(conn net.Conn) syscall.RawConn {
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn:
		if raw, err := conn.(syscall.Conn).SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// To returns a Writer for a connection, or nil if it cannot be written to without waiting.
func To(conn net.Conn) Writer {
	if w, ok := conn.(Writer); ok {
		return w
	}
	raw := system(conn)
	if raw == nil {
		return nil
	}
	s := &socket{raw: raw}
	s.try = s.write
	return s
}

// From returns a Reader for a connection, or nil if it cannot be polled without sleeping.
func From(conn net.Conn) Reader {
	raw := system(conn)
	if raw == nil {
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

func (s *socket) TryWrite(b []byte) (int, error) {
	s.buf, s.n, s.err = b, 0, nil
	err := s.raw.Write(s.try)
	s.buf = nil
	return s.n, errors.Join(err, s.err)
}

// write tries once. It always reports done, so that RawConn does not wait for room.
func (s *socket) write(fd uintptr) (done bool) {
	n, err := syscall.Write(int(fd), s.buf)
	s.n = max(n, 0)
	if err != nil && !errors.Is(err, syscall.EAGAIN) {
		s.err = err
	}
	return true
}

// pollingReader reads from a socket of the system.
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

// maxPolls limits a read where the clock stands still, as virtual time does while a goroutine polls.
const maxPolls = 1000

// read polls until something has arrived or the time is over. It always reports done, so that RawConn
// does not sleep.
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

//go:build unix

package prompt

import (
	"errors"
	"net"
	"syscall"
)

// To returns a way to write to a connection without waiting, or nil if there is none.
func To(conn net.Conn) Writer {
	switch c := conn.(type) {
	case Writer:
		return c
	case *net.TCPConn:
		return newSocket(c)
	case *net.UnixConn:
		return newSocket(c)
	}
	return nil
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

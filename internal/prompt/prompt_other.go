//go:build !unix

package prompt

import "net"

// To returns a Writer for a connection, or nil if it cannot be written to without waiting.
func To(conn net.Conn) Writer {
	c, _ := conn.(Writer)
	return c
}

// From returns a Reader for a connection, or nil if it cannot be polled without sleeping.
func From(net.Conn) Reader { return nil }

//go:build !unix

package prompt

import "net"

// To returns a way to write to a connection without waiting, or nil if there is none.
func To(conn net.Conn) Writer {
	c, _ := conn.(Writer)
	return c
}

// From returns a way to look at a connection without sleeping, or nil if there is none.
func From(net.Conn) Reader { return nil }

//go:build !unix

package node

import "net"

// promptly returns a way to write to a connection without waiting, or nil if there is none.
func promptly(conn net.Conn) promptWriter {
	c, _ := conn.(promptWriter)
	return c
}

package proxy

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// pair is a client's connection and the one that was made to the server for it.
type pair struct {
	proxy          *Proxy
	client, server *net.TCPConn
	plan           Plan

	mu      sync.Mutex
	opening []byte // the client's first bytes
	met     int    // how often the text of the trap has come
	trapped bool   // the next answer breaks the connection

	once sync.Once
	done chan struct{}
}

// openingSize is how many of the client's first bytes are kept. AMQP's handshake fits in.
const openingSize = 4 << 10

// open keeps the client's first bytes.
func (c *pair) open(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opening = append(c.opening, b[:min(len(b), openingSize-len(c.opening))]...)
}

// marked reports whether the client's first bytes contain the mark.
func (c *pair) marked(mark string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.opening, []byte(mark))
}

// pump hands on bytes from src to dst until either ends, or the way is cut.
func (c *pair) pump(dst, src *net.TCPConn, way Way) {
	defer c.close()
	buffer := make([]byte, 32<<10)
	var sent int64
	for {
		n, err := src.Read(buffer)
		if src == c.client {
			c.open(buffer[:n])
		}
		if !c.proxy.awaitThaw(c) || c.springs(src == c.client, buffer[:n]) {
			return
		}
		piece := buffer[:n]
		cut := false
		if way.CutAfter > 0 && sent+int64(n) >= way.CutAfter {
			piece, cut = piece[:max(0, way.CutAfter-sent)], true
		}
		if !c.write(dst, piece, way) {
			return
		}
		sent += int64(len(piece))
		switch {
		case cut && way.Swallow:
			c.swallow(src)
			return
		case cut:
			c.cut(c.plan.Reset)
			return
		case err != nil:
			return
		}
	}
}

// springs reports whether a piece, from the client or to it, has sprung the trap and so broken the connection.
func (c *pair) springs(fromClient bool, piece []byte) bool {
	trap := c.plan.Trap
	if trap.Text == "" || len(piece) == 0 {
		return false
	}
	c.mu.Lock()
	sprung := c.trapped && !fromClient
	if fromClient && bytes.Contains(piece, []byte(trap.Text)) {
		if c.met++; c.met > trap.Skip {
			c.trapped, sprung = trap.Answered, !trap.Answered
		}
	}
	c.mu.Unlock()
	if !sprung {
		return false
	}
	if trap.Hold == nil {
		c.cut(true)
	}
	if trap.Sprung != nil {
		trap.Sprung()
	}
	return trap.Hold == nil || !c.held(trap.Hold)
}

// held waits until the text of a trap may pass. It reports false if the connection ends before.
func (c *pair) held(pass <-chan struct{}) bool {
	select {
	case <-pass:
		return true
	case <-c.done:
		return false
	}
}

// write forwards a piece as slowly as the way requires.
func (c *pair) write(dst *net.TCPConn, piece []byte, way Way) bool {
	for len(piece) > 0 {
		if way.Latency > 0 && !c.pause(way.Latency) {
			return false
		}
		slice := piece
		if way.Slice > 0 && len(slice) > way.Slice {
			slice = slice[:way.Slice]
		}
		if _, err := dst.Write(slice); err != nil {
			return false
		}
		piece = piece[len(slice):]
	}
	return true
}

func (c *pair) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.done:
		return false
	}
}

// swallow takes what comes and hands on nothing, until somebody gives up.
func (c *pair) swallow(src *net.TCPConn) {
	c.proxy.mu.Lock()
	c.proxy.cuts++
	c.proxy.mu.Unlock()
	buffer := make([]byte, 32<<10)
	for {
		if _, err := src.Read(buffer); err != nil {
			return
		}
	}
}

// cut breaks both connections.
func (c *pair) cut(hard bool) {
	c.once.Do(func() {
		c.proxy.mu.Lock()
		c.proxy.cuts++
		c.proxy.mu.Unlock()
		close(c.done)
		if hard {
			reset(c.client)
			reset(c.server)
			return
		}
		_ = c.client.Close()
		_ = c.server.Close()
	})
}

func (c *pair) close() {
	c.once.Do(func() {
		close(c.done)
		_ = c.client.Close()
		_ = c.server.Close()
	})
}

// reset closes a connection by RST: with no time to linger, the kernel sends no FIN.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

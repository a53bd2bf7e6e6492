// Package proxy is a TCP proxy that breaks connections on purpose: at an exact byte, by a reset, by
// silence, or by handing on the bytes slowly and in small pieces.
package proxy

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// Way is what happens to the bytes of one connection in one direction. The zero value hands them
// on as they come.
type Way struct {
	// CutAfter breaks the connection when exactly this many bytes have been forwarded. 0: never.
	CutAfter int64
	// Swallow makes a cut silent: the bytes after CutAfter disappear, and the connection stays.
	Swallow bool
	// Slice is the largest piece that is written at once. 0: any.
	Slice int
	// Latency is added to each piece.
	Latency time.Duration
}

// Plan is what happens to one connection.
type Plan struct {
	Up, Down Way  // to the server, and to the client
	Reset    bool // a cut is a reset (RST); else the proxy closes in order (FIN)
	Trap     Trap
}

// Trap breaks a connection by a reset when its client has sent a text in one piece, or holds the text back. The zero value does nothing.
type Trap struct {
	Text string
	Skip int // so often the text may pass first
	// Answered hands the text on, and breaks the connection when the server answers; else the server never sees it.
	Answered bool
	// Hold, unless it is nil, has the text wait until it is closed, in place of breaking the connection.
	Hold <-chan struct{}
	// Sprung, unless it is nil, is called when the connection breaks, or the text is held back.
	Sprung func()
}

// Proxy hands on connections to a server, or in turn to several.
type Proxy struct {
	targets  []string
	listener net.Listener
	dial     net.Dialer
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu       sync.Mutex
	plan     func(n int) Plan
	accepted int
	cuts     int
	pairs    map[*pair]struct{}
	frozen   []string // marks of connections whose bytes do not flow
	stranded map[*pair]bool
	thawed   chan struct{} // closed at the next thaw
}

// New listens on a free port of the loopback interface for connections to targets, of which each connection gets the next.
func New(targets ...string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy for %s: %w", strings.Join(targets, ", "), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{targets: targets, listener: listener, ctx: ctx, cancel: cancel, pairs: make(map[*pair]struct{}), stranded: make(map[*pair]bool), thawed: make(chan struct{})}
	p.running.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// SetPlan has every connection from now on treated by plan; n counts them from 0. Nil: all
// are handed on unharmed.
func (p *Proxy) SetPlan(plan func(n int) Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = plan
}

// Cuts is how many connections the proxy has broken, by a plan or by Cut.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// Open is how many connections there are.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pairs)
}

// Cut resets the connections in whose first bytes from the client the mark occurs; "" is all of them.
// An AMQP client sends its name there.
func (p *Proxy) Cut(mark string) {
	for _, c := range p.all() {
		if c.marked(mark) {
			c.cut(true)
		}
	}
}

func (p *Proxy) all() []*pair {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*pair, 0, len(p.pairs))
	for c := range p.pairs {
		all = append(all, c)
	}
	return all
}

// Freeze hands on no more bytes, in either direction, and closes nothing: both sides have a
// connection at whose other end nobody seems to be. It concerns connections with the mark, as for Cut,
// new ones included.
func (p *Proxy) Freeze(mark string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = append(p.frozen, mark)
}

// Strand freezes the connections that there are, and no new ones: as when the machine at their other end is lost, and its address moves to
// another one.
func (p *Proxy) Strand() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		p.stranded[c] = true
	}
}

// Thaw hands on all bytes again.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = nil
	clear(p.stranded)
	close(p.thawed)
	p.thawed = make(chan struct{})
}

// awaitThaw waits while a connection is frozen. False: it has been closed.
func (p *Proxy) awaitThaw(c *pair) bool {
	for {
		p.mu.Lock()
		frozen, thawed := p.stranded[c] || slices.ContainsFunc(p.frozen, c.marked), p.thawed
		p.mu.Unlock()
		if !frozen {
			return true
		}
		select {
		case <-thawed:
		case <-c.done:
			return false
		}
	}
}

// Close closes everything and returns when it has ended.
func (p *Proxy) Close() error {
	p.cancel()
	err := p.listener.Close()
	for _, c := range p.all() {
		c.close()
	}
	p.running.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		n := p.accepted
		p.accepted++
		var plan Plan
		if p.plan != nil {
			plan = p.plan(n)
		}
		p.mu.Unlock()
		p.running.Go(func() { p.serve(conn.(*net.TCPConn), p.targets[n%len(p.targets)], plan) })
	}
}

func (p *Proxy) serve(client *net.TCPConn, target string, plan Plan) {
	conn, err := p.dial.DialContext(p.ctx, "tcp", target)
	if err != nil {
		reset(client) // as if the server itself had refused
		return
	}
	c := &pair{proxy: p, client: client, server: conn.(*net.TCPConn), plan: plan, done: make(chan struct{})}
	p.mu.Lock()
	p.pairs[c] = struct{}{}
	p.mu.Unlock()
	if p.ctx.Err() != nil {
		c.close()
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { c.pump(c.server, c.client, plan.Up) })
	pumps.Go(func() { c.pump(c.client, c.server, plan.Down) })
	pumps.Wait()
	p.mu.Lock()
	delete(p.pairs, c)
	delete(p.stranded, c)
	p.mu.Unlock()
}

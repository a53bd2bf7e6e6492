package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/wire"
)

// peer is a client that can send anything.
type peer struct {
	t      testing.TB
	conn   net.Conn
	reader *wire.Reader
}

func newPeer(t testing.TB, conn net.Conn) *peer {
	t.Helper()
	t.Cleanup(func() { _ = conn.Close() })
	return &peer{t: t, conn: conn, reader: wire.NewReader(conn, 128<<10)}
}

// dial connects within the process.
func dial(t testing.TB, server *broker.Server) net.Conn {
	t.Helper()
	conn, err := server.Dial(context.Background(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// enter logs in and opens channel 1.
func enter(t testing.TB, conn net.Conn) *peer {
	t.Helper()
	p := newPeer(t, conn)
	p.send(login("guest", "guest"))
	expect[*wire.ConnectionStart](p)
	expect[*wire.ConnectionTune](p)
	expect[*wire.ConnectionOpenOK](p)
	p.sendMethods(1, &wire.ChannelOpen{})
	expect[*wire.ChannelOpenOK](p)
	return p
}

// send writes bytes, and starts the timeout for the answers. Whether the broker has closed is seen when they are read.
func (p *peer) send(data []byte) {
	_ = p.conn.SetDeadline(time.Now().Add(hang))
	_, _ = p.conn.Write(data)
}

// sendMethods sends methods.
func (p *peer) sendMethods(channel uint16, methods ...wire.Method) {
	p.t.Helper()
	var frames []byte
	for _, m := range methods {
		if err := wire.Check(m); err != nil {
			p.t.Fatal(err)
		}
		frames = wire.AppendMethod(frames, channel, m)
	}
	p.send(frames)
}

// publish writes a message on channel 1.
func (p *peer) publish(exchange, key string, properties wire.Properties, body []byte) {
	p.send(message(exchange, key, properties, body))
}

// message is a message on channel 1.
func message(exchange, key string, properties wire.Properties, body []byte) []byte {
	frames := wire.AppendMethod(nil, 1, &wire.BasicPublish{Exchange: exchange, RoutingKey: key})
	return wire.AppendContent(frames, 1, wire.ClassBasic, properties.Append(nil), body, 128<<10)
}

// method reads frames until one has a method.
func (p *peer) method() (wire.Method, error) {
	for {
		f, err := p.reader.Next()
		if err != nil {
			return nil, err
		}
		if f.Type == wire.FrameMethod {
			return wire.ParseMethod(f.Payload)
		}
	}
}

// expect reads the next method, which must have this type.
func expect[M wire.Method](p *peer) M {
	p.t.Helper()
	m, err := p.method()
	if err != nil {
		p.t.Fatalf("got %v from the broker, want %T", err, *new(M))
	}
	want, ok := m.(M)
	if !ok {
		p.t.Fatalf("got %s %+v from the broker, want %T", m.ID(), m, *new(M))
	}
	return want
}

// ending is how a broker ends a connection.
type ending struct {
	channel, connection uint16 // codes; 0: the broker sent none
	hungUp              bool
}

func (e ending) String() string {
	return fmt.Sprintf("channel closed with %d, connection with %d, hung up: %t", e.channel, e.connection, e.hungUp)
}

// end reads until the broker closes the channel or the connection, and agrees.
func (p *peer) end() (e ending) {
	p.t.Helper()
	for {
		m, err := p.method()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			p.t.Fatalf("after %v the broker still has not closed the connection (%v)", hang, e)
		case err != nil:
			e.hungUp = true
			return e
		}
		switch m := m.(type) {
		case *wire.ChannelClose:
			e.channel = m.ReplyCode
			p.sendMethods(1, &wire.ChannelCloseOK{})
			return e
		case *wire.ConnectionClose:
			e.connection = m.ReplyCode
			p.sendMethods(0, &wire.ConnectionCloseOK{})
			if m.ReplyCode == wire.FrameFault {
				// The broker cannot read further frames, and gives the peer some time to close first.
				e.hungUp = true
				_ = p.conn.Close()
				return e
			}
		}
	}
}

// serves checks that a broker still serves a good client.
func serves(t testing.TB, conn net.Conn) {
	t.Helper()
	p := enter(t, conn)
	const body = "all is well"
	p.sendMethods(1, &wire.QueueDeclare{Exclusive: true})
	q := expect[*wire.QueueDeclareOK](p).Queue
	p.publish("", q, wire.Properties{}, []byte(body))
	p.sendMethods(1, &wire.BasicGet{Queue: q, NoAck: true})
	expect[*wire.BasicGetOK](p)
	if f, err := p.reader.Next(); err != nil || f.Type != wire.FrameHeader {
		t.Fatalf("got a frame of type %d (%v), want a header", f.Type, err)
	}
	if f, err := p.reader.Next(); err != nil || string(f.Payload) != body {
		t.Fatalf("got the body %q (%v), want %q", f.Payload, err, body)
	}
	p.sendMethods(0, &wire.ConnectionClose{ReplyCode: wire.ReplySuccess})
	expect[*wire.ConnectionCloseOK](p)
	if _, err := p.method(); !errors.Is(err, io.EOF) {
		t.Fatalf("after connection.close-ok: got %v, want the end", err)
	}
}

// listen serves on a port of this machine and returns a function that connects to it.
func listen(t testing.TB, server *broker.Server, wrap func(net.Listener) net.Listener) func() net.Conn {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	if wrap != nil {
		ln = wrap(ln)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		shut(t, server)
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Errorf("serve: got %v, want %v", err, net.ErrClosed)
		}
	})
	return func() net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
}

// start returns a server that is closed after its peers.
func start(t testing.TB, server *broker.Server) *broker.Server {
	t.Helper()
	server.Logger = quiet()
	t.Cleanup(func() { shut(t, server) })
	return server
}

func shut(t testing.TB, server *broker.Server) {
	t.Helper()
	if err := server.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// heap is how much memory is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// allocated is how much memory was allocated so far, including what is free again.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// bounded checks that the heap has not grown by more than a limit since it was measured.
func bounded(t testing.TB, before, limit int64) {
	t.Helper()
	if grown := heap() - before; grown > limit {
		t.Errorf("the heap has grown by %d KiB, want at most %d", grown>>10, limit>>10)
	}
}

// settled checks that no more goroutines run than before. A goroutine that is about to end may take a moment.
func settled(t testing.TB, before int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(hang)
	for runtime.NumGoroutine() > before {
		select {
		case <-tick.C:
		case <-limit:
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines run, want %d as before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

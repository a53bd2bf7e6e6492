package brokers

import (
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// gathering writes in the background what has come since its last write. amqp091-go flushes after every message and every ack,
// and a system call for each costs the client more than all the rest: without this the client is measured, not the broker.
type gathering struct {
	net.Conn
	mu     sync.Mutex
	more   sync.Cond
	buf    []byte
	err    error
	closed bool
	done   chan struct{}
}

func gather(conn net.Conn) *gathering {
	g := &gathering{Conn: conn, done: make(chan struct{})}
	g.more.L = &g.mu
	go g.write()
	return g
}

func (g *gathering) write() {
	defer close(g.done)
	var spare []byte
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		for len(g.buf) == 0 && !g.closed {
			g.more.Wait()
		}
		if len(g.buf) == 0 || g.err != nil {
			return
		}
		buf := g.buf
		g.buf = spare[:0]
		g.mu.Unlock()
		_, err := g.Conn.Write(buf)
		g.mu.Lock()
		spare, g.err = buf, err
	}
}

func (g *gathering) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil || g.closed {
		return 0, net.ErrClosed
	}
	g.buf = append(g.buf, p...)
	g.more.Signal()
	return len(p), nil
}

// Close writes what is there first.
func (g *gathering) Close() error {
	g.mu.Lock()
	g.closed = true
	g.more.Signal()
	g.mu.Unlock()
	_ = g.Conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
	<-g.done
	return g.Conn.Close()
}

// connect is amqp.Dial with a connection that gathers.
func connect(url string) (*amqp.Connection, error) {
	return amqp.DialConfig(url, amqp.Config{Heartbeat: 10 * time.Second, Locale: "en_US", Dial: func(network, addr string) (net.Conn, error) {
		conn, err := net.DialTimeout(network, addr, 10*time.Second)
		if err != nil {
			return nil, err
		}
		return gather(conn), nil
	}})
}

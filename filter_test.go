package rehop_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/wire"
	"github.com/rehop/rehop/rehoptest"
)

// method is a method of AMQP.
type method struct{ class, id uint16 }

// call is a method that a client sends on a connection.
type call struct {
	method
	payload string // of the frame
	conn    net.Conn
}

// String is the method with its arguments. Tables are sorted, because clients send them in any order.
func (c call) String() string {
	m, err := wire.ParseMethod([]byte(c.payload))
	if err != nil {
		return err.Error()
	}
	switch m := m.(type) {
	case *wire.ExchangeDeclare:
		sortFields(m.Arguments)
	case *wire.ExchangeBind:
		sortFields(m.Arguments)
	case *wire.QueueDeclare:
		sortFields(m.Arguments)
	case *wire.QueueBind:
		sortFields(m.Arguments)
	}
	return fmt.Sprintf("%T%+[1]v", m)
}

func sortFields(t wire.Table) {
	slices.SortFunc(t, func(a, b wire.Field) int { return strings.Compare(a.Key, b.Key) })
}

var (
	connectionClose = method{10, 50}
	channelOpen     = method{20, 10}
	channelClose    = method{20, 40}
	exchangeDeclare = method{40, 10}
	exchangeBind    = method{40, 30}
	queueDeclare    = method{50, 10}
	queueBind       = method{50, 20}
	basicCancel     = method{60, 30}
)

// openFiltered opens a client of which the broker sees only the calls that pass. passes may be called from several goroutines.
func openFiltered(t *testing.T, b *rehoptest.Broker, passes func(call) bool) *rehop.Client {
	t.Helper()
	config := b.Config()
	dial := config.Dial
	config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &filteredConn{Conn: conn, passes: passes, greeting: len("AMQP0091")}, nil
	}
	client, err := rehop.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// filteredConn leaves out methods of what is written to it.
type filteredConn struct {
	net.Conn
	passes func(call) bool

	mu       sync.Mutex
	greeting int // this many bytes are not a frame
	rest     []byte
}

func (c *filteredConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = append(c.rest, b...)
	n := min(c.greeting, len(c.rest))
	passed := append([]byte(nil), c.rest[:n]...)
	c.rest, c.greeting = c.rest[n:], c.greeting-n
	for len(c.rest) >= 7 {
		size := int(binary.BigEndian.Uint32(c.rest[3:])) + 8
		if len(c.rest) < size {
			break
		}
		isMethod := c.rest[0] == 1
		if !isMethod || c.passes(call{method{binary.BigEndian.Uint16(c.rest[7:]), binary.BigEndian.Uint16(c.rest[9:])}, string(c.rest[7 : size-1]), c.Conn}) {
			passed = append(passed, c.rest[:size]...)
		}
		c.rest = c.rest[size:]
	}
	if len(passed) > 0 {
		if _, err := c.Conn.Write(passed); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

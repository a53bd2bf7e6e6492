package rehop_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/rehoptest"
)

// meter counts the methods that clients send.
type meter struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu   sync.Mutex
	sent map[method]int
}

// method is a method of AMQP.
type method struct{ class, id uint16 }

var (
	channelOpen     = method{20, 10}
	exchangeDeclare = method{40, 10}
	exchangeBind    = method{40, 30}
	queueDeclare    = method{50, 10}
	queueBind       = method{50, 20}
)

func (m *meter) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := m.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &meteredConn{Conn: conn, meter: m, skip: len("AMQP0091")}, nil
}

// take returns what was counted, and begins anew.
func (m *meter) take() (channels, declares int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	channels = m.sent[channelOpen]
	for _, what := range []method{exchangeDeclare, exchangeBind, queueDeclare, queueBind} {
		declares += m.sent[what]
	}
	clear(m.sent)
	return channels, declares
}

type meteredConn struct {
	net.Conn
	meter *meter
	mu    sync.Mutex
	skip  int
	rest  []byte
}

func (c *meteredConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.rest = append(c.rest, b...)
	n := min(c.skip, len(c.rest))
	c.rest, c.skip = c.rest[n:], c.skip-n
	for len(c.rest) >= 7 {
		size := int(binary.BigEndian.Uint32(c.rest[3:])) + 8
		if len(c.rest) < size {
			break
		}
		if c.rest[0] == 1 { // a method
			c.meter.mu.Lock()
			c.meter.sent[method{binary.BigEndian.Uint16(c.rest[7:]), binary.BigEndian.Uint16(c.rest[9:])}]++
			c.meter.mu.Unlock()
		}
		c.rest = c.rest[size:]
	}
	c.mu.Unlock()
	return c.Conn.Write(b)
}

func metered(t *testing.T, b *rehoptest.Broker) (*rehop.Client, *meter) {
	t.Helper()
	config := b.Config()
	m := &meter{dial: config.Dial, sent: make(map[method]int)}
	config.Dial = m.Dial
	client, err := rehop.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return client, m
}

// Each exchange, queue and binding is declared once on a connection, however many messages need it at the same time.
func TestEachObjectIsDeclaredOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		client, m := metered(t, b)
		defer client.Close(context.Background())
		subscribe(t, client, rehop.Subscription{Queue: "q", Handler: newLogbook(succeed)})
		const delayed = 200
		publishAll := func(meanwhile func()) (channels, declares int) {
			t.Helper()
			m.take()
			var publishers sync.WaitGroup
			for i := range delayed {
				publishers.Go(func() {
					// Delays that have much of the cascade in common.
					if err := client.Publish(context.Background(), rehop.Message{Key: "q", Delay: time.Duration(1+i%20) * time.Second}); err != nil {
						t.Errorf("publish with a delay: got %v, want nil", err)
					}
				})
			}
			meanwhile()
			publishers.Wait()
			return m.take()
		}
		publishAll(func() {})
		if _, declares := publishAll(func() {}); declares != 0 {
			t.Errorf("the second time: got %d declarations, want none", declares)
		}
		b.Down()
		synctest.Wait()
		channels, declares := publishAll(func() {
			synctest.Wait() // all wait for a connection
			b.Up()
		})
		if declares > 150 || channels > 50 {
			t.Errorf("%d delayed messages after a lost connection: got %d declarations on %d channels, want each object once: at most 150 on 50", delayed, declares, channels)
		}
		b.AwaitEmpty("q")
	})
}

// Messages that come back early because clocks disagree do not have everything declared again for each.
func TestEarlyMessagesDeclareSeldom(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		client, m := metered(t, b)
		defer client.Close(context.Background())
		const messages = 200
		log := newLogbook(succeed)
		subscribe(t, client, rehop.Subscription{Queue: "q", Handler: log, Concurrency: 10})
		ch := channel(t, b)
		m.take()
		for i := range messages { // as a process with another clock has sent them to wait
			due := time.Now().Add(time.Duration(i+1) * time.Second)
			headers := amqp091.Table{envelope.Attempt: int32(1), envelope.Queue: "q", envelope.Key: "q", envelope.Due: due.UnixMilli()}
			if err := ch.PublishWithContext(t.Context(), "", "q", true, false, amqp091.Publishing{MessageId: fmt.Sprint(i), Headers: headers}); err != nil {
				t.Fatal(err)
			}
		}
		b.AwaitEmpty("q")
		if n := len(log.all()); n != messages {
			t.Errorf("runs: got %d, want %d", n, messages)
		}
		if _, declares := m.take(); declares > 150 {
			t.Errorf("%d messages that came early: got %d declarations, want each object once", messages, declares)
		}
	})
}

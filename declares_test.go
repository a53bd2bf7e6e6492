package rehop_test

import (
	"context"
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

// meter counts the calls that clients send.
type meter struct {
	mu   sync.Mutex
	sent map[call]int
}

// count notes a call, and lets it pass.
func (m *meter) count(what call) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent[what]++
	return true
}

// declaration is that of an exchange, a queue or a binding on a connection.
type declaration struct {
	conn net.Conn
	what string
}

// take returns how many channels were opened, and how often each object was declared, and begins anew.
func (m *meter) take() (channels int, declares map[declaration]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	declares = make(map[declaration]int)
	for c, times := range m.sent {
		switch c.method {
		case channelOpen:
			channels += times
		case exchangeDeclare, exchangeBind, queueDeclare, queueBind:
			declares[declaration{c.conn, c.String()}] += times
		}
	}
	clear(m.sent)
	return channels, declares
}

func metered(t *testing.T, b *rehoptest.Broker) (*rehop.Client, *meter) {
	t.Helper()
	m := &meter{sent: make(map[call]int)}
	return openFiltered(t, b, m.count), m
}

// Each exchange, queue and binding is declared once on a connection, however many messages need it at the same time.
func TestEachObjectIsDeclaredOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		client, m := metered(t, b)
		defer client.Close(context.Background())
		subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: newLogbook(succeed)})
		const delayed = 200
		publishAll := func(meanwhile func()) (channels int, declares map[declaration]int) {
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
		if _, declares := publishAll(func() {}); len(declares) != 0 {
			t.Errorf("the second time: got %d declarations, want none", len(declares))
		}
		b.Down()
		synctest.Wait()
		channels, declares := publishAll(func() {
			synctest.Wait() // all wait for a connection
			b.Up()
		})
		for what, times := range declares {
			if times > 1 {
				t.Errorf("%d delayed messages after a lost connection: got %d times on one connection, want once: %s", delayed, times, what.what)
			}
		}
		if len(declares) == 0 || channels > 50 {
			t.Errorf("%d delayed messages after a lost connection: got %d declarations on %d channels, want some on 50 at most", delayed, len(declares), channels)
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
		subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: log, Concurrency: 10})
		ch := channel(t, b)
		m.take()
		for i := range messages { // as a process with another clock has sent them to wait
			time.Sleep(50 * time.Millisecond) // in virtual time: what was learned from one message must hold for the next
			due := time.Now().Add(time.Duration(i+1) * time.Second)
			headers := amqp091.Table{envelope.Attempt: int32(1), envelope.Queue: "q", envelope.Key: "q", envelope.Due: due.UnixMilli()}
			if err := ch.PublishWithContext(t.Context(), "", "q", true, false, amqp091.Publishing{MessageId: fmt.Sprint(i), Headers: headers}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(messages * time.Second) // AwaitEmpty reads all that wait after each event
		b.AwaitEmpty("q")
		if n := len(log.all()); n != messages {
			t.Errorf("runs: got %d, want %d", n, messages)
		}
		_, declares := m.take()
		sum := 0
		for _, times := range declares {
			sum += times
		}
		if sum > 400 {
			t.Errorf("%d messages that came early, one by one: got %d declarations, want those of a few reconnections", messages, sum)
		}
	})
}

package broker_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/internal/wire"
)

// FuzzConnection sends any bytes, to a broker without connections and to one with a connection and
// channels 1 and 2.
func FuzzConnection(f *testing.F) {
	for _, seed := range conversations() {
		f.Add(true, seed)
		f.Add(false, append(login("guest", "guest"), seed...))
		f.Add(true, seed[:len(seed)/2])
	}
	f.Add(false, []byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(false, []byte("AMQP\x00\x01\x00\x00"))
	f.Fuzz(func(t *testing.T, loggedIn bool, data []byte) {
		if loggedIn {
			data = append(append(login("guest", "guest"), openChannels(2)...), data...)
		}
		converse(t, data)
	})
}

// FuzzMethods sends valid frames in any order, with arguments that refer to each other.
func FuzzMethods(f *testing.F) {
	f.Add([]byte("a queue, a message, and somebody who takes it"))
	f.Add(bytes.Repeat([]byte{0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233}, 20))
	f.Add(bytes.Repeat([]byte{7, 0, 7, 1, 1, 9, 2, 11}, 40))
	f.Fuzz(func(t *testing.T, data []byte) {
		dice := dice{data}
		frames := append(login("guest", "guest"), openChannels(3)...)
		for len(dice.left) > 0 {
			frames = dice.frames(frames)
		}
		converse(t, frames)
	})
}

// conversations are what good clients send on channel 1.
func conversations() [][]byte {
	var declare, publish, consume []byte
	for _, m := range []wire.Method{
		&wire.ExchangeDeclare{Exchange: "x", Type: "topic", Arguments: wire.Table{{Key: "alternate-exchange", Value: "amq.fanout"}}},
		&wire.QueueDeclare{Queue: "q", Durable: true, Arguments: wire.Table{{Key: "x-max-length", Value: int32(3)}, {Key: "x-dead-letter-exchange", Value: "x"}}},
		&wire.QueueBind{Queue: "q", Exchange: "x", RoutingKey: "a.#"},
		&wire.ConfirmSelect{},
	} {
		declare = wire.AppendMethod(declare, 1, m)
	}
	for _, key := range []string{"q", "missing"} {
		publish = wire.AppendMethod(publish, 1, &wire.BasicPublish{RoutingKey: key, Mandatory: true})
		properties := wire.Properties{DeliveryMode: 2, Expiration: "60000", Headers: wire.Table{{Key: "CC", Value: wire.Array{"q"}}, {Key: "t", Value: wire.Timestamp(1)}}}
		publish = wire.AppendContent(publish, 1, wire.ClassBasic, properties.Append(nil), []byte("body"), 4096)
	}
	for _, m := range []wire.Method{
		&wire.BasicQos{PrefetchCount: 2},
		&wire.BasicConsume{Queue: "q", ConsumerTag: "t"},
		&wire.BasicAck{DeliveryTag: 1, Multiple: true},
		&wire.BasicGet{Queue: "q"},
		&wire.BasicNack{Requeue: true, Multiple: true},
		&wire.BasicCancel{ConsumerTag: "t"},
		&wire.QueueDelete{Queue: "q"},
		&wire.ChannelClose{ReplyCode: 200},
	} {
		consume = wire.AppendMethod(consume, 1, m)
	}
	return [][]byte{declare, append(declare[:len(declare):len(declare)], append(publish, consume...)...), wire.AppendHeartbeat(nil)}
}

// login is everything that a client sends until its connection is open.
func login(user, password string) []byte {
	hello := append([]byte(wire.ProtocolHeader), wire.AppendMethod(nil, 0, &wire.ConnectionStartOK{Mechanism: "PLAIN", Response: []byte("\x00" + user + "\x00" + password)})...)
	hello = wire.AppendMethod(hello, 0, &wire.ConnectionTuneOK{ChannelMax: 2047, FrameMax: 128 << 10})
	return wire.AppendMethod(hello, 0, &wire.ConnectionOpen{VirtualHost: "/"})
}

func openChannels(n int) (frames []byte) {
	for i := range n {
		frames = wire.AppendMethod(frames, uint16(i+1), &wire.ChannelOpen{})
	}
	return frames
}

// converse sends a whole connection to a fresh broker, and checks what it answers and what is left of it.
func converse(t *testing.T, said []byte) {
	server := &broker.Server{Logger: quiet(), MaxMessage: 1 << 20}
	engine, err := access.Start(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	script := &script{said: said, closed: make(chan struct{})}
	engine.Handle(script)
	within(t, "the connection ends", script.closed)

	wellFormed(t, script.heard.Bytes())
	v := engine.Vhost("/")
	if v == nil {
		t.Fatal("the virtual host is gone")
	}
	for _, q := range v.Queues() {
		if s := q.Status(); s.Ready < 0 || s.Unacked != 0 || s.ReadyBytes < 0 || s.UnackedBytes != 0 || len(s.Consumers) != 0 {
			t.Errorf("queue %q without connections: got %d ready (%d bytes), %d unacked (%d bytes), %d consumers; want nothing unacked and no consumers",
				q.Name, s.Ready, s.ReadyBytes, s.Unacked, s.UnackedBytes, len(s.Consumers))
		}
		if _, err := q.Delete(false, false); err != nil {
			t.Errorf("delete queue %q: %v", q.Name, err)
		}
	}
	if err := engine.CheckCounts(); err != nil {
		t.Errorf("without queues: %v", err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if err := server.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	within(t, "the broker closes", closed)
}

// hang is longer than anything takes, even on a busy machine. It ends a test that would not end, and measures nothing.
const hang = 5 * time.Minute

func within(t *testing.T, what string, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(hang):
		t.Fatalf("after %v still not: %s", hang, what)
	}
}

// wellFormed checks that a broker has sent whole frames, except for the protocol header at the beginning or the end.
func wellFormed(t *testing.T, heard []byte) {
	t.Helper()
	const sasl = "AMQP\x03\x01\x00\x00" // the answer of RabbitMQ 4 to other protocols
	if text := string(heard); text == wire.ProtocolHeader || text == sasl {
		return
	}
	frames := wire.NewReader(bytes.NewReader(heard), 128<<10)
	for {
		f, err := frames.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil && f.Type == wire.FrameMethod {
			_, err = wire.ParseMethod(f.Payload)
		}
		if err == nil && f.Type == wire.FrameHeader {
			_, err = wire.ParseHeader(f.Payload)
		}
		if err != nil {
			t.Fatalf("the broker has sent what is not a frame: %v", err)
		}
	}
}

// script is a client that sends everything, reads the answers, and closes.
type script struct {
	said   []byte
	heard  bytes.Buffer // only the broker uses it until it is closed
	once   sync.Once
	closed chan struct{}
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.said) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.said)
	s.said = s.said[n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error) { return s.heard.Write(p) }

func (s *script) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *script) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (s *script) RemoteAddr() net.Addr             { return s.LocalAddr() }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// dice converts bytes to frames.
type dice struct{ left []byte }

// roll returns a number below n.
func (d *dice) roll(n int) int {
	if len(d.left) == 0 {
		return 0
	}
	v := int(d.left[0])
	d.left = d.left[1:]
	return v % n
}

func (d *dice) maybe() bool { return d.roll(3) == 1 }

func (d *dice) of(names ...string) string { return names[d.roll(len(names))] }

func (d *dice) queue() string { return d.of("q1", "q2", "q3", "") }
func (d *dice) exchange() string {
	return d.of("x1", "x2", "amq.topic", "amq.fanout", "amq.headers", "")
}
func (d *dice) key() string { return d.of("q1", "q2", "a.b", "a.#", "#", "*.b", "") }
func (d *dice) tag() string { return d.of("t1", "t2", "") }

func (d *dice) value() any {
	values := []any{int32(0), int32(1), int64(2), int32(-1), "q1", "x1", true, "reject-publish", "drop-head", "at-least-once", "quorum", nil, wire.Array{"q1", "q2"}, wire.Table{{Key: "k", Value: 1.5}}, uint8(255), []byte("b")}
	return values[d.roll(len(values))]
}

func (d *dice) table(names ...string) (t wire.Table) {
	for range d.roll(4) {
		t = append(t, wire.Field{Key: d.of(names...), Value: d.value()})
	}
	return t
}

// frames appends the frames of one step of a client.
func (d *dice) frames(dst []byte) []byte {
	channel := uint16(1 + d.roll(3))
	var m wire.Method
	switch d.roll(24) {
	case 0, 1:
		m = &wire.QueueDeclare{Queue: d.queue(), Durable: d.maybe(), Exclusive: d.maybe(), AutoDelete: d.maybe(), Passive: d.maybe(), NoWait: d.maybe(),
			Arguments: d.table("x-max-length", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-overflow", "x-max-priority", "x-single-active-consumer",
				"x-queue-type", "x-delivery-limit", "x-expires", "x-dead-letter-strategy", "x-max-length-bytes")}
	case 2:
		m = &wire.ExchangeDeclare{Exchange: d.exchange(), Type: d.of("topic", "direct", "fanout", "headers", "?"), Durable: d.maybe(), AutoDelete: d.maybe(), Internal: d.maybe(),
			Arguments: d.table("alternate-exchange", "other")}
	case 3, 4:
		m = &wire.QueueBind{Queue: d.queue(), Exchange: d.exchange(), RoutingKey: d.key(), Arguments: d.table("x-match", "h", "k")}
	case 5:
		m = &wire.QueueUnbind{Queue: d.queue(), Exchange: d.exchange(), RoutingKey: d.key()}
	case 6:
		m = &wire.ExchangeBind{Destination: d.exchange(), Source: d.exchange(), RoutingKey: d.key()}
	case 7, 8, 9, 10:
		properties := wire.Properties{DeliveryMode: uint8(d.roll(4)), Priority: uint8(d.roll(12)), Expiration: d.of("", "0", "60000", "x"), ReplyTo: d.of("", "amq.rabbitmq.reply-to"),
			Headers: d.table("CC", "BCC", "h", "k", "x-death", "x-delivery-count")}
		dst = wire.AppendMethod(dst, channel, &wire.BasicPublish{Exchange: d.exchange(), RoutingKey: d.key(), Mandatory: d.maybe(), Immediate: d.roll(40) == 39})
		return wire.AppendContent(dst, channel, wire.ClassBasic, properties.Append(nil), make([]byte, d.roll(200)*d.roll(100)), 4096)
	case 11:
		m = &wire.BasicGet{Queue: d.queue(), NoAck: d.maybe()}
	case 12, 13:
		m = &wire.BasicConsume{Queue: d.of("q1", "q2", "q3", "amq.rabbitmq.reply-to"), ConsumerTag: d.tag(), NoAck: d.maybe(), Exclusive: d.maybe(), NoWait: d.maybe(), Arguments: d.table("x-priority")}
	case 14:
		m = &wire.BasicCancel{ConsumerTag: d.tag(), NoWait: d.maybe()}
	case 15:
		m = &wire.BasicAck{DeliveryTag: uint64(d.roll(6)), Multiple: d.maybe()}
	case 16:
		m = &wire.BasicNack{DeliveryTag: uint64(d.roll(6)), Multiple: d.maybe(), Requeue: d.maybe()}
	case 17:
		m = &wire.BasicReject{DeliveryTag: uint64(d.roll(6)), Requeue: d.maybe()}
	case 18:
		m = &wire.BasicQos{PrefetchCount: uint16(d.roll(4)), Global: d.maybe()}
	case 19:
		m = []wire.Method{&wire.TxSelect{}, &wire.TxCommit{}, &wire.TxRollback{}, &wire.ConfirmSelect{NoWait: d.maybe()}, &wire.BasicRecover{Requeue: !d.maybe()}}[d.roll(5)]
	case 20:
		m = &wire.QueuePurge{Queue: d.queue()}
	case 21:
		m = &wire.QueueDelete{Queue: d.queue(), IfUnused: d.maybe(), IfEmpty: d.maybe()}
	case 22:
		m = &wire.ExchangeDelete{Exchange: d.exchange(), IfUnused: d.maybe()}
	default:
		// This reopens a channel that the broker has closed.
		dst = wire.AppendMethod(dst, channel, &wire.ChannelCloseOK{})
		dst = wire.AppendMethod(dst, channel, &wire.ChannelClose{})
		m = &wire.ChannelOpen{}
	}
	return wire.AppendMethod(dst, channel, m)
}

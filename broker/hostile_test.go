package broker_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/internal/wire"
)

// perPeer is how much memory one bad peer may use.
const perPeer = 64 << 20

// Each of these is sent by a new connection, within the process and by TCP.
func TestHostileInput(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	t.Run("all", func(t *testing.T) {
		server := &broker.Server{Logger: quiet()}
		overTCP := listen(t, server, nil)
		for name, connect := range map[string]func() net.Conn{"pipe": func() net.Conn { return dial(t, server) }, "tcp": overTCP} {
			t.Run(name, func(t *testing.T) {
				for _, c := range beforeLogin() {
					t.Run(c.name, func(t *testing.T) { c.try(t, connect, newPeer) })
				}
				for _, c := range afterLogin() {
					t.Run(c.name, func(t *testing.T) { c.try(t, connect, enter) })
				}
			})
		}
	})
	settled(t, goroutines)
}

// hostile is something that no client should send.
type hostile struct {
	name string
	sent []byte
	want ending // all zero: the broker must accept it
}

func (c hostile) try(t *testing.T, connect func() net.Conn, begin func(testing.TB, net.Conn) *peer) {
	before := allocated()
	p := begin(t, connect())
	p.send(c.sent)
	if c.want == (ending{}) {
		p.sendMethods(1, &wire.ChannelClose{ReplyCode: wire.ReplySuccess})
		for closed := false; !closed; {
			m, err := p.method()
			if err != nil {
				t.Fatalf("got %v, want channel.close-ok", err)
			}
			_, closed = m.(*wire.ChannelCloseOK)
			if exception, ok := m.(*wire.ChannelClose); ok {
				t.Fatalf("got %s, want channel.close-ok", exception.ReplyText)
			}
		}
	} else if got := p.end(); got != c.want {
		t.Errorf("got %v\nwant %v", got, c.want)
	}
	if all := allocated() - before; all > perPeer {
		t.Errorf("%d KiB were allocated, want at most %d", all>>10, perPeer>>10)
	}
	serves(t, connect())
}

// How a broker ends a connection.
func hangsUp() ending { return ending{hungUp: true} }

func closesConnection(code uint16) ending { return ending{connection: code, hungUp: true} }

func closesChannel(code uint16) ending { return ending{channel: code} }

// beforeLogin is sent by peers that have not logged in.
func beforeLogin() []hostile {
	hello := []byte(wire.ProtocolHeader)
	after := func(frames ...[]byte) []byte {
		return append(hello[:len(hello):len(hello)], bytes.Join(frames, nil)...)
	}
	startOK := func(mechanism, response string, properties wire.Table) []byte {
		capable := wire.Table{{Key: "capabilities", Value: wire.Table{{Key: "authentication_failure_close", Value: true}}}}
		return wire.AppendMethod(nil, 0, &wire.ConnectionStartOK{ClientProperties: append(capable, properties...), Mechanism: mechanism, Response: []byte(response)})
	}
	guest := startOK("PLAIN", "\x00guest\x00guest", nil)
	tuneOK := func(channels uint16, frame uint32) []byte {
		return wire.AppendMethod(nil, 0, &wire.ConnectionTuneOK{ChannelMax: channels, FrameMax: frame})
	}
	return []hostile{
		{"HTTP", []byte("GET /api/overview HTTP/1.1\r\nHost: localhost\r\n\r\n"), hangsUp()},
		{"TLS", []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), hangsUp()},
		{"AMQP 1.0", []byte("AMQP\x00\x01\x00\x00"), hangsUp()},
		{"AMQP 1.0 by SASL", []byte("AMQP\x03\x01\x00\x00"), hangsUp()},
		{"zeros", make([]byte, 1<<16), hangsUp()},
		{"frame of 2 GiB", after(frameOf(wire.FrameMethod, 0, 1<<31)), hangsUp()},
		{"frame over the smallest maximum", after(wire.AppendFrame(nil, wire.FrameMethod, 0, make([]byte, 4097))), hangsUp()},
		{"frame of unknown type", after(wire.AppendFrame(nil, 255, 0, nil)), hangsUp()},
		{"method on a channel", after(wire.AppendMethod(nil, 1, &wire.ChannelOpen{})), hangsUp()},
		{"content", after(wire.AppendFrame(nil, wire.FrameBody, 1, []byte("body"))), hangsUp()},
		{"open before login", after(wire.AppendMethod(nil, 0, &wire.ConnectionOpen{VirtualHost: "/"})), hangsUp()},
		{"nested tables", after(wire.AppendFrame(nil, wire.FrameMethod, 0, append([]byte{0, 10, 0, 11}, nested(700)...))), hangsUp()},
		{"unknown mechanism", after(startOK("GSSAPI", "", nil)), hangsUp()},
		{"no password", after(startOK("PLAIN", "guest", nil)), hangsUp()},
		{"wrong password", after(startOK("PLAIN", "\x00guest\x00wrong", nil)), closesConnection(403)},
		{"unknown user", after(startOK("PLAIN", "\x00\xff\x00\x00", nil)), closesConnection(403)},
		{"empty user", after(startOK("PLAIN", "\x00\x00", nil)), closesConnection(403)},
		{"AMQPLAIN without keys", after(startOK("AMQPLAIN", "", nil)), closesConnection(403)},
		{"AMQPLAIN with a lie", after(startOK("AMQPLAIN", "\x05LOGINS\xff\xff\xff\xffguest", nil)), closesConnection(403)},
		{"EXTERNAL without a certificate", after(startOK("EXTERNAL", "guest", nil)), closesConnection(403)},
		{"frame-max 0", after(guest, tuneOK(2047, 0)), hangsUp()},
		{"frame-max 1", after(guest, tuneOK(2047, 1)), hangsUp()},
		{"frame-max absurd", after(guest, tuneOK(2047, math.MaxUint32)), hangsUp()},
		{"channel-max 0", after(guest, tuneOK(0, 131072)), hangsUp()},
		{"channel-max absurd", after(guest, tuneOK(65535, 131072)), hangsUp()},
		{"vhost missing", after(guest, tuneOK(2047, 131072), wire.AppendMethod(nil, 0, &wire.ConnectionOpen{VirtualHost: "../etc"})), closesConnection(530)},
		{"channel instead of a vhost", after(guest, tuneOK(2047, 131072), wire.AppendMethod(nil, 1, &wire.ChannelOpen{})), closesConnection(505)},
	}
}

// afterLogin is sent on the open channel 1.
func afterLogin() []hostile {
	method := func(m wire.Method) []byte { return wire.AppendMethod(nil, 1, m) }
	frame := func(typ uint8, payload ...byte) []byte { return wire.AppendFrame(nil, typ, 1, payload) }
	publish := method(&wire.BasicPublish{RoutingKey: "nowhere"})
	header := func(size uint64, properties ...byte) []byte {
		payload := binary.BigEndian.AppendUint64([]byte{0, wire.ClassBasic, 0, 0}, size)
		return frame(wire.FrameHeader, append(payload, properties...)...)
	}
	headers := func(table []byte) []byte {
		return bytes.Join([][]byte{publish, header(0, append([]byte{0x20, 0}, table...)...)}, nil)
	}
	field := func(typ byte, value ...byte) []byte {
		entry := append([]byte{1, 'k', typ}, value...)
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(entry))), entry...)
	}
	declare := func(key string, value any) []byte {
		return method(&wire.QueueDeclare{Queue: "q", Durable: true, Arguments: wire.Table{{Key: key, Value: value}}})
	}
	withProperties := func(p wire.Properties) []byte { return message("", "nowhere", p, nil) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	long := strings.Repeat("n", 255)
	badEnd := method(&wire.ChannelFlow{Active: true})
	badEnd[len(badEnd)-1] = 0
	return []hostile{
		{"frame type 0", frame(0), closesConnection(501)},
		{"frame type 255", frame(255, 1, 2, 3), closesConnection(501)},
		{"empty method frame", frame(wire.FrameMethod), closesConnection(501)},
		{"frame of 2 GiB", frameOf(wire.FrameBody, 1, 1<<31), closesConnection(501)},
		{"frame of 4 GiB", frameOf(wire.FrameMethod, 1, math.MaxUint32), closesConnection(501)},
		{"frame over the maximum", frameOf(wire.FrameBody, 1, 128<<10+1), closesConnection(501)},
		{"bad frame end", badEnd, closesConnection(501)},
		{"heartbeat on a channel", frame(wire.FrameHeartbeat), closesConnection(505)},
		{"heartbeat with a payload", wire.AppendFrame(nil, wire.FrameHeartbeat, 0, []byte{1}), closesConnection(501)},
		{"content on channel 0", wire.AppendFrame(nil, wire.FrameBody, 0, []byte("body")), closesConnection(505)},
		{"method on channel 0", wire.AppendMethod(nil, 0, &wire.QueueDeclare{}), closesConnection(504)},
		{"second tune-ok", wire.AppendMethod(nil, 0, &wire.ConnectionTuneOK{FrameMax: 1 << 30}), closesConnection(504)},
		{"method on a channel that is not open", wire.AppendMethod(nil, 7, &wire.QueueDeclare{}), closesConnection(504)},
		{"content on a channel that is not open", wire.AppendFrame(nil, wire.FrameBody, 7, []byte("body")), closesConnection(505)},
		{"channel opened twice", method(&wire.ChannelOpen{}), closesConnection(504)},
		{"close-ok unasked", method(&wire.ChannelCloseOK{}), ending{}},
		{"unknown class", frame(wire.FrameMethod, 3, 231, 0, 10), hangsUp()},
		{"unknown method", frame(wire.FrameMethod, 0, 60, 3, 231), hangsUp()},
		{"method of a broker", method(&wire.BasicDeliver{ConsumerTag: "t"}), closesConnection(503)},
		{"header without a method", header(0, 0, 0), closesConnection(505)},
		{"body without a method", frame(wire.FrameBody, 1), closesConnection(505)},
		{"body before the header", join(publish, frame(wire.FrameBody, 1)), closesConnection(505)},
		{"two headers", join(publish, header(9, 0, 0), header(9, 0, 0)), closesConnection(505)},
		{"header of another class", join(publish, frame(wire.FrameHeader, 0, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)), closesConnection(505)},
		{"more body than announced", join(publish, header(1, 0, 0), frame(wire.FrameBody, 1, 2, 3)), closesConnection(501)},
		{"body after a whole message", join(publish, header(1, 0, 0), frame(wire.FrameBody, 1), frame(wire.FrameBody, 1)), closesConnection(505)},
		{"body of 2^63 bytes", join(publish, header(1<<63, 0, 0)), closesChannel(406)},
		{"body of 2^64-1 bytes", join(publish, header(math.MaxUint64, 0, 0)), closesChannel(406)},
		{"short string that lies", frame(wire.FrameMethod, 0, 50, 0, 10, 0, 0, 200, 'q'), closesConnection(501)},
		{"table that lies", frame(wire.FrameMethod, 0, 50, 0, 10, 0, 0, 1, 'q', 0, 255, 255, 255, 255), closesConnection(501)},
		{"name that is not UTF-8", frame(wire.FrameMethod, 0, 50, 0, 10, 0, 0, 1, 0xff, 0, 0, 0, 0, 0), closesConnection(501)},
		{"properties that lie", join(publish, header(0, 0x80, 0, 200)), closesConnection(502)},
		{"header table that lies", headers([]byte{255, 255, 255, 255}), closesConnection(502)},
		{"field of unknown type", headers(field('?')), closesConnection(502)},
		{"string that lies", headers(field('S', 255, 255, 255, 255)), closesConnection(502)},
		{"float that is not a number", headers(field('d', 0x7f, 0xf8, 0, 0, 0, 0, 0, 0)), closesConnection(502)},
		{"decimal with 255 digits", headers(field('D', 255, 255, 255, 255, 255)), ending{}},
		{"time in 2^63 seconds", headers(field('T', 0x80, 0, 0, 0, 0, 0, 0, 0)), ending{}},
		{"10,000 nested tables", headers(nested(10_000)), closesConnection(502)},
		{"nested tables in arguments", frame(wire.FrameMethod, append([]byte{0, 50, 0, 10, 0, 0, 1, 'q', 0}, nested(10_000)...)...), closesConnection(502)},
		{"table of 10,000 fields", headers(fields(10_000)), closesConnection(502)},
		{"two fields of one key", headers(append([]byte{0, 0, 0, 6}, 1, 'k', 'V', 1, 'k', 'V')), ending{}},
		{"long names", join(method(&wire.QueueDeclare{Queue: long, Exclusive: true}), method(&wire.QueueBind{Queue: long, Exchange: "amq.topic", RoutingKey: long})), ending{}},
		{"names of files", method(&wire.QueueDeclare{Queue: "../../etc/passwd\x00/.", Exclusive: true, Durable: true}), ending{}},
		{"reserved name", method(&wire.QueueDeclare{Queue: "amq.mine"}), closesChannel(403)},
		{"negative TTL", declare("x-message-ttl", int32(-1)), closesChannel(406)},
		{"TTL of 2^63-1", declare("x-message-ttl", int64(math.MaxInt64)), closesChannel(406)},
		{"TTL that is a text", declare("x-message-ttl", "soon"), closesChannel(406)},
		{"length that is a table", declare("x-max-length", wire.Table{}), closesChannel(406)},
		{"priority 2^31", declare("x-max-priority", int64(1<<31)), closesChannel(406)},
		{"ack of tag 0", method(&wire.BasicAck{}), closesChannel(406)},
		{"ack of a tag that never was", method(&wire.BasicAck{DeliveryTag: 42}), closesChannel(406)},
		{"ack of all up to 2^64-1", method(&wire.BasicAck{DeliveryTag: math.MaxUint64, Multiple: true}), closesChannel(406)},
		{"nack of 2^63", method(&wire.BasicNack{DeliveryTag: 1 << 63, Requeue: true}), closesChannel(406)},
		{"prefetch of bytes", method(&wire.BasicQos{PrefetchSize: 1}), closesConnection(540)},
		{"prefetch of 65,535", method(&wire.BasicQos{PrefetchCount: math.MaxUint16, Global: true}), ending{}},
		{"immediate", method(&wire.BasicPublish{Immediate: true}), closesConnection(540)},
		{"flow off", method(&wire.ChannelFlow{}), closesConnection(540)},
		{"expiration abc", withProperties(wire.Properties{Expiration: "abc"}), closesChannel(406)},
		{"expiration of 255 digits", withProperties(wire.Properties{Expiration: strings.Repeat("9", 255)}), closesChannel(406)},
		{"CC that is no list", withProperties(wire.Properties{Headers: wire.Table{{Key: "CC", Value: int32(1)}}}), closesChannel(406)},
		{"CC of 1,000 keys", withProperties(wire.Properties{Headers: wire.Table{{Key: "CC", Value: manyKeys(1000)}, {Key: "BCC", Value: manyKeys(1000)}}}), ending{}},
		{"priority 255 and long texts", withProperties(wire.Properties{Priority: 255, MessageID: long, CorrelationID: long, Type: long, AppID: long}), ending{}},
		{"another's user-id", withProperties(wire.Properties{UserID: "root"}), closesChannel(406)},
		{"delivery-mode 255", withProperties(wire.Properties{DeliveryMode: 255}), ending{}},
		{"commit without a transaction", method(&wire.TxCommit{}), closesChannel(406)},
		{"a million empty body frames", join(publish, header(1, 0, 0), bytes.Repeat(frame(wire.FrameBody), 1_000_000), frame(wire.FrameBody, 1)), ending{}},
		{"100,000 heartbeats", bytes.Repeat(wire.AppendHeartbeat(nil), 100_000), ending{}},
	}
}

// frameOf is the beginning of a frame with this size.
func frameOf(typ uint8, channel uint16, size uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{typ, byte(channel >> 8), byte(channel)}, size)
}

// nested is tables within tables.
func nested(depth int) []byte {
	table := []byte{0, 0, 0, 0}
	levels := make([]byte, 0, depth*7)
	for i := range depth {
		inner := uint32((depth - i - 1) * 7)
		levels = binary.BigEndian.AppendUint32(append(levels, 1, 'k', 'F'), inner)
	}
	binary.BigEndian.PutUint32(table, uint32(len(levels)))
	return append(table, levels...)
}

// fields is a table of fields without values.
func fields(n int) []byte {
	entries := bytes.Repeat([]byte{1, 'k', 'V'}, n)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(entries))), entries...)
}

func manyKeys(n int) (keys wire.Array) {
	for range n {
		keys = append(keys, "nowhere")
	}
	return keys
}

// A connection can be cut anywhere.
func TestHostileCuts(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	server := &broker.Server{Logger: quiet()}
	said := append(append(login("guest", "guest"), openChannels(1)...), conversations()[1]...)
	engine, err := access.Start(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	for end := range said {
		script := &script{said: said[:end], closed: make(chan struct{})}
		engine.Handle(script)
		within(t, "the connection ends", script.closed)
		wellFormed(t, script.heard.Bytes())
	}
	serves(t, dial(t, server))
	shut(t, server)
	settled(t, goroutines)
}

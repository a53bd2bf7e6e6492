package amqp

import (
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/rehop/rehop/internal/wire"
)

// What RabbitMQ offers in connection.tune unless it is configured otherwise.
const (
	frameMax   = 131072
	channelMax = 2047
)

// Raw is a connection on which a case writes and reads frames itself.
type Raw struct {
	b      *Bench
	conn   net.Conn
	reader *wire.Reader
}

// Raw opens a transport on which nothing was sent yet.
func (b *Bench) Raw() *Raw {
	b.t.Helper()
	conn := b.dial()
	return &Raw{b: b, conn: conn, reader: wire.NewReader(conn, frameMax)}
}

// RawOpen opens a connection without heartbeats and without channels.
func (b *Bench) RawOpen() *Raw {
	b.t.Helper()
	r := b.Raw()
	r.Login()
	r.Open(&wire.ConnectionTuneOK{ChannelMax: channelMax, FrameMax: frameMax})
	return r
}

// RawChannel opens a connection and its channel 1.
func (b *Bench) RawChannel() *Raw {
	b.t.Helper()
	r := b.RawOpen()
	r.OpenChannel(1)
	return r
}

// Start begins a connection as far as the broker's connection.start.
func (r *Raw) Start() *wire.ConnectionStart {
	r.b.t.Helper()
	r.Write([]byte(wire.ProtocolHeader))
	return Expect[*wire.ConnectionStart](r, 0)
}

// Login begins a connection as far as the broker's connection.tune.
func (r *Raw) Login() *wire.ConnectionTune {
	r.b.t.Helper()
	r.Start()
	r.Send(0, &wire.ConnectionStartOK{Mechanism: "PLAIN", Response: plain(r.b.User, r.b.Password), Locale: "en_US"})
	return Expect[*wire.ConnectionTune](r, 0)
}

// plain is the response of the mechanism PLAIN.
func plain(user, password string) []byte {
	return []byte("\x00" + user + "\x00" + password)
}

// Open ends the opening of a connection that Login began.
func (r *Raw) Open(tune *wire.ConnectionTuneOK) {
	r.b.t.Helper()
	r.Send(0, tune, &wire.ConnectionOpen{VirtualHost: r.b.Name})
	Expect[*wire.ConnectionOpenOK](r, 0)
}

// OpenChannel opens a channel.
func (r *Raw) OpenChannel(channel uint16) {
	r.b.t.Helper()
	r.Send(channel, &wire.ChannelOpen{})
	Expect[*wire.ChannelOpenOK](r, channel)
}

// Queue declares a durable queue on channel 1.
func (r *Raw) Queue(name string) {
	r.b.t.Helper()
	r.Send(1, &wire.QueueDeclare{Queue: name, Durable: true})
	Expect[*wire.QueueDeclareOK](r, 1)
}

// Sync waits until the broker has worked off all that was sent on channel 1 before.
func (r *Raw) Sync() {
	r.b.t.Helper()
	r.Send(1, &wire.ExchangeDeclare{Exchange: "amq.direct", Passive: true})
	Expect[*wire.ExchangeDeclareOK](r, 1)
}

// Write writes bytes. That the broker has hung up meanwhile is for the next read to show.
func (r *Raw) Write(data []byte) {
	r.b.t.Helper()
	if _, err := r.conn.Write(data); err != nil && !hungUp(err) {
		r.b.t.Fatalf("write %d bytes to the broker: %v", len(data), err)
	}
}

// Send writes methods, all at once.
func (r *Raw) Send(channel uint16, methods ...wire.Method) {
	r.b.t.Helper()
	r.Write(r.encode(channel, methods...))
}

func (r *Raw) encode(channel uint16, methods ...wire.Method) []byte {
	r.b.t.Helper()
	var frames []byte
	for _, m := range methods {
		r.b.Must(wire.Check(m))
		frames = wire.AppendMethod(frames, channel, m)
	}
	return frames
}

// Publish sends a message, all at once.
func (r *Raw) Publish(channel uint16, publish *wire.BasicPublish, properties wire.Properties, body []byte) {
	r.b.t.Helper()
	r.Write(wire.AppendContent(r.encode(channel, publish), channel, wire.ClassBasic, properties.Append(nil), body, frameMax))
}

// Next reads the next frame that is not a heartbeat. Its payload is valid until the next call.
func (r *Raw) Next() wire.Frame {
	r.b.t.Helper()
	for {
		f, err := r.reader.Next()
		if err != nil {
			r.b.t.Fatalf("got %v instead of a frame", err)
		}
		if f.Type != wire.FrameHeartbeat {
			return f
		}
	}
}

// Method reads the next frame, which has to be a method on this channel.
func (r *Raw) Method(channel uint16) wire.Method {
	r.b.t.Helper()
	f := r.Next()
	if f.Type != wire.FrameMethod || f.Channel != channel {
		r.b.t.Fatalf("got a frame of type %d on channel %d: %q\nwant a method on channel %d", f.Type, f.Channel, f.Payload, channel)
	}
	m, err := wire.ParseMethod(f.Payload)
	if err != nil {
		r.b.t.Fatalf("read a method of the broker's: %v", err)
	}
	return m
}

// Expect reads the next frame, which has to be a method of this type on this channel.
func Expect[M wire.Method](r *Raw, channel uint16) M {
	r.b.t.Helper()
	got := r.Method(channel)
	m, ok := got.(M)
	if !ok {
		r.b.t.Fatalf("got %s %+v, want %s", got.ID(), got, m.ID())
	}
	return m
}

// Content reads the header and the body of a message whose method was read.
func (r *Raw) Content(channel uint16) (header wire.Header, body []byte) {
	r.b.t.Helper()
	f := r.Next()
	header, err := wire.ParseHeader(f.Payload)
	if err != nil || f.Type != wire.FrameHeader || f.Channel != channel {
		r.b.t.Fatalf("got a frame of type %d on channel %d (%v), want a content header on channel %d", f.Type, f.Channel, err, channel)
	}
	header.Properties = append([]byte(nil), header.Properties...)
	for uint64(len(body)) < header.BodySize {
		f := r.Next()
		if f.Type != wire.FrameBody || f.Channel != channel {
			r.b.t.Fatalf("got a frame of type %d on channel %d, want a body on channel %d", f.Type, f.Channel, channel)
		}
		body = append(body, f.Payload...)
	}
	return header, body
}

// Get takes the message at the head of a queue by channel 1.
func (r *Raw) Get(queue string) (header wire.Header, body []byte) {
	r.b.t.Helper()
	r.Send(1, &wire.BasicGet{Queue: queue, NoAck: true})
	Expect[*wire.BasicGetOK](r, 1)
	return r.Content(1)
}

// WantChannelClose reads a channel exception and confirms it.
func (r *Raw) WantChannelClose(channel, code uint16, text string, about wire.MethodID) {
	r.b.t.Helper()
	got := Expect[*wire.ChannelClose](r, channel)
	r.wantException(got.ReplyCode, code, got.ReplyText, text, got.ClassID, got.MethodID, about)
	r.Send(channel, &wire.ChannelCloseOK{})
}

// WantConnectionClose reads a connection exception, confirms it, and waits for the broker to hang up.
func (r *Raw) WantConnectionClose(code uint16, text string, about wire.MethodID) {
	r.b.t.Helper()
	r.wantConnectionClose(code, text, about)
	r.Send(0, &wire.ConnectionCloseOK{})
	r.WantEnd()
}

func (r *Raw) wantConnectionClose(code uint16, text string, about wire.MethodID) {
	r.b.t.Helper()
	got := Expect[*wire.ConnectionClose](r, 0)
	r.wantException(got.ReplyCode, code, got.ReplyText, text, got.ClassID, got.MethodID, about)
}

// wantException compares an exception with what is wanted, whose text is one for Bench.Refused.
func (r *Raw) wantException(gotCode, code uint16, gotText, text string, class, method uint16, about wire.MethodID) {
	r.b.t.Helper()
	text = r.b.expand(text)
	if gotCode != code || !matches(gotText, text) {
		r.b.t.Fatalf("got exception %d %q\nwant          %d %q", gotCode, gotText, code, text)
	}
	if class != about.Class() || method != about.Method() {
		r.b.t.Fatalf("exception %d %q: got class %d, method %d as its cause, want %d, %d", gotCode, gotText, class, method, about.Class(), about.Method())
	}
}

// WantEnd waits for the broker to hang up; until then it may send nothing but heartbeats.
func (r *Raw) WantEnd() {
	r.b.t.Helper()
	for {
		f, err := r.reader.Next()
		switch {
		case hungUp(err):
			return
		case err != nil:
			r.b.t.Fatalf("got %v, want the broker to hang up", err)
		case f.Type != wire.FrameHeartbeat:
			r.b.t.Fatalf("got a frame of type %d on channel %d: %q\nwant the broker to hang up", f.Type, f.Channel, f.Payload)
		}
	}
}

// hungUp reports whether reading or writing failed because the broker has closed the transport.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

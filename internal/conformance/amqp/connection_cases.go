package amqp

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/internal/wire"
)

const (
	headerSection    = "specification 4.2.2, Protocol Header"
	handshakeSection = "specification 2.2.4, The Connection Class"
	loginPage        = "Access Control: Authentication"
	failurePage      = "Authentication failure notifications"
	tuneReference    = "AMQP 0-9-1 reference: connection.tune-ok"
	heartbeatsPage   = "Heartbeats"
	closeReference   = "AMQP 0-9-1 reference: connection.close"
)

func connectionCases() []Case {
	return []Case{
		{"Header", headerSection, headerAccepted("AMQP\x00\x00\x09\x01")},
		{"HeaderOfVersion0-9", headerSection, headerAccepted("AMQP\x01\x01\x00\x09")},
		{"HeaderInPieces", headerSection, headerInPieces},
		{"HeaderOfUnknownVersion", headerSection, headerRefused("AMQP\x00\x00\x09\x02", wire.ProtocolHeader)},
		{"HeaderOfAMQP1.0", headerSection, headerRefused("AMQP\x00\x01\x00\x00", headerOfSASL)},
		{"HeaderOfSASL", headerSection, headerRefused(headerOfSASL, headerOfSASL)},
		{"HeaderOfHTTP", headerSection, headerRefused("GET / HTTP/1.1\r\n", headerOfSASL)},
		{"NothingSent", handshakeSection, nothingSent},
		{"Mechanisms", "Access Control: Mechanisms", mechanisms},
		{"ServerProperties", "AMQP 0-9-1 reference: connection.start, server-properties", serverProperties},
		{"Capabilities", "Connections: Capabilities", capabilities},
		{"LoginPlain", loginPage, loginPlain},
		{"LoginAMQPlain", loginPage, loginAMQPlain},
		{"LoginWithOddProperties", "Connections: Capabilities", loginOddProperties},
		{"WrongPassword", failurePage, loginRefused("PLAIN", func(b *Bench) []byte { return plain(b.User, "wrong") })},
		{"WrongUser", failurePage, loginRefused("PLAIN", func(b *Bench) []byte { return plain("nobody", b.Password) })},
		{"WrongPasswordAMQPlain", failurePage, loginRefused("AMQPLAIN", func(b *Bench) []byte {
			return []byte((&amqp091.AMQPlainAuth{Username: b.User, Password: "wrong"}).Response())
		})},
		{"WrongPasswordUnannounced", failurePage, wrongPasswordUnannounced},
		{"UnknownMechanism", handshakeSection, hangsUpAt(wire.ConnectionStartOK{Mechanism: "NONSENSE"})},
		{"MalformedPlainResponse", handshakeSection, hangsUpAt(wire.ConnectionStartOK{Mechanism: "PLAIN", Response: []byte("no separators")})},
		{"VhostMissing", "Virtual Hosts: Client connections", vhostMissing},
		{"VhostOfLongName", closeReference, longNameOfVhost},
		{"VhostNotPermitted", "Virtual Hosts: Client connections", vhostNotPermitted},
		{"VhostWithoutName", "Virtual Hosts: Client connections", vhostWithoutName},
		{"TuneOffer", "AMQP 0-9-1 reference: connection.tune", tuneOffer},
		{"TuneSmallestFrameMax", tuneReference, tuneSmallestFrameMax},
		{"TuneFrameMaxTooLow", tuneReference, tuneRefused(&wire.ConnectionTuneOK{ChannelMax: 1, FrameMax: wire.FrameMinSize - 1})},
		{"TuneFrameMaxTooHigh", tuneReference, tuneRefused(&wire.ConnectionTuneOK{ChannelMax: 1, FrameMax: frameMax + 1})},
		{"TuneFrameMaxUnlimited", tuneReference, tuneRefused(&wire.ConnectionTuneOK{ChannelMax: 1})},
		{"TuneChannelMaxTooHigh", tuneReference, tuneRefused(&wire.ConnectionTuneOK{ChannelMax: channelMax + 1, FrameMax: frameMax})},
		{"TuneChannelMaxUnlimited", tuneReference, tuneRefused(&wire.ConnectionTuneOK{FrameMax: frameMax})},
		{"HeartbeatsAreSent", heartbeatsPage, heartbeatsAreSent},
		{"HeartbeatsMissed", heartbeatsPage, heartbeatsMissed},
		{"HeartbeatsKeepAlive", heartbeatsPage, heartbeatsKeepAlive},
		{"OpenTwice", handshakeSection, openTwice},
		{"OpenBeforeTuneOK", handshakeSection, openBeforeTuneOK},
		{"ChannelBeforeOpen", handshakeSection, channelBeforeOpen},
		{"ChannelBeforeLogin", handshakeSection, channelBeforeLogin},
		{"Close", closeReference, closeConnection},
		{"CloseRequeues", closeReference, closeRequeues},
		{"CloseWhileOthersPublish", closeReference, closeWhileOthersPublish},
		{"CloseOKUnasked", closeReference, closeOKUnasked},
		{"CloseCrossesException", closeReference, closeCrossesException},
		{"FramesAfterExceptionAreIgnored", closeReference, framesAfterException},
		{"ExceptionUnanswered", closeReference, exceptionUnanswered},
		{"UpdateSecret", "AMQP 0-9-1 extensions: connection.update-secret", updateSecret},
	}
}

func headerAccepted(header string) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		r := b.Raw()
		r.Write([]byte(header))
		start := Expect[*wire.ConnectionStart](r, 0)
		Equal(b, "version", [2]uint8{start.VersionMajor, start.VersionMinor}, [2]uint8{0, 9})
		Equal(b, "locales", start.Locales, "en_US")
	}
}

func headerInPieces(_ *testing.T, b *Bench) {
	r := b.Raw()
	for _, piece := range []byte(wire.ProtocolHeader) {
		r.Write([]byte{piece})
	}
	Expect[*wire.ConnectionStart](r, 0)
}

// headerOfSASL begins AMQP 1.0.
const headerOfSASL = "AMQP\x03\x01\x00\x00"

// headerRefused is a case in which the broker answers a protocol header with another: before 4.0 always with that of AMQP 0-9-1.
func headerRefused(header, since40 string) func(*testing.T, *Bench) {
	return func(t *testing.T, b *Bench) {
		r := b.Raw()
		r.Write([]byte(header))
		want := either(b, release40, since40, wire.ProtocolHeader)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(r.conn, got); err != nil || string(got) != want {
			t.Fatalf("got %q, %v, want the protocol header %q", got, err, want)
		}
		if header == want {
			return // a broker with AMQP 1.0 continues
		}
		r.WantEnd()
	}
}

// nothingSent waits for as long as the broker waits for a client to log in: 10 s with RabbitMQ.
func nothingSent(_ *testing.T, b *Bench) {
	b.Raw().WantEnd()
}

func mechanisms(t *testing.T, b *Bench) {
	offered := strings.Fields(b.Raw().Start().Mechanisms)
	for _, want := range []string{"PLAIN", "AMQPLAIN"} {
		if !slices.Contains(offered, want) {
			t.Errorf("got mechanisms %q, want %s among them", offered, want)
		}
	}
}

func serverProperties(t *testing.T, b *Bench) {
	properties := b.Raw().Start().ServerProperties
	for _, name := range []string{"product", "version", "platform", "copyright", "information", "cluster_name"} {
		value, _ := properties.Get(name)
		if text, ok := value.(string); !ok || text == "" {
			t.Errorf("property %s: got %v, want a text", name, value)
		}
	}
	version, _ := properties.Get("version")
	Equal(b, "version", version, any(b.Target.Version()))
}

func capabilities(t *testing.T, b *Bench) {
	value, _ := b.Raw().Start().ServerProperties.Get("capabilities")
	table, ok := value.(wire.Table)
	if !ok {
		t.Fatalf("got capabilities %v, want a table", value)
	}
	for _, name := range []string{"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify",
		"connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos", "direct_reply_to"} {
		got, _ := table.Get(name)
		Equal(b, name, got, any(true))
	}
}

func loginPlain(_ *testing.T, b *Bench) {
	loginBy(b, &amqp091.PlainAuth{Username: b.User, Password: b.Password})
}

func loginAMQPlain(_ *testing.T, b *Bench) {
	loginBy(b, &amqp091.AMQPlainAuth{Username: b.User, Password: b.Password})
}

func loginBy(b *Bench, mechanism amqp091.Authentication) {
	b.t.Helper()
	conn, err := b.TryConnect(amqp091.Config{SASL: []amqp091.Authentication{mechanism}, Vhost: b.Name})
	b.Must(err)
	conn.Channel().Sync()
}

func loginOddProperties(_ *testing.T, b *Bench) {
	r := b.Raw()
	r.Start()
	r.Send(0, &wire.ConnectionStartOK{
		ClientProperties: wire.Table{{Key: "product", Value: int32(5)}, {Key: "capabilities", Value: "not a table"}, {Key: "", Value: nil}},
		Mechanism:        "PLAIN", Response: plain(b.User, b.Password), Locale: "xx_XX",
	})
	Expect[*wire.ConnectionTune](r, 0)
}

// failureClose is the capability of a client that wants to receive why it may not log in.
func failureClose() wire.Table {
	return wire.Table{{Key: "capabilities", Value: wire.Table{{Key: "authentication_failure_close", Value: true}}}}
}

func loginRefused(mechanism string, response func(b *Bench) []byte) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		r := b.Raw()
		r.Start()
		r.Send(0, &wire.ConnectionStartOK{ClientProperties: failureClose(), Mechanism: mechanism, Response: response(b), Locale: "en_US"})
		r.WantConnectionClose(403, "ACCESS_REFUSED - Login was refused using authentication mechanism "+mechanism+
			". For details see the broker logfile.", 0)
	}
}

func wrongPasswordUnannounced(t *testing.T, b *Bench) {
	hangsUpAt(wire.ConnectionStartOK{Mechanism: "PLAIN", Response: plain(b.User, "wrong"), Locale: "en_US"})(t, b)
}

// hangsUpAt is a case in which the broker leaves without a word.
func hangsUpAt(startOK wire.ConnectionStartOK) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		r := b.Raw()
		r.Start()
		r.Send(0, &startOK)
		r.WantEnd()
	}
}

// openVhost logs in and opens a virtual host, which fails.
func openVhost(b *Bench, vhost, text string) {
	b.t.Helper()
	r := b.Raw()
	r.Login()
	r.Send(0, &wire.ConnectionTuneOK{ChannelMax: channelMax, FrameMax: frameMax}, &wire.ConnectionOpen{VirtualHost: vhost})
	r.WantConnectionClose(530, text, wire.IDConnectionOpen)
}

func vhostMissing(_ *testing.T, b *Bench) {
	openVhost(b, "nowhere", "NOT_ALLOWED - vhost nowhere not found")
}

func vhostWithoutName(_ *testing.T, b *Bench) {
	openVhost(b, "", "NOT_ALLOWED - vhost  not found")
}

func vhostNotPermitted(t *testing.T, b *Bench) {
	other := b.Target.Vhost(t)
	openVhost(b, other.Name, "NOT_ALLOWED - access to vhost '"+other.Name+"' refused for user '{user}'")
}

func tuneOffer(_ *testing.T, b *Bench) {
	Equal(b, "tune", *b.Raw().Login(), wire.ConnectionTune{ChannelMax: channelMax, FrameMax: frameMax, Heartbeat: 60})
}

// smallestFrameMax is the smallest limit of frames that a client may choose.
func smallestFrameMax(b *Bench) int {
	b.t.Helper()
	return either(b, release43, 8192, wire.FrameMinSize)
}

func tuneSmallestFrameMax(_ *testing.T, b *Bench) {
	r := b.Raw()
	r.Login()
	smallest := smallestFrameMax(b)
	r.Open(&wire.ConnectionTuneOK{ChannelMax: channelMax, FrameMax: uint32(smallest)})
	r.OpenChannel(1)
	r.Queue("q")
	body := bytes.Repeat([]byte("0123456789"), 1000)
	r.Write(wire.AppendContent(r.encode(1, &wire.BasicPublish{RoutingKey: "q"}), 1, wire.ClassBasic, wire.Properties{}.Append(nil), body, smallest))
	// The reader refuses larger frames.
	r.reader = wire.NewReader(r.conn, smallest-wire.FrameOverhead)
	_, got := r.Get("q")
	Equal(b, "body", string(got), string(body))
}

// tuneRefused is a case in which the broker does not like what the client chose, and leaves without a word.
func tuneRefused(tune *wire.ConnectionTuneOK) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		r := b.Raw()
		r.Login()
		r.Send(0, tune)
		r.WantEnd()
	}
}

// beating opens a connection with heartbeats of one second.
func (b *Bench) beating() *Raw {
	b.t.Helper()
	r := b.Raw()
	r.Login()
	r.Open(&wire.ConnectionTuneOK{ChannelMax: channelMax, FrameMax: frameMax, Heartbeat: 1})
	return r
}

// heartbeat reads the next frame, which has to be a heartbeat.
func (r *Raw) heartbeat() {
	r.b.t.Helper()
	f, err := r.reader.Next()
	if err != nil || f.Type != wire.FrameHeartbeat || f.Channel != 0 || len(f.Payload) > 0 {
		r.b.t.Fatalf("got frame %+v, %v, want a heartbeat", f, err)
	}
}

func heartbeatsAreSent(_ *testing.T, b *Bench) {
	r := b.beating()
	r.heartbeat()
	r.heartbeat()
}

func heartbeatsMissed(_ *testing.T, b *Bench) {
	b.beating().WantEnd()
}

// heartbeatsKeepAlive answers each of the broker's heartbeats for longer than it would wait for one.
func heartbeatsKeepAlive(_ *testing.T, b *Bench) {
	r := b.beating()
	for range 8 {
		r.heartbeat()
		r.Write(wire.AppendHeartbeat(nil))
	}
	r.OpenChannel(1)
}

func openTwice(_ *testing.T, b *Bench) {
	r := b.RawOpen()
	r.Send(0, &wire.ConnectionOpen{VirtualHost: b.Name})
	r.WantConnectionClose(504, "CHANNEL_ERROR - unexpected method in connection state running", wire.IDConnectionOpen)
}

func openBeforeTuneOK(_ *testing.T, b *Bench) {
	r := b.Raw()
	r.Login()
	r.Send(0, &wire.ConnectionOpen{VirtualHost: b.Name})
	r.WantEnd()
}

func channelBeforeOpen(_ *testing.T, b *Bench) {
	r := b.Raw()
	r.Login()
	r.Send(0, &wire.ConnectionTuneOK{ChannelMax: channelMax, FrameMax: frameMax})
	r.Send(1, &wire.ChannelOpen{})
	r.WantConnectionClose(505, "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>", 0)
}

func channelBeforeLogin(_ *testing.T, b *Bench) {
	r := b.Raw()
	r.Start()
	r.Send(1, &wire.ChannelOpen{})
	r.WantEnd()
}

func closeConnection(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Send(0, &wire.ConnectionClose{ReplyCode: 200, ReplyText: "done"})
	Expect[*wire.ConnectionCloseOK](r, 0)
}

func closeRequeues(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("q", nil)
	ch.Send("", "q", "given back")
	r := b.RawChannel()
	r.Send(1, &wire.BasicGet{Queue: "q"})
	Expect[*wire.BasicGetOK](r, 1)
	r.Content(1)
	r.Send(0, &wire.ConnectionClose{})
	Expect[*wire.ConnectionCloseOK](r, 0)
	b.WantDelivery(ch.Deliveries("q"), "given back")
}

// A program publishes on one channel while it closes the connection in another thread: what comes behind the close is read and discarded.
func closeWhileOthersPublish(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Queue("q")
	r.Send(0, &wire.ConnectionClose{ReplyCode: 200, ReplyText: "done"})
	message := wire.AppendContent(r.encode(1, &wire.BasicPublish{RoutingKey: "q"}), 1, wire.ClassBasic, wire.Properties{}.Append(nil), make([]byte, 64<<10), frameMax)
	for range 64 {
		_, err := r.conn.Write(message)
		b.Must(err)
	}
	Expect[*wire.ConnectionCloseOK](r, 0)
	b.Must(r.conn.Close())
	ch := b.Channel()
	q, err := ch.QueueDeclarePassive("q", false, false, false, false, nil)
	b.Must(err)
	Equal(b, "messages that came behind the close", q.Messages, 0)
}

func closeOKUnasked(_ *testing.T, b *Bench) {
	r := b.RawOpen()
	r.Send(0, &wire.ConnectionCloseOK{})
	r.WantConnectionClose(504, "CHANNEL_ERROR - unexpected method in connection state running", wire.IDConnectionCloseOK)
}

// broken opens a connection that the broker has closed because of a second connection.open.
func broken(r *Raw) {
	r.b.t.Helper()
	r.Send(0, &wire.ConnectionOpen{VirtualHost: r.b.Name})
	r.wantConnectionClose(504, "CHANNEL_ERROR - unexpected method in connection state running", wire.IDConnectionOpen)
}

func closeCrossesException(_ *testing.T, b *Bench) {
	r := b.RawOpen()
	broken(r)
	r.Send(0, &wire.ConnectionClose{})
	Expect[*wire.ConnectionCloseOK](r, 0)
	r.Send(0, &wire.ConnectionCloseOK{})
	r.WantEnd()
}

func framesAfterException(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	broken(r)
	r.Send(1, &wire.QueueDeclare{Queue: "ignored", Durable: true}, &wire.ChannelOpen{})
	r.Send(0, &wire.ConnectionOpen{VirtualHost: b.Name}, &wire.ConnectionCloseOK{})
	r.WantEnd()
	b.QueueGone("ignored")
}

func exceptionUnanswered(_ *testing.T, b *Bench) {
	r := b.beating()
	broken(r)
	r.WantEnd()
}

func updateSecret(_ *testing.T, b *Bench) {
	conn := b.Connect()
	b.Must(conn.UpdateSecret("new secret", "rotated"))
	conn.Channel().Sync()
}

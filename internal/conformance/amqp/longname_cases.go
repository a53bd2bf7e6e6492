package amqp

import (
	"strings"
	"testing"

	"github.com/rehop/rehop/internal/wire"
)

// longName has 254 bytes, of which 2 are a character each.
var longName = strings.Repeat("é", 127)

func passiveQueue(name string) wire.Method { return &wire.QueueDeclare{Queue: name, Passive: true} }

func invalidQueue(name string) wire.Method {
	return &wire.QueueDeclare{Queue: name, Durable: true, Arguments: wire.Table{{Key: "x-max-length", Value: int32(-1)}}}
}

func passiveExchange(name string) wire.Method {
	return &wire.ExchangeDeclare{Exchange: name, Type: "direct", Passive: true}
}

func publishTo(name string) wire.Method { return &wire.BasicPublish{Exchange: name} }

// refusesLongName is a case in which a long name that is not ASCII is in the text of an exception, after a beginning. Before 4.0 the text is cut to
// 255 bytes. Later it is cut to 255 characters, which do not fit the exception, and the connection is closed.
func refusesLongName(code uint16, begin string, method func(name string) wire.Method) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		r := b.RawChannel()
		// The cut is between two characters: other texts would not be UTF-8.
		name := strings.Repeat("x", (wire.MaxShort-len(ending)-len(begin))%2) + longName
		m := method(name)
		if publish, ok := m.(*wire.BasicPublish); ok {
			r.Publish(1, publish, wire.Properties{}, nil)
		} else {
			r.Send(1, m)
		}
		if b.Since(release40) {
			r.WantConnectionClose(wire.InternalError, "INTERNAL_ERROR", 0)
			return
		}
		r.WantChannelClose(1, code, shortened(begin+name), m.ID())
		r.OpenChannel(2)
	}
}

// A text of 255 bytes arrives in every release, and so does one that is not ASCII only behind what is cut.
func longNameWithinLimit(_ *testing.T, b *Bench) {
	const begin, tail = "NOT_FOUND - no queue '", "' in vhost '{vhost}'"
	r := b.RawChannel()
	fits := strings.Repeat("x", wire.MaxShort-len("é")-len(begin)-len(b.expand(tail))) + "é"
	r.Send(1, passiveQueue(fits))
	r.WantChannelClose(1, wire.NotFound, begin+fits+tail, wire.IDQueueDeclare)
	r.OpenChannel(2)
	cut := strings.Repeat("x", wire.MaxShort-len("é")) + "é"
	r.Send(2, passiveQueue(cut))
	r.WantChannelClose(2, wire.NotFound, shortened(begin+cut), wire.IDQueueDeclare)
	r.OpenChannel(3)
}

// ending is that of a text that was cut.
const ending = "..."

// shortened is a text that is cut to 255 bytes.
func shortened(text string) string { return text[:wire.MaxShort-len(ending)] + ending }

// From 4.0 on the broker hangs up if it cannot name the virtual host.
func longNameOfVhost(_ *testing.T, b *Bench) {
	if !b.Since(release40) {
		openVhost(b, longName, shortened("NOT_ALLOWED - vhost "+longName))
		return
	}
	r := b.Raw()
	r.Login()
	r.Send(0, &wire.ConnectionTuneOK{ChannelMax: channelMax, FrameMax: frameMax}, &wire.ConnectionOpen{VirtualHost: longName})
	r.WantEnd()
}

package amqp

import (
	"testing"

	"github.com/rehop/rehop/internal/wire"
)

const (
	channelReference = "AMQP 0-9-1 reference: channel"
	channelsPage     = "Channels"
)

func channelCases() []Case {
	return []Case{
		{"OpenAndClose", channelReference + ".open", channelOpenAndClose},
		{"ReopenAfterClose", channelReference + ".close", channelReopen},
		{"ReopenAfterException", channelsPage + ": Channel Exceptions", channelReopenAfterException},
		{"OpenTwice", channelReference + ".open, busy", channelOpenTwice},
		{"UseUnopened", channelReference + ".open", channelUseUnopened},
		{"CloseUnopened", channelReference + ".close", channelCloseUnopened},
		{"AnyNumber", channelsPage, channelAnyNumber},
		{"Many", channelsPage, channelMany},
		{"MaxNegotiated", "Channels: Maximum Number of Channels per Connection", channelMaxNegotiated},
		{"MaxCountsOpenOnes", "Channels: Maximum Number of Channels per Connection", channelMaxCountsOpen},
		{"ExceptionLeavesOthers", channelsPage + ": Channel Exceptions", channelExceptionLeavesOthers},
		{"ExceptionNamesMethod", channelReference + ".close, class-id", channelExceptionNamesMethod},
		{"IgnoresMethodsAfterException", channelsPage + ": Channel Exceptions", channelIgnoresMethods},
		{"CloseCrossesException", channelReference + ".close", channelCloseCrosses},
		{"PipelinedMethods", "specification 4.7, Channel Ordering", channelPipelined},
		{"InterleavedContents", "specification 4.2.6, Content Framing", channelInterleaved},
		{"FlowOn", channelReference + ".flow", channelFlowOn},
		{"FlowOff", "Specification differences: channel.flow", channelFlowOff},
		{"AccessRequest", "Specification differences: access.request", channelAccessRequest},
		{"ConnectionMethod", channelReference, channelConnectionMethod},
		{"ServersMethod", channelReference, channelServersMethod},
	}
}

func channelOpenAndClose(_ *testing.T, b *Bench) {
	r := b.RawOpen()
	r.OpenChannel(1)
	r.Send(1, &wire.ChannelClose{ReplyCode: 200, ReplyText: "done"})
	Expect[*wire.ChannelCloseOK](r, 1)
}

func channelReopen(_ *testing.T, b *Bench) {
	r := b.RawOpen()
	for range 3 {
		r.OpenChannel(7)
		r.Send(7, &wire.ChannelClose{})
		Expect[*wire.ChannelCloseOK](r, 7)
	}
}

// fail makes an exception on a channel: a look at a queue that is missing.
func (r *Raw) fail(channel uint16) {
	r.b.t.Helper()
	r.Send(channel, &wire.QueueDeclare{Queue: "missing", Passive: true})
}

const missing = "NOT_FOUND - no queue 'missing' in vhost '{vhost}'"

func channelReopenAfterException(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.fail(1)
	r.WantChannelClose(1, 404, missing, wire.IDQueueDeclare)
	r.OpenChannel(1)
	r.Sync()
}

func channelOpenTwice(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Send(1, &wire.ChannelOpen{})
	r.WantConnectionClose(504, "CHANNEL_ERROR - second 'channel.open' seen", wire.IDChannelOpen)
}

func channelUseUnopened(_ *testing.T, b *Bench) {
	r := b.RawOpen()
	r.Send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	r.WantConnectionClose(504, "CHANNEL_ERROR - expected 'channel.open'", wire.IDQueueDeclare)
}

func channelCloseUnopened(_ *testing.T, b *Bench) {
	r := b.RawOpen()
	r.Send(1, &wire.ChannelClose{})
	r.WantConnectionClose(504, "CHANNEL_ERROR - expected 'channel.open'", wire.IDChannelClose)
}

func channelAnyNumber(_ *testing.T, b *Bench) {
	r := b.RawOpen()
	// The number may even be above channel-max, which limits how many there are.
	for _, number := range []uint16{2047, 1, 65535, 300} {
		r.OpenChannel(number)
	}
}

func channelMany(_ *testing.T, b *Bench) {
	r := b.RawOpen()
	var frames []byte
	for number := uint16(1); number <= 200; number++ {
		frames = append(frames, r.encode(number, &wire.ChannelOpen{})...)
	}
	r.Write(frames)
	opened := make(map[uint16]bool)
	for range 200 {
		opened[r.Next().Channel] = true
	}
	Equal(b, "channels opened", len(opened), 200)
}

func channelMaxNegotiated(_ *testing.T, b *Bench) {
	r := b.Raw()
	r.Login()
	r.Open(&wire.ConnectionTuneOK{ChannelMax: 2, FrameMax: frameMax})
	r.OpenChannel(1)
	r.OpenChannel(2)
	r.Send(3, &wire.ChannelOpen{})
	r.WantConnectionClose(530, "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)", 0)
}

func channelMaxCountsOpen(_ *testing.T, b *Bench) {
	r := b.Raw()
	r.Login()
	r.Open(&wire.ConnectionTuneOK{ChannelMax: 1, FrameMax: frameMax})
	for number := uint16(1); number <= 3; number++ {
		r.OpenChannel(number)
		r.Send(number, &wire.ChannelClose{})
		Expect[*wire.ChannelCloseOK](r, number)
	}
}

func channelExceptionLeavesOthers(_ *testing.T, b *Bench) {
	conn := b.Connect()
	other, failing := conn.Channel(), conn.Channel()
	other.Queue("q", nil)
	deliveries := other.Deliveries("q")
	_, err := failing.QueueDeclarePassive("missing", false, false, false, false, nil)
	b.Refused(err, 404, missing)
	other.Send("", "q", "still alive")
	b.WantDelivery(deliveries, "still alive")
}

func channelExceptionNamesMethod(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Send(1, &wire.BasicGet{Queue: "missing"})
	r.WantChannelClose(1, 404, missing, wire.IDBasicGet)
	r.OpenChannel(1)
	r.Publish(1, &wire.BasicPublish{Exchange: "missing"}, wire.Properties{}, nil)
	r.WantChannelClose(1, 404, "NOT_FOUND - no exchange 'missing' in vhost '{vhost}'", wire.IDBasicPublish)
}

func channelIgnoresMethods(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.fail(1)
	Expect[*wire.ChannelClose](r, 1)
	r.Send(1, &wire.QueueDeclare{Queue: "ignored", Durable: true}, &wire.BasicAck{DeliveryTag: 99})
	r.Publish(1, &wire.BasicPublish{Exchange: "missing"}, wire.Properties{}, []byte("ignored"))
	r.Send(1, &wire.ChannelCloseOK{})
	r.OpenChannel(1)
	r.Send(1, &wire.QueueDeclare{Queue: "ignored", Passive: true})
	r.WantChannelClose(1, 404, "NOT_FOUND - no queue 'ignored' in vhost '{vhost}'", wire.IDQueueDeclare)
}

func channelCloseCrosses(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Send(1, &wire.QueueDeclare{Queue: "missing", Passive: true}, &wire.ChannelClose{})
	Expect[*wire.ChannelClose](r, 1)
	Expect[*wire.ChannelCloseOK](r, 1)
	r.Send(1, &wire.ChannelCloseOK{})
	r.OpenChannel(1)
}

func channelPipelined(_ *testing.T, b *Bench) {
	r := b.RawOpen()
	frames := r.encode(1, &wire.ChannelOpen{}, &wire.QueueDeclare{Queue: "q", Durable: true}, &wire.QueueBind{Queue: "q", Exchange: "amq.fanout"},
		&wire.BasicPublish{Exchange: "amq.fanout"})
	frames = wire.AppendContent(frames, 1, wire.ClassBasic, wire.Properties{}.Append(nil), []byte("piped"), frameMax)
	r.Write(append(frames, r.encode(1, &wire.BasicGet{Queue: "q", NoAck: true}, &wire.ChannelClose{})...))
	Expect[*wire.ChannelOpenOK](r, 1)
	Expect[*wire.QueueDeclareOK](r, 1)
	Expect[*wire.QueueBindOK](r, 1)
	Expect[*wire.BasicGetOK](r, 1)
	_, body := r.Content(1)
	Equal(b, "body", string(body), "piped")
	Expect[*wire.ChannelCloseOK](r, 1)
}

func channelInterleaved(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.OpenChannel(2)
	r.Queue("q")
	r.Send(2, &wire.ConfirmSelect{})
	Expect[*wire.ConfirmSelectOK](r, 2)
	publish := &wire.BasicPublish{RoutingKey: "q"}
	one := wire.AppendContent(nil, 1, wire.ClassBasic, wire.Properties{}.Append(nil), []byte("one"), frameMax)
	r.Send(1, publish)
	r.Publish(2, publish, wire.Properties{}, []byte("two"))
	Expect[*wire.BasicAck](r, 2)
	r.Write(one)
	_, body := r.Get("q")
	Equal(b, "first body", string(body), "two")
	_, body = r.Get("q")
	Equal(b, "second body", string(body), "one")
}

func channelFlowOn(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Send(1, &wire.ChannelFlow{Active: true})
	Equal(b, "active", Expect[*wire.ChannelFlowOK](r, 1).Active, true)
}

func channelFlowOff(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Send(1, &wire.ChannelFlow{Active: false})
	r.WantConnectionClose(540, "NOT_IMPLEMENTED - active=false", wire.IDChannelFlow)
}

func channelAccessRequest(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Send(1, &wire.AccessRequest{})
	Equal(b, "ticket", Expect[*wire.AccessRequestOK](r, 1).Ticket, 1)
}

func channelConnectionMethod(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Send(1, &wire.ConnectionClose{})
	r.WantConnectionClose(503, "COMMAND_INVALID - unimplemented method", wire.IDConnectionClose)
}

func channelServersMethod(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Send(1, &wire.QueueDeclareOK{Queue: "q"})
	r.WantConnectionClose(503, "COMMAND_INVALID - unimplemented method", wire.IDQueueDeclareOK)
}

package broker_test

import (
	"sync"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/session"
	"github.com/rehop/rehop/internal/wire"
)

// Check can be called at any time, before the server has started and while it starts.
func TestCheckWhileStarting(t *testing.T) {
	server := start(t, &broker.Server{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := server.Check(); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if err := server.Start(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// The messages of publishers and their confirms are counted, for the channel and for its virtual host.
func TestTraffic(t *testing.T) {
	server := start(t, &broker.Server{Dir: t.TempDir()})
	p := enter(t, dial(t, server))
	p.sendMethods(1, &wire.QueueDeclare{Queue: "q", Durable: true, Arguments: wire.Table{{Key: "x-max-length", Value: int32(2)}, {Key: "x-overflow", Value: "reject-publish"}}},
		&wire.ConfirmSelect{}, &wire.BasicGet{Queue: "q"})
	expect[*wire.QueueDeclareOK](p)
	expect[*wire.ConfirmSelectOK](p)
	expect[*wire.BasicGetEmpty](p)
	for range 3 { // the last is refused
		p.publish("", "q", wire.Properties{DeliveryMode: 2}, []byte("body"))
	}
	frames := wire.AppendMethod(nil, 1, &wire.BasicPublish{RoutingKey: "nowhere", Mandatory: true})
	p.send(wire.AppendContent(frames, 1, wire.ClassBasic, wire.Properties{}.Append(nil), nil, 128<<10))
	for last := uint64(0); last < 4; {
		m, err := p.method()
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *wire.BasicAck:
			last = m.DeliveryTag
		case *wire.BasicNack:
			last = m.DeliveryTag
		}
	}
	n, err := access.Start(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := node.Traffic{Received: 4, Awaited: 4, Published: 4, Confirmed: 3, Routed: 3, Returned: 1}
	if got := n.Vhost("/").Traffic(); got != want {
		t.Errorf("virtual host: got %+v, want %+v", got, want)
	}
	statuses := session.ChannelStatuses(t.Context(), n.Connections())
	if len(statuses) != 1 || statuses[0].Traffic != want {
		t.Errorf("channel: got %+v, want one with %+v", statuses, want)
	}
	if got := n.Vhost("/").Queue("q").Status().Totals; got.GotNothing != 1 || got.Published != 2 {
		t.Errorf("queue: got %+v, want one get of nothing and 2 published", got)
	}
	if got := n.Connections()[0].ReceivedBytes(); got < 4*uint64(len(frames)) {
		t.Errorf("connection: got %d bytes received, want at least those of 4 messages", got)
	}
}

// What a channel returns when its connection ends is not delivered to a consumer that ends with it, and that would lose it
// because it acknowledges automatically. RabbitMQ leaves this to chance.
func TestEndingConsumerGetsNothing(t *testing.T) {
	server := start(t, &broker.Server{})
	for range 50 {
		p := enter(t, dial(t, server))
		p.sendMethods(1, &wire.QueueDeclare{Queue: "q", Durable: true})
		expect[*wire.QueueDeclareOK](p)
		p.publish("", "q", wire.Properties{}, []byte("held"))
		p.sendMethods(1, &wire.BasicGet{Queue: "q"})
		expect[*wire.BasicGetOK](p)
		p.sendMethods(2, &wire.ChannelOpen{}, &wire.BasicConsume{Queue: "q", NoAck: true})
		expect[*wire.ChannelOpenOK](p)
		expect[*wire.BasicConsumeOK](p)
		p.sendMethods(0, &wire.ConnectionClose{ReplyCode: 200})
		expect[*wire.ConnectionCloseOK](p)

		next := enter(t, dial(t, server))
		next.sendMethods(1, &wire.BasicConsume{Queue: "q", NoAck: true})
		expect[*wire.BasicConsumeOK](next)
		expect[*wire.BasicDeliver](next)
		next.sendMethods(0, &wire.ConnectionClose{ReplyCode: 200})
		expect[*wire.ConnectionCloseOK](next)
	}
}

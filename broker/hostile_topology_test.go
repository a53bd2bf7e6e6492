package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/conformance/await"
	"github.com/rehop/rehop/internal/wire"
)

// Declarations, bindings and consumers with large arguments are refused when they use half of the memory, or a quarter by consumers. Deleting helps.
func TestHostileTopology(t *testing.T) {
	const limit = 32 << 20
	long := wire.Table{{Key: "long", Value: strings.Repeat("x", 100_000)}}
	var many wire.Table
	for i := range 4000 {
		many = append(many, wire.Field{Key: fmt.Sprint(i), Value: int32(i)})
	}
	for name, c := range map[string]struct {
		args   wire.Table
		method func(i int, args wire.Table) wire.Method
		undo   func(i int, args wire.Table) wire.Method
	}{
		"bindings": {long, func(i int, args wire.Table) wire.Method {
			return &wire.QueueBind{Queue: "q", Exchange: "amq.direct", RoutingKey: fmt.Sprint(i), Arguments: args}
		}, func(i int, args wire.Table) wire.Method {
			return &wire.QueueUnbind{Queue: "q", Exchange: "amq.direct", RoutingKey: fmt.Sprint(i), Arguments: args}
		}},
		"bindings of headers": {many, func(i int, args wire.Table) wire.Method {
			return &wire.QueueBind{Queue: "q", Exchange: "amq.headers", RoutingKey: fmt.Sprint(i), Arguments: args}
		}, func(i int, args wire.Table) wire.Method {
			return &wire.QueueUnbind{Queue: "q", Exchange: "amq.headers", RoutingKey: fmt.Sprint(i), Arguments: args}
		}},
		"consumers": {many, func(i int, args wire.Table) wire.Method {
			return &wire.BasicConsume{Queue: "q", ConsumerTag: fmt.Sprint(i), Arguments: args}
		}, func(i int, _ wire.Table) wire.Method { return &wire.BasicCancel{ConsumerTag: fmt.Sprint(i)} }},
		"queues": {nil, func(i int, _ wire.Table) wire.Method {
			return &wire.QueueDeclare{Queue: fmt.Sprint(i), Durable: true}
		}, func(i int, _ wire.Table) wire.Method { return &wire.QueueDelete{Queue: fmt.Sprint(i)} }},
		"exchanges": {long, func(i int, args wire.Table) wire.Method {
			return &wire.ExchangeDeclare{Exchange: fmt.Sprint(i), Type: "fanout", Arguments: args}
		}, func(i int, _ wire.Table) wire.Method { return &wire.ExchangeDelete{Exchange: fmt.Sprint(i)} }},
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t, &broker.Server{MemoryLimit: limit})
			p := enter(t, dial(t, server))
			p.sendMethods(1, &wire.QueueDeclare{Queue: "q", Durable: true})
			expect[*wire.QueueDeclareOK](p)
			before := heap()
			const most = 2000
			made := 0
			var refused *wire.ChannelClose
			for made < most && refused == nil {
				p.sendMethods(1, c.method(made, c.args))
				m, err := p.method()
				if err != nil {
					t.Fatal(err)
				}
				if refused, _ = m.(*wire.ChannelClose); refused == nil {
					made++
				}
			}
			bounded(t, before, limit)
			if refused == nil || refused.ReplyCode != wire.PreconditionFailed || !strings.Contains(refused.ReplyText, "memory") {
				t.Fatalf("after %d: got %+v, want a refusal that tells of memory", made, refused)
			}
			t.Logf("%d were made, the heap grew by %d KiB", made, (heap()-before)>>10)
			p.sendMethods(1, &wire.ChannelCloseOK{}, &wire.ChannelOpen{})
			expect[*wire.ChannelOpenOK](p)
			if name == "consumers" {
				made = 1 // the others were closed with the channel
			}
			for i := range made {
				p.sendMethods(1, c.undo(i, c.args))
				if _, err := p.method(); err != nil {
					t.Fatal(err)
				}
			}
			p.sendMethods(1, c.method(0, c.args))
			if m, err := p.method(); err != nil || m.ID() == wire.IDChannelClose {
				t.Fatalf("after all were deleted: got %+v, %v, want that one can be made", m, err)
			}
			serves(t, dial(t, server))
		})
	}
}

// Neither queues nor consumers of others prevent a queue from being consumed, because only that frees memory.
func TestCrowdedQueueCanBeDrained(t *testing.T) {
	server := start(t, &broker.Server{MemoryLimit: 8 << 20})
	p := enter(t, dial(t, server))
	// ask returns the refusal, if any, and opens the channel again.
	ask := func(m wire.Method) *wire.ChannelClose {
		t.Helper()
		p.sendMethods(1, m)
		answer, err := p.method()
		if err != nil {
			t.Fatal(err)
		}
		refused, _ := answer.(*wire.ChannelClose)
		if refused != nil {
			p.sendMethods(1, &wire.ChannelCloseOK{}, &wire.ChannelOpen{})
			expect[*wire.ChannelOpenOK](p)
		}
		return refused
	}
	must := func(when string, m wire.Method) {
		t.Helper()
		if refused := ask(m); refused != nil {
			t.Fatalf("%s: %s", when, refused.ReplyText)
		}
	}
	crowded := func(when string, refused *wire.ChannelClose) {
		t.Helper()
		if refused == nil || refused.ReplyCode != wire.PreconditionFailed || !strings.Contains(refused.ReplyText, "memory") {
			t.Fatalf("%s: got %+v, want a refusal that tells of memory", when, refused)
		}
	}
	const most = 10_000
	for _, q := range []string{"work", "other"} {
		must("at first", &wire.QueueDeclare{Queue: q, Durable: true})
	}
	var refused *wire.ChannelClose
	for i := 0; i < most && refused == nil; i++ {
		refused = ask(&wire.QueueDeclare{Queue: fmt.Sprint(i), Durable: true})
	}
	crowded("many queues", refused)
	must("queues take half of the memory", &wire.BasicConsume{Queue: "work", ConsumerTag: "c"})
	must("queues take half of the memory", &wire.BasicCancel{ConsumerTag: "c"})

	// A refused consumer closes its channel with all its consumers, so another channel asks.
	large := wire.Table{{Key: "large", Value: strings.Repeat("x", 10_000)}}
	hog := enter(t, dial(t, server))
	for i := range most {
		if refused = ask(&wire.BasicConsume{Queue: "other", ConsumerTag: "probe", Arguments: large}); refused != nil {
			break
		}
		must("it consumes", &wire.BasicCancel{ConsumerTag: "probe"})
		hog.sendMethods(1, &wire.BasicConsume{Queue: "other", ConsumerTag: fmt.Sprint(i), Arguments: large})
		expect[*wire.BasicConsumeOK](hog)
	}
	crowded("many consumers", refused)
	crowded("a queue that is consumed", ask(&wire.BasicConsume{Queue: "other", ConsumerTag: "c"}))
	crowded("large arguments", ask(&wire.BasicConsume{Queue: "work", ConsumerTag: "c", Arguments: large}))
	usual := wire.Table{{Key: "x-priority", Value: int32(1)}}
	must("consumers take a quarter of the memory", &wire.BasicConsume{Queue: "work", ConsumerTag: "c", Arguments: usual})
	crowded("a second consumer", ask(&wire.BasicConsume{Queue: "work", ConsumerTag: "d", Arguments: usual}))
}

// Routes that connections cache are counted, have a bound for all connections together, and go with their connections.
func TestRoutesAreCounted(t *testing.T) {
	const limit = 32 << 20
	server := start(t, &broker.Server{MemoryLimit: limit})
	n := engine(t, server)
	fresh, _ := n.Memory()
	before := heap()
	peers := make([]*peer, 20)
	for i := range peers {
		peers[i] = enter(t, dial(t, server))
		for j := range 1000 {
			peers[i].publish("amq.fanout", fmt.Sprintf("%0250d", j), wire.Properties{}, nil)
		}
		peers[i].sendMethods(1, &wire.QueueDeclare{Queue: "q", Durable: true}) // all were published when it is answered
		expect[*wire.QueueDeclareOK](peers[i])
	}
	used, _ := n.Memory()
	if used -= fresh; used < limit/16 || used > limit/8+limit/16 {
		t.Errorf("%d KiB are counted, want about %d", used>>10, limit/8>>10)
	}
	bounded(t, before, limit/4)
	for _, p := range peers {
		p.sendMethods(0, &wire.ConnectionClose{ReplyCode: wire.ReplySuccess})
		for _, err := p.method(); err == nil; _, err = p.method() {
		}
	}
	await.True(t, time.Minute, time.Millisecond, "no routes are counted at the end", func() bool { return n.MemoryUse.Routes.Load() == 0 })
}

// Deleted things are not counted any more, however they were deleted.
func TestTopologyIsCountedUntilItGoes(t *testing.T) {
	server := start(t, &broker.Server{})
	engine, err := access.Start(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	used := func() int64 {
		all, _ := engine.Memory()
		return all
	}
	long := wire.Table{{Key: "long", Value: strings.Repeat("x", 10_000)}}
	declare := func(p *peer, exclusive bool) {
		t.Helper()
		for _, m := range []wire.Method{
			&wire.QueueDeclare{Queue: "q", Durable: !exclusive, Exclusive: exclusive}, &wire.ExchangeDeclare{Exchange: "x", Type: "topic", Arguments: long},
			&wire.ExchangeDeclare{Exchange: "y", Type: "headers", AutoDelete: true}, &wire.QueueBind{Queue: "q", Exchange: "x", RoutingKey: "a.b", Arguments: long},
			&wire.QueueBind{Queue: "q", Exchange: "x", RoutingKey: "a.b", Arguments: long}, &wire.QueueBind{Queue: "q", Exchange: "y", Arguments: long},
			&wire.ExchangeBind{Source: "x", Destination: "y", RoutingKey: "#", Arguments: long}, &wire.BasicConsume{Queue: "q", ConsumerTag: "c", Arguments: long},
		} {
			p.sendMethods(1, m)
			if _, err := p.method(); err != nil {
				t.Fatal(err)
			}
		}
	}
	undo := func(p *peer, methods ...wire.Method) {
		t.Helper()
		for _, m := range methods {
			p.sendMethods(1, m)
			if answer, err := p.method(); err != nil || answer.ID() == wire.IDChannelClose {
				t.Fatalf("%s: got %v, %v", m.ID(), answer, err)
			}
		}
	}
	fresh := used()
	for name, end := range map[string]func(p *peer){
		"one by one": func(p *peer) {
			undo(p, &wire.BasicCancel{ConsumerTag: "c"}, &wire.QueueUnbind{Queue: "q", Exchange: "x", RoutingKey: "a.b", Arguments: long}, &wire.QueueDelete{Queue: "q"}, &wire.ExchangeDelete{Exchange: "x"})
		},
		"the exchange first": func(p *peer) { undo(p, &wire.ExchangeDelete{Exchange: "x"}, &wire.QueueDelete{Queue: "q"}) },
		"by the end of the connection": func(p *peer) {
			undo(p, &wire.ExchangeDelete{Exchange: "x"})
			p.sendMethods(0, &wire.ConnectionClose{ReplyCode: wire.ReplySuccess})
			for _, err := p.method(); err == nil; _, err = p.method() {
			}
		},
	} {
		p := enter(t, dial(t, server))
		declare(p, name == "by the end of the connection")
		if used() < fresh+8*10_000 {
			t.Errorf("%s: %d bytes are counted for what was made, want at least %d", name, used()-fresh, 8*10_000)
		}
		end(p)
		// The client that deletes is answered before the consumers are.
		await.True(t, time.Minute, time.Millisecond, name+": nothing is counted at the end", func() bool { return used() == fresh })
	}
	// A virtual host is deleted with everything in it.
	if err := engine.AddVhost("v"); err != nil {
		t.Fatal(err)
	}
	v := engine.Vhost("v")
	if _, err := v.DeclareQueue(node.QueueSpec{Name: "q", Durable: true, Arguments: long}); err != nil {
		t.Fatal(err)
	}
	if err := v.BindNamed(node.Binding{Source: "amq.topic", Destination: "q", Kind: "queue", Key: "#", Arguments: long}); err != nil {
		t.Fatal(err)
	}
	if err := v.BindNamed(node.Binding{Source: "amq.topic", Destination: "amq.fanout", Kind: "exchange", Key: "#", Arguments: long}); err != nil {
		t.Fatal(err)
	}
	if err := engine.DeleteVhost("v"); err != nil {
		t.Fatal(err)
	}
	if left := used() - fresh; left != 0 {
		t.Errorf("a virtual host: %d bytes are counted at the end, want none", left)
	}
}

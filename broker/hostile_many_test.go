package broker_test

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/wire"
)

// Idle connections use little memory, and none after they are closed.
func TestHostileCrowd(t *testing.T) {
	const crowd, each = 10_000, 32 << 10
	goroutines := runtime.NumGoroutine()
	server := &broker.Server{Logger: quiet()}
	serves(t, dial(t, server))
	before := heap()
	idle := make([]net.Conn, crowd)
	for i := range idle {
		idle[i] = dial(t, server)
		if _, err := idle[i].Write(login("guest", "guest")); err != nil {
			t.Fatal(err)
		}
	}
	serves(t, dial(t, server))
	bounded(t, before, crowd*each)
	for _, conn := range idle {
		_ = conn.Close()
	}
	shut(t, server)
	settled(t, goroutines)
	clear(idle)
	bounded(t, before, 32<<20)
}

func TestHostileChannels(t *testing.T) {
	t.Run("65,535 of them", func(t *testing.T) {
		server := start(t, &broker.Server{ChannelMax: 65535})
		before := heap()
		p := newPeer(t, dial(t, server))
		hello := login("guest", "guest")
		tune := wire.AppendMethod(nil, 0, &wire.ConnectionTuneOK{ChannelMax: 2047, FrameMax: 128 << 10})
		hello = []byte(strings.Replace(string(hello), string(tune), string(wire.AppendMethod(nil, 0, &wire.ConnectionTuneOK{ChannelMax: 65535, FrameMax: 128 << 10})), 1))
		p.send(hello)
		expect[*wire.ConnectionStart](p)
		expect[*wire.ConnectionTune](p)
		expect[*wire.ConnectionOpenOK](p)
		for n := 1; n <= 65535; n++ {
			p.sendMethods(uint16(n), &wire.ChannelOpen{})
			expect[*wire.ChannelOpenOK](p)
		}
		bounded(t, before, perPeer)
		serves(t, dial(t, server))
	})
	t.Run("more than agreed", func(t *testing.T) {
		server := start(t, &broker.Server{})
		p := enter(t, dial(t, server))
		for n := 2; n <= 2047; n++ {
			p.sendMethods(uint16(n), &wire.ChannelOpen{})
			expect[*wire.ChannelOpenOK](p)
		}
		p.sendMethods(2048, &wire.ChannelOpen{})
		if got, want := p.end(), closesConnection(530); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("opened and closed", func(t *testing.T) {
		server := start(t, &broker.Server{})
		p := enter(t, dial(t, server))
		before := heap()
		for range 20_000 {
			p.sendMethods(2, &wire.ChannelOpen{}, &wire.BasicQos{PrefetchCount: 1}, &wire.ChannelClose{})
			expect[*wire.ChannelOpenOK](p)
			expect[*wire.BasicQosOK](p)
			expect[*wire.ChannelCloseOK](p)
		}
		bounded(t, before, 8<<20)
	})
}

// With many queues and bindings, an operation on each takes no longer than with few.
func TestHostileNumbers(t *testing.T) {
	const many = 3000
	server := start(t, &broker.Server{})
	p := enter(t, dial(t, server))
	before := heap()
	each := func(step string, limit time.Duration, send func(i int) wire.Method) time.Duration {
		t.Helper()
		began := processorTime(t)
		for i := range many {
			p.sendMethods(1, send(i))
			if m, err := p.method(); err != nil {
				t.Fatalf("%s: %v", step, err)
			} else if refused, ok := m.(*wire.ChannelClose); ok {
				t.Fatalf("%s: %s", step, refused.ReplyText)
			}
		}
		took := processorTime(t) - began
		if limit > 0 && took > limit {
			t.Errorf("%s: %d took %v of the processor's time, want less than %v", step, many, took, limit)
		}
		return took
	}
	name := func(i int) string { return fmt.Sprintf("q%d", i) }
	declaring := each("declare", 0, func(i int) wire.Method { return &wire.QueueDeclare{Queue: name(i), Durable: true} })
	// No operation costs much more than a declaration, unless its cost grows with the number of queues.
	limit := 4*declaring + time.Second/2
	each("bind queues", limit, func(i int) wire.Method { return &wire.QueueBind{Queue: name(i), Exchange: "amq.fanout"} })
	each("bind keys", limit, func(i int) wire.Method {
		return &wire.QueueBind{Queue: name(0), Exchange: "amq.topic", RoutingKey: fmt.Sprintf("a.%d.#", i)}
	})
	each("consume", limit, func(i int) wire.Method { return &wire.BasicConsume{Queue: name(1), ConsumerTag: name(i)} })
	p.publish("amq.fanout", "", wire.Properties{}, []byte("for all"))
	p.publish("amq.topic", "a.7.b", wire.Properties{}, []byte("for one"))
	p.sendMethods(1, &wire.QueueDeclare{Queue: name(0), Passive: true})
	var ready uint32
	for answered := false; !answered; {
		m, err := p.method()
		if err != nil {
			t.Fatal(err)
		}
		if ok, is := m.(*wire.QueueDeclareOK); is {
			ready, answered = ok.MessageCount, true
		}
	}
	if ready != 2 {
		t.Errorf("%d messages have reached queue %q, want 2", ready, name(0))
	}
	bounded(t, before, 4*perPeer)
	each("cancel", limit, func(i int) wire.Method { return &wire.BasicCancel{ConsumerTag: name(i)} })
	each("unbind keys", limit, func(i int) wire.Method {
		return &wire.QueueUnbind{Queue: name(0), Exchange: "amq.topic", RoutingKey: fmt.Sprintf("a.%d.#", i)}
	})
	each("delete", limit, func(i int) wire.Method { return &wire.QueueDelete{Queue: name(i)} })
	serves(t, dial(t, server))
}

// Patterns with many # must not make matching slow. RabbitMQ 4.3 refuses them.
func TestHostilePatterns(t *testing.T) {
	server := start(t, &broker.Server{Compat: broker.RabbitMQ40})
	p := enter(t, dial(t, server))
	p.sendMethods(1, &wire.QueueDeclare{Queue: "q", Durable: true, Arguments: wire.Table{{Key: "x-max-length", Value: int32(1)}}})
	expect[*wire.QueueDeclareOK](p)
	for _, pattern := range []string{strings.Repeat("#.", 127) + "#", strings.Repeat("#.a.", 63) + "#", strings.Repeat("*.#.", 63) + "b", strings.Repeat("#.*.", 63) + "#", "#.nowhere"} {
		p.sendMethods(1, &wire.QueueBind{Queue: "q", Exchange: "amq.topic", RoutingKey: pattern})
		expect[*wire.QueueBindOK](p)
	}
	for i := range 100 {
		// Every key is new, so that no route is cached.
		p.publish("amq.topic", strings.Repeat("a.", 120)+fmt.Sprint(i), wire.Properties{}, nil)
	}
	// If each path through a pattern were tried, no time would be enough to get an answer.
	p.sendMethods(1, &wire.QueueDeclare{Queue: "q", Passive: true})
	expect[*wire.QueueDeclareOK](p)
}

// Dead letters that would cycle are dropped.
func TestHostileCycles(t *testing.T) {
	for name, argument := range map[string]wire.Field{
		"time to live of 0": {Key: "x-message-ttl", Value: int32(0)},
		"length of 0":       {Key: "x-max-length", Value: int32(0)},
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t, &broker.Server{})
			p := enter(t, dial(t, server))
			for from, to := range map[string]string{"alone": "alone", "one": "two", "two": "three", "three": "one"} {
				p.sendMethods(1, &wire.QueueDeclare{Queue: from, Durable: true, Arguments: wire.Table{argument, {Key: "x-dead-letter-exchange", Value: ""}, {Key: "x-dead-letter-routing-key", Value: to}}})
				expect[*wire.QueueDeclareOK](p)
			}
			for range 1000 {
				p.publish("", "alone", wire.Properties{}, []byte("round"))
				p.publish("", "one", wire.Properties{}, []byte("round"))
			}
			for _, q := range []string{"alone", "one", "two", "three"} {
				empty(p, q)
			}
			serves(t, dial(t, server))
		})
	}
	t.Run("exchanges", func(t *testing.T) {
		server := start(t, &broker.Server{})
		p := enter(t, dial(t, server))
		for _, x := range []string{"x", "y"} {
			other := map[string]string{"x": "y", "y": "x"}[x]
			p.sendMethods(1, &wire.ExchangeDeclare{Exchange: x, Type: "fanout", Arguments: wire.Table{{Key: "alternate-exchange", Value: other}}})
			expect[*wire.ExchangeDeclareOK](p)
		}
		p.sendMethods(1, &wire.ExchangeBind{Source: "x", Destination: "y"}, &wire.ExchangeBind{Source: "y", Destination: "x"}, &wire.ExchangeBind{Source: "x", Destination: "x"})
		for range 3 {
			expect[*wire.ExchangeBindOK](p)
		}
		p.publish("x", "", wire.Properties{}, nil)
		serves(t, dial(t, server))
	})
}

// empty waits until a queue is empty: a timer removes what has expired.
func empty(p *peer, queue string) {
	p.t.Helper()
	limit := time.After(hang)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		p.sendMethods(1, &wire.QueueDeclare{Queue: queue, Passive: true})
		left := expect[*wire.QueueDeclareOK](p).MessageCount
		if left == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			p.t.Fatalf("after %v queue %q still has %d messages, want none", hang, queue, left)
		}
	}
}

// A message that is dead-lettered by one queue after another reaches the last.
func TestHostileChain(t *testing.T) {
	const links = 600
	server := start(t, &broker.Server{})
	p := enter(t, dial(t, server))
	for i := range links {
		p.sendMethods(1, &wire.QueueDeclare{Queue: fmt.Sprint(i), Durable: true, Arguments: wire.Table{{Key: "x-message-ttl", Value: int32(0)},
			{Key: "x-dead-letter-exchange", Value: ""}, {Key: "x-dead-letter-routing-key", Value: fmt.Sprint(i + 1)}}})
		expect[*wire.QueueDeclareOK](p)
	}
	p.sendMethods(1, &wire.QueueDeclare{Queue: fmt.Sprint(links), Durable: true}, &wire.BasicConsume{Queue: fmt.Sprint(links), NoAck: true})
	expect[*wire.QueueDeclareOK](p)
	expect[*wire.BasicConsumeOK](p)
	before := heap()
	p.publish("", "0", wire.Properties{}, []byte("far"))
	_ = p.conn.SetDeadline(time.Now().Add(2 * hang))
	expect[*wire.BasicDeliver](p)
	bounded(t, before, perPeer)
	serves(t, dial(t, server))
}

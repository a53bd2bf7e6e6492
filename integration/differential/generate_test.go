package differential

import (
	"fmt"
	"math/rand/v2"

	"github.com/rehop/rehop/internal/wire"
)

// The names are few, so that steps meet.
var (
	queueNames    = []string{"q1", "q2", "q3", "q4"}
	exchangeNames = []string{"x1", "x2", "x3"}
	keys          = []string{"a", "b", "a.b", "a.b.a", "", "q1", "q2", "q3"}
	patterns      = []string{"a", "b", "a.*", "#", "*.b", "#.a", "a.#.a", "*", "", "q1"}
	consumerTags  = []string{"t1", "t2", "t3"}
)

// generator makes the steps of a seed. Every seed has a liking of its own, so that rare things also come in numbers.
type generator struct {
	*rand.Rand
	weights   []int // of the likings
	total     int
	queues    map[string]*wire.QueueDeclare    // as they are mostly declared
	exchanges map[string]*wire.ExchangeDeclare // as they are mostly declared
	quorum    bool
	newer     bool // RabbitMQ 4.3: every queue is durable or exclusive, and quorum queues have arguments of their own
	messages  int
}

// generate returns the steps of a seed. newer: for RabbitMQ 4.3, which refuses queues that are neither durable nor exclusive, and whose quorum
// queues can do more.
func generate(seed uint64, length int, newer bool) []step {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), queues: make(map[string]*wire.QueueDeclare), exchanges: make(map[string]*wire.ExchangeDeclare), newer: newer}
	g.quorum = g.IntN(5) == 0 || newer && g.IntN(3) == 0
	for _, l := range likings {
		weight := 1 + l.weight*g.IntN(4)
		g.weights = append(g.weights, weight)
		g.total += weight
	}
	for _, name := range queueNames {
		g.queues[name] = g.queue(name, g.IntN(3) > 0)
	}
	for _, name := range exchangeNames {
		g.exchanges[name] = g.exchange(name, g.IntN(4) == 0)
	}
	var steps []step
	for _, name := range queueNames {
		steps = append(steps, step{at: g.place(), method: &call{g.queues[name]}})
	}
	for _, name := range exchangeNames {
		steps = append(steps, step{at: g.place(), method: &call{g.exchanges[name]}})
	}
	for len(steps) < length {
		steps = append(steps, g.step())
	}
	return steps
}

// likings are how often things are done, before a seed's own taste.
var likings = []struct {
	what   string
	weight int
}{
	{"queue", 5}, {"exchange", 3}, {"bind", 6}, {"unbind", 2}, {"bind exchange", 2}, {"unbind exchange", 1}, {"publish", 20}, {"get", 6}, {"consume", 4},
	{"cancel", 2}, {"qos", 2}, {"answer", 12}, {"recover", 1}, {"purge", 1}, {"delete queue", 1}, {"delete exchange", 1}, {"confirm", 1}, {"select", 1},
	{"commit", 2}, {"rollback", 1}, {"end", 1},
}

func (g *generator) step() step {
	n := g.IntN(g.total)
	for i, l := range likings {
		if n -= g.weights[i]; n < 0 {
			return g.make(l.what)
		}
	}
	panic("the weights do not add up")
}

func (g *generator) make(what string) step {
	s := step{at: g.place()}
	do := func(m wire.Method) step {
		s.method = &call{m}
		return s
	}
	switch what {
	case "queue":
		name := g.pick(queueNames)
		switch g.IntN(8) {
		case 0:
			return do(g.queue(name, true))
		case 1:
			return do(&wire.QueueDeclare{Queue: g.oneOf(name, "", "missing", "amq.mine"), Passive: g.IntN(3) > 0, Exclusive: g.IntN(2) == 0, Durable: g.newer})
		}
		return do(g.queues[name])
	case "exchange":
		name := g.pick(exchangeNames)
		switch g.IntN(8) {
		case 0:
			return do(g.exchange(name, true))
		case 1:
			return do(&wire.ExchangeDeclare{Exchange: g.oneOf(name, "", "missing", "amq.mine", "amq.direct"), Type: g.oneOf("direct", "topic"), Passive: g.IntN(2) == 0, Durable: true})
		}
		return do(g.exchanges[name])
	case "bind":
		return do(&wire.QueueBind{Queue: g.aQueue(), Exchange: g.anExchange(), RoutingKey: g.pick(patterns), NoWait: g.IntN(10) == 0, Arguments: g.match()})
	case "unbind":
		return do(&wire.QueueUnbind{Queue: g.aQueue(), Exchange: g.anExchange(), RoutingKey: g.pick(patterns), Arguments: g.match()})
	case "bind exchange":
		return do(&wire.ExchangeBind{Destination: g.anExchange(), Source: g.anExchange(), RoutingKey: g.pick(patterns), NoWait: g.IntN(10) == 0, Arguments: g.match()})
	case "unbind exchange":
		return do(&wire.ExchangeUnbind{Destination: g.anExchange(), Source: g.anExchange(), RoutingKey: g.pick(patterns), Arguments: g.match()})
	case "publish":
		s.publish = g.publish()
		return s
	case "get":
		return do(&wire.BasicGet{Queue: g.aQueue(), NoAck: g.IntN(3) == 0})
	case "consume":
		return do(&wire.BasicConsume{Queue: g.aQueue(), ConsumerTag: g.oneOf(g.pick(consumerTags), g.pick(consumerTags), g.pick(consumerTags), ""), NoAck: g.IntN(4) == 0,
			NoLocal: g.IntN(8) == 0, Exclusive: g.IntN(8) == 0, NoWait: g.IntN(10) == 0, Arguments: g.consumerArguments()})
	case "cancel":
		return do(&wire.BasicCancel{ConsumerTag: g.pick(consumerTags), NoWait: g.IntN(6) == 0})
	case "qos":
		return do(&wire.BasicQos{PrefetchCount: uint16(g.IntN(4)), PrefetchSize: uint32(max(0, g.IntN(20)-18)), Global: g.IntN(4) == 0})
	case "answer":
		s.answer = &answer{verb: g.oneOf("ack", "ack", "nack", "reject"), pick: g.IntN(20), multiple: g.IntN(4) == 0, requeue: g.IntN(2) == 0}
		return s
	case "recover":
		if g.IntN(3) == 0 {
			return do(&wire.BasicRecoverAsync{Requeue: true})
		}
		return do(&wire.BasicRecover{Requeue: g.IntN(8) > 0})
	case "purge":
		return do(&wire.QueuePurge{Queue: g.aQueue(), NoWait: g.IntN(6) == 0})
	case "delete queue":
		return do(&wire.QueueDelete{Queue: g.aQueue(), IfUnused: g.IntN(3) == 0, IfEmpty: g.IntN(3) == 0, NoWait: g.IntN(6) == 0})
	case "delete exchange":
		return do(&wire.ExchangeDelete{Exchange: g.anExchange(), IfUnused: g.IntN(3) == 0, NoWait: g.IntN(6) == 0})
	case "confirm":
		return do(&wire.ConfirmSelect{NoWait: g.IntN(6) == 0})
	case "select":
		return do(&wire.TxSelect{})
	case "commit":
		return do(&wire.TxCommit{})
	case "rollback":
		return do(&wire.TxRollback{})
	}
	s.end = &end{g.oneOf(closeChannel, closeChannel, closeConnection, dropConnection)}
	return s
}

func (g *generator) place() place { return place{g.IntN(connections), g.IntN(channels)} }

func (g *generator) pick(from []string) string { return from[g.IntN(len(from))] }

func (g *generator) oneOf(from ...string) string { return g.pick(from) }

func (g *generator) aQueue() string {
	if g.IntN(20) == 0 {
		return g.oneOf("", "missing")
	}
	return g.pick(queueNames)
}

func (g *generator) anExchange() string {
	switch g.IntN(12) {
	case 0:
		return g.oneOf("", "missing")
	case 1, 2:
		return g.oneOf("amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match")
	}
	return g.pick(exchangeNames)
}

// queue makes a declaration, often one with arguments if it is to be special.
func (g *generator) queue(name string, special bool) *wire.QueueDeclare {
	m := &wire.QueueDeclare{Queue: name, Durable: g.IntN(2) == 0, AutoDelete: g.IntN(6) == 0, Exclusive: g.IntN(10) == 0, NoWait: g.IntN(12) == 0}
	m.Durable = m.Durable || g.newer
	if g.quorum && g.IntN(2) == 0 {
		m.Arguments = wire.Table{{Key: "x-queue-type", Value: "quorum"}}
		m.Durable, m.AutoDelete, m.Exclusive = true, false, false
	}
	for special && g.IntN(3) > 0 {
		m.Arguments = m.Arguments.With(g.argument())
	}
	return m
}

// argument is one that a queue may have, though not always a good one.
func (g *generator) argument() (string, any) {
	value := func(values ...any) any { return values[g.IntN(len(values))] }
	if g.newer && g.quorum && g.IntN(2) == 0 {
		const hour = int32(3_600_000)
		switch g.IntN(6) {
		case 0:
			return "x-delivery-limit", value(int32(-1), int32(0), int32(1), int32(2), "1", true)
		case 1, 2:
			return "x-delayed-retry-type", value("disabled", "all", "failed", "returned", "some", int32(1))
		case 3:
			return g.oneOf("x-delayed-retry-min", "x-delayed-retry-max"), value(hour, hour, 2*hour, int32(0), int32(-1), "1")
		case 4:
			return g.oneOf("x-consumer-timeout", "x-consumer-disconnected-timeout"), value(hour, int32(0), int32(-1), "1")
		}
		return "x-quorum-initial-group-size", value(int32(1), int32(3), int32(0), int32(-1), "1")
	}
	switch g.IntN(16) {
	case 0, 1:
		return "x-max-length", value(int32(0), int32(1), int64(2), int8(2), int32(3), int32(-1), "2")
	case 2:
		return "x-max-length-bytes", value(int32(4), int32(9), int64(0), int32(-5))
	case 3, 4:
		return "x-overflow", value("drop-head", "reject-publish", "reject-publish-dlx", "overflow")
	case 5, 6, 7:
		return "x-dead-letter-exchange", value("", "x1", "x2", "x3", "missing", "amq.fanout", int32(1))
	case 8:
		return "x-dead-letter-routing-key", value("q1", "q2", "q3", "a.b", true)
	case 9:
		return "x-max-priority", value(int32(1), int32(5), int32(255), int32(256), int32(-1), "5")
	case 10:
		return "x-single-active-consumer", value(true, false, "true")
	case 11:
		return "x-message-ttl", value(int32(3600000), int64(3600000), int32(-1), "1000", int64(1)<<40)
	case 12:
		return "x-expires", value(int32(3600000), int32(0), int32(-1))
	case 13:
		return "x-queue-mode", value("lazy", "default", "eager")
	case 14:
		return "x-queue-type", value("classic", "quorom", int32(1))
	}
	return g.oneOf("x-mine", "x-delivery-limit", "x-max-age", "x-queue-version"), value(int32(1), int32(2), "1")
}

func (g *generator) exchange(name string, special bool) *wire.ExchangeDeclare {
	m := &wire.ExchangeDeclare{Exchange: name, Type: g.oneOf("direct", "fanout", "topic", "topic", "headers"), Durable: g.IntN(2) == 0, AutoDelete: g.IntN(6) == 0,
		Internal: g.IntN(10) == 0, NoWait: g.IntN(12) == 0}
	if special {
		switch g.IntN(5) {
		case 0:
			m.Type = "x-unknown"
		case 1:
			m.Arguments = wire.Table{{Key: "alternate-exchange", Value: int32(1)}}
		default:
			m.Arguments = wire.Table{{Key: "alternate-exchange", Value: g.oneOf("x1", "x2", "x3", "amq.fanout", "missing", "")}}
		}
	}
	return m
}

// match are arguments of a binding, which exchanges of type headers look at.
func (g *generator) match() wire.Table {
	if g.IntN(4) > 0 {
		return nil
	}
	t := wire.Table{{Key: "x-match", Value: g.oneOf("all", "any", "all-with-x", "some")}}
	for range g.IntN(3) {
		t = append(t, g.header())
	}
	return t
}

func (g *generator) header() wire.Field {
	values := []any{int32(1), int64(1), "1", true, nil, 1.5, wire.Array{"1"}, "v"}
	return wire.Field{Key: g.oneOf("h1", "h2", "x-h"), Value: values[g.IntN(len(values))]}
}

func (g *generator) consumerArguments() wire.Table {
	if g.newer && g.IntN(8) == 0 {
		return wire.Table{{Key: "x-consumer-timeout", Value: []any{int32(3_600_000), int32(0), int32(-1), "1"}[g.IntN(4)]}}
	}
	switch g.IntN(8) {
	case 0:
		return wire.Table{{Key: "x-priority", Value: int32(g.IntN(5) - 2)}}
	case 1:
		return wire.Table{{Key: g.oneOf("x-priority", "x-cancel-on-ha-failover", "x-stream-offset", "x-mine"), Value: g.oneOf("1", "first")}}
	}
	return nil
}

func (g *generator) publish() *publish {
	g.messages++
	p := &publish{body: fmt.Sprintf("m%d", g.messages)}
	p.RoutingKey, p.Mandatory, p.Immediate = g.pick(keys), g.IntN(4) == 0, g.IntN(60) == 0
	if g.IntN(3) > 0 {
		p.Exchange = g.anExchange()
	} else {
		p.RoutingKey = g.pick(queueNames)
	}
	properties := &p.properties
	if g.IntN(3) == 0 {
		properties.DeliveryMode = uint8(g.IntN(3))
	}
	if g.IntN(5) == 0 {
		properties.Priority = uint8(g.IntN(8))
	}
	for range g.IntN(3) {
		properties.Headers = append(properties.Headers, g.header())
	}
	switch g.IntN(24) {
	case 0, 1:
		properties.Headers = properties.Headers.With(g.oneOf("CC", "BCC"), wire.Array{g.pick(keys), g.pick(keys)})
	case 2:
		properties.Headers = properties.Headers.With(g.oneOf("CC", "BCC"), "a")
	case 3:
		properties.UserID = g.oneOf("guest", "guest", "somebody")
	case 4:
		properties.Expiration = g.oneOf("3600000", "3600000", "soon", "-1", "1.5", "")
		properties.Has |= wire.HasExpiration
	case 5:
		properties.ReplyTo, properties.CorrelationID, properties.MessageID, properties.AppID = "r", "c", "m", "a"
	}
	return p
}

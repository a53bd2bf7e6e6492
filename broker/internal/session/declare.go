package session

import (
	"strings"

	"github.com/rehop/rehop/broker/internal/erlang"
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/internal/wire"
)

// checkName refuses names that are the broker's own.
func checkName(kind, name string) error {
	if strings.HasPrefix(name, "amq.") {
		return node.Refuse(wire.AccessRefused, "%s name '%s' contains reserved prefix 'amq.*'", kind, name)
	}
	return nil
}

// bare removes line ends, which RabbitMQ forgives in names.
func bare(name string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(name) }

func notDefault(exchange string) error {
	if exchange == "" {
		return node.Refuse(wire.AccessRefused, "operation not permitted on the default exchange")
	}
	return nil
}

// exchangeNamed returns an exchange or a refusal.
func (ch *Channel) exchangeNamed(name string) (*node.Exchange, error) {
	x := ch.conn.vhost.Exchange(name)
	if x == nil {
		return nil, ch.conn.vhost.NoExchange(name)
	}
	return x, nil
}

func (ch *Channel) declareExchange(m *wire.ExchangeDeclare) error {
	name := bare(m.Exchange)
	if m.Passive {
		if err := notDefault(name); err != nil {
			return err
		}
		if err := ch.conn.access.CheckPassive("exchange", name); err != nil {
			return err
		}
		if _, err := ch.exchangeNamed(name); err != nil {
			return err
		}
		ch.reply(m.NoWait, &wire.ExchangeDeclareOK{})
		return nil
	}
	kind, err := node.ParseKind(ch.node.Config.Compat, m.Type)
	if err != nil {
		return err
	}
	if err := notDefault(name); err != nil {
		return err
	}
	if err := ch.conn.access.Check(node.Configure, "exchange", name); err != nil {
		return err
	}
	want := node.Exchange{Name: name, Kind: kind, Durable: m.Durable, AutoDelete: m.AutoDelete, Internal: m.Internal, Arguments: m.Arguments}
	if ch.conn.vhost.Exchange(name) == nil {
		if err := checkName("exchange", name); err != nil {
			return err
		}
		if err := ch.checkAlternate(name, m.Arguments); err != nil {
			return err
		}
	}
	if err := ch.conn.vhost.DeclareExchange(want); err != nil {
		return err
	}
	ch.reply(m.NoWait, &wire.ExchangeDeclareOK{})
	return nil
}

// checkAlternate sees whether the user may have unroutable messages go to another exchange.
func (ch *Channel) checkAlternate(name string, args wire.Table) error {
	v, ok := args.Get("alternate-exchange")
	if !ok {
		return nil
	}
	alternate, ok := v.(string)
	if !ok {
		return node.Refuse(wire.PreconditionFailed, "invalid type '%s' for arg 'alternate-exchange' in %s", erlang.Type(v), node.Resource("exchange", name, ch.conn.vhost.Name))
	}
	if err := ch.conn.access.Check(node.Read, "exchange", name); err != nil {
		return err
	}
	return ch.conn.access.Check(node.Write, "exchange", alternate)
}

func (ch *Channel) deleteExchange(m *wire.ExchangeDelete) error {
	name := bare(m.Exchange)
	if err := notDefault(name); err != nil {
		return err
	}
	if strings.HasPrefix(name, "amq.") {
		return node.Refuse(wire.AccessRefused, "deletion of system %s not allowed", node.Resource("exchange", name, ch.conn.vhost.Name))
	}
	if err := ch.conn.access.Check(node.Configure, "exchange", name); err != nil {
		return err
	}
	if err := ch.conn.vhost.DeleteExchange(name, m.IfUnused); err != nil {
		return err
	}
	ch.reply(m.NoWait, &wire.ExchangeDeleteOK{})
	return nil
}

func (ch *Channel) bindExchange(m *wire.ExchangeBind) error {
	source, d, err := ch.exchangesToBind(m.Source, m.Destination, m.RoutingKey)
	if err != nil {
		return err
	}
	if err := ch.node.Config.Compat.CheckKey(source.Kind, m.RoutingKey); err != nil {
		return err
	}
	if err := ch.conn.vhost.Bind(source, d, m.RoutingKey, m.Arguments); err != nil {
		return err
	}
	ch.reply(m.NoWait, &wire.ExchangeBindOK{})
	return nil
}

func (ch *Channel) unbindExchange(m *wire.ExchangeUnbind) error {
	source, d, err := ch.exchangesToBind(m.Source, m.Destination, m.RoutingKey)
	if err == nil {
		err = ch.conn.vhost.Unbind(source, d, m.RoutingKey, m.Arguments)
	}
	if !missing(err) {
		return err
	}
	ch.reply(m.NoWait, &wire.ExchangeUnbindOK{})
	return nil
}

func (ch *Channel) exchangesToBind(source, destinationName, key string) (*node.Exchange, node.Destination, error) {
	source, destinationName = bare(source), bare(destinationName)
	for _, name := range []string{source, destinationName} {
		if err := notDefault(name); err != nil {
			return nil, node.Destination{}, err
		}
	}
	if err := ch.conn.access.Check(node.Write, "exchange", destinationName); err != nil {
		return nil, node.Destination{}, err
	}
	if err := ch.conn.access.Check(node.Read, "exchange", source); err != nil {
		return nil, node.Destination{}, err
	}
	if x := ch.conn.vhost.Exchange(source); x != nil {
		if err := ch.conn.access.CheckTopic(node.Read, x, key); err != nil {
			return nil, node.Destination{}, err
		}
	}
	from, err := ch.exchangeNamed(source)
	if err != nil {
		return nil, node.Destination{}, err
	}
	to, err := ch.exchangeNamed(destinationName)
	return from, node.Destination{Exchange: to}, err
}

func (ch *Channel) declareQueue(m *wire.QueueDeclare) error {
	name := bare(m.Queue)
	if isReplyKey(name) || name == replyQueue {
		if name != replyQueue && ch.node.repliesFor(name) == nil {
			return ch.conn.vhost.NoQueue(name)
		}
		ch.reply(m.NoWait, &wire.QueueDeclareOK{Queue: name, ConsumerCount: 1})
		return nil
	}
	v := ch.conn.vhost
	if m.Passive {
		if err := ch.conn.access.CheckPassive("queue", name); err != nil {
			return err
		}
		q := v.Queue(name)
		if q == nil {
			return v.NoQueue(name)
		}
		if err := q.Reachable(ch.conn); err != nil {
			return err
		}
		return ch.declared(q, m.NoWait)
	}
	m.Arguments = v.Typed(m)
	spec := node.QueueSpec{Name: name, Durable: m.Durable, Exclusive: m.Exclusive, AutoDelete: m.AutoDelete, Arguments: m.Arguments, Limited: true}
	if m.Exclusive {
		spec.Owner = ch.conn
	}
	if name == "" {
		if err := node.CheckServerNamed(m.Arguments); err != nil {
			return err
		}
		spec.Name = randomName("amq.gen-")
	} else if err := checkName("queue", name); err != nil {
		return err
	}
	if err := ch.conn.access.Check(node.Configure, "queue", spec.Name); err != nil {
		return err
	}
	if q := v.Queue(name); q != nil {
		if err := q.Reachable(ch.conn); err != nil {
			return err
		}
		spec.Owner = q.Owner
	} else if err := ch.checkNew(spec); err != nil {
		return err
	}
	q, err := v.DeclareQueue(spec)
	if err != nil {
		return err
	}
	return ch.declared(q, m.NoWait)
}

// checkNew sees whether a queue that is not there may be made.
func (ch *Channel) checkNew(spec node.QueueSpec) error {
	v := ch.conn.vhost
	if ch.node.Config.Compat.LimitBeforeArguments() {
		if err := v.CheckQueueLimit(spec.Name); err != nil {
			return err
		}
	}
	return ch.checkDeadLetter(spec.Name, spec.Arguments)
}

// checkDeadLetter sees whether the user may have dead letters go to an exchange.
func (ch *Channel) checkDeadLetter(name string, args wire.Table) error {
	v, ok := args.Get("x-dead-letter-exchange")
	if !ok {
		return nil
	}
	exchange, ok := v.(string)
	if !ok {
		return node.Refuse(wire.PreconditionFailed, "invalid type '%s' for arg 'x-dead-letter-exchange' in %s", erlang.Type(v), node.Resource("queue", name, ch.conn.vhost.Name))
	}
	if err := ch.conn.access.Check(node.Read, "queue", name); err != nil {
		return err
	}
	return ch.conn.access.Check(node.Write, "exchange", exchange)
}

// declared answers a declaration.
func (ch *Channel) declared(q *node.Queue, noWait bool) error {
	ch.lastQueue = q.Name
	q.Core.Touch()
	ready, consumers := q.Core.Counts()
	ch.reply(noWait, &wire.QueueDeclareOK{Queue: q.Name, MessageCount: uint32(ready), ConsumerCount: uint32(consumers + int(q.CountedAsConsumers.Load()))})
	return nil
}

func (ch *Channel) bindQueue(m *wire.QueueBind) error {
	v := ch.conn.vhost
	ends, err := ch.queueEnds(m.Exchange, m.Queue, m.RoutingKey)
	switch {
	case err != nil:
		return err
	case ends.source == nil:
		return v.NoExchange(ends.exchange)
	case ends.queue == nil:
		return v.NoQueue(ends.name)
	}
	if err := ch.node.Config.Compat.CheckKey(ends.source.Kind, ends.key); err != nil {
		return err
	}
	d := node.Destination{Queue: ends.queue}
	if err := ends.queue.Reachable(ch.conn); err != nil {
		// RabbitMQ looks at the binding first.
		if _, fault := ch.node.Config.Compat.Bindings(ends.source.Kind).Add(d, ends.key, m.Arguments); fault != nil {
			return node.Refuse(wire.PreconditionFailed, "%s", fault)
		}
		return err
	}
	if err := v.Bind(ends.source, d, ends.key, m.Arguments); err != nil {
		return err
	}
	ch.reply(m.NoWait, &wire.QueueBindOK{})
	return nil
}

// unbindQueue takes away a binding. To take away what is not there is no fault.
func (ch *Channel) unbindQueue(m *wire.QueueUnbind) error {
	v := ch.conn.vhost
	ends, err := ch.queueEnds(m.Exchange, m.Queue, m.RoutingKey)
	if err != nil {
		return err
	}
	if d := (node.Destination{Queue: ends.queue}); ends.source != nil && ends.queue != nil && v.Bound(ends.source, d, ends.key, m.Arguments) {
		if err := ends.queue.Reachable(ch.conn); err != nil {
			return err
		}
		if err := v.Unbind(ends.source, d, ends.key, m.Arguments); err != nil {
			return err
		}
	}
	ch.send(&wire.QueueUnbindOK{})
	return nil
}

// queueEnds are the two ends of a queue's binding, nil where there is nothing.
type queueEnds struct {
	exchange, name, key string
	source              *node.Exchange
	queue               *node.Queue
}

func (ch *Channel) queueEnds(exchange, name, key string) (queueEnds, error) {
	e := queueEnds{exchange: bare(exchange), name: bare(name), key: key}
	if e.name == "" {
		if ch.lastQueue == "" {
			return e, node.Refuse(wire.NotFound, "no previously declared queue")
		}
		if e.name = ch.lastQueue; key == "" {
			e.key = e.name
		}
	}
	if err := ch.conn.access.Check(node.Write, "queue", e.name); err != nil {
		return e, err
	}
	if err := notDefault(e.exchange); err != nil {
		return e, err
	}
	if err := ch.conn.access.Check(node.Read, "exchange", e.exchange); err != nil {
		return e, err
	}
	e.source, e.queue = ch.conn.vhost.Exchange(e.exchange), ch.conn.vhost.Queue(e.name)
	if e.source != nil {
		return e, ch.conn.access.CheckTopic(node.Read, e.source, e.key)
	}
	return e, nil
}

// missing reports whether nothing stands in the way of an end: there is no error, or there is nothing to end.
func missing(err error) bool {
	x, ok := err.(*node.Exception)
	return err == nil || ok && x.Code == wire.NotFound
}

func (ch *Channel) purgeQueue(m *wire.QueuePurge) error {
	q, err := ch.permittedQueue(bare(m.Queue), node.Read)
	if err != nil {
		return err
	}
	ch.reply(m.NoWait, &wire.QueuePurgeOK{MessageCount: uint32(q.Purge())})
	return nil
}

func (ch *Channel) deleteQueue(m *wire.QueueDelete) error {
	name := bare(m.Queue)
	if name == "" {
		name = ch.lastQueue
	}
	q, err := ch.permittedQueue(name, node.Configure)
	messages := 0
	if err == nil {
		if err := q.RefuseCondition(m.IfUnused, m.IfEmpty); err != nil {
			return err
		}
		var consumers []*queue.Consumer
		messages, consumers, err = q.Remove(m.IfUnused, m.IfEmpty)
		defer node.CancelAll(consumers)
	}
	if !missing(err) || name == "" {
		return err
	}
	ch.reply(m.NoWait, &wire.QueueDeleteOK{MessageCount: uint32(messages)})
	return nil
}

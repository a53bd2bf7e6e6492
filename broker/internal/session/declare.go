package session

import (
	"cmp"
	"strings"

	"github.com/rehop/rehop/broker/internal/erlang"
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/internal/wire"
)

// checkName refuses names that are reserved for the broker.
func checkName(kind, name string) error {
	if strings.HasPrefix(name, "amq.") {
		return node.Refuse(wire.AccessRefused, "%s name '%s' contains reserved prefix 'amq.*'", kind, name)
	}
	return nil
}

// bare removes line breaks, which RabbitMQ ignores in names.
func bare(name string) string { return lineBreaks.Replace(name) }

var lineBreaks = strings.NewReplacer("\r", "", "\n", "")

func notDefault(exchange string) error {
	if exchange == "" {
		return node.Refuse(wire.AccessRefused, "operation not permitted on the default exchange")
	}
	return nil
}

func (ch *Channel) declareExchange(m *wire.ExchangeDeclare) error {
	v, access, name := ch.conn.vhost, ch.conn.access, bare(m.Exchange)
	if m.Passive {
		if err := cmp.Or(notDefault(name), access.CheckPassive("exchange", name)); err != nil {
			return err
		}
		if v.Exchange(name) == nil {
			return v.NoExchange(name)
		}
		return ch.reply(m.NoWait, &wire.ExchangeDeclareOK{})
	}
	kind, err := node.ParseKind(ch.node.Config.Compat, m.Type)
	if err := cmp.Or(err, notDefault(name), access.Check(node.Configure, "exchange", name)); err != nil {
		return err
	}
	if v.Exchange(name) == nil {
		if err := cmp.Or(checkName("exchange", name), ch.checkTarget("exchange", name, "alternate-exchange", m.Arguments)); err != nil {
			return err
		}
	}
	want := node.Exchange{Name: name, Kind: kind, Durable: m.Durable, AutoDelete: m.AutoDelete, Internal: m.Internal, Arguments: m.Arguments}
	if err := v.DeclareExchange(want); err != nil {
		return err
	}
	return ch.reply(m.NoWait, &wire.ExchangeDeclareOK{})
}

// checkTarget checks that the user has the rights for messages of a queue or an exchange to go to the exchange in an argument.
func (ch *Channel) checkTarget(kind, name, argument string, args wire.Table) error {
	v, ok := args.Get(argument)
	if !ok {
		return nil
	}
	target, ok := v.(string)
	if !ok {
		return node.Refuse(wire.PreconditionFailed, "invalid type '%s' for arg '%s' in %s", erlang.Type(v), argument, node.Resource(kind, name, ch.conn.vhost.Name))
	}
	return cmp.Or(ch.conn.access.Check(node.Read, kind, name), ch.conn.access.Check(node.Write, "exchange", target))
}

func (ch *Channel) deleteExchange(m *wire.ExchangeDelete) error {
	v, name := ch.conn.vhost, bare(m.Exchange)
	if err := notDefault(name); err != nil {
		return err
	}
	if strings.HasPrefix(name, "amq.") {
		return node.Refuse(wire.AccessRefused, "deletion of system %s not allowed", node.Resource("exchange", name, v.Name))
	}
	if err := ch.conn.access.Check(node.Configure, "exchange", name); err != nil {
		return err
	}
	there := v.Exchange(name) != nil
	if err := v.DeleteExchange(name, m.IfUnused); err != nil {
		return err
	}
	if there {
		ch.audit("delete exchange", name)
	}
	return ch.reply(m.NoWait, &wire.ExchangeDeleteOK{})
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
	return ch.reply(m.NoWait, &wire.ExchangeBindOK{})
}

func (ch *Channel) unbindExchange(m *wire.ExchangeUnbind) error {
	source, d, err := ch.exchangesToBind(m.Source, m.Destination, m.RoutingKey)
	if err == nil {
		err = ch.conn.vhost.Unbind(source, d, m.RoutingKey, m.Arguments)
	}
	if !missing(err) {
		return err
	}
	return ch.reply(m.NoWait, &wire.ExchangeUnbindOK{})
}

func (ch *Channel) exchangesToBind(source, destination, key string) (from *node.Exchange, to node.Destination, err error) {
	v, access := ch.conn.vhost, ch.conn.access
	source, destination = bare(source), bare(destination)
	err = cmp.Or(notDefault(source), notDefault(destination), access.Check(node.Write, "exchange", destination), access.Check(node.Read, "exchange", source))
	if err != nil {
		return nil, to, err
	}
	if from = v.Exchange(source); from == nil {
		return nil, to, v.NoExchange(source)
	}
	if err := access.CheckTopic(node.Read, from, key); err != nil {
		return nil, to, err
	}
	if to.Exchange = v.Exchange(destination); to.Exchange == nil {
		return nil, to, v.NoExchange(destination)
	}
	return from, to, nil
}

func (ch *Channel) declareQueue(m *wire.QueueDeclare) error {
	name := bare(m.Queue)
	if isReplyKey(name) || name == replyQueue {
		if name != replyQueue && ch.node.repliesFor(name) == nil {
			return ch.conn.vhost.NoQueue(name)
		}
		return ch.reply(m.NoWait, &wire.QueueDeclareOK{Queue: name, ConsumerCount: 1})
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

// checkNew checks whether a queue that does not exist may be created.
func (ch *Channel) checkNew(spec node.QueueSpec) error {
	if ch.node.Config.Compat.LimitBeforeArguments() {
		if err := ch.conn.vhost.CheckQueueLimit(spec.Name); err != nil {
			return err
		}
	}
	return ch.checkTarget("queue", spec.Name, "x-dead-letter-exchange", spec.Arguments)
}

func (ch *Channel) declared(q *node.Queue, noWait bool) error {
	ch.lastQueue = q.Name
	q.Core.Touch()
	ready, consumers := q.Core.Counts()
	if q.Core.SingleActive && q.Core.Type == queue.Quorum {
		consumers = min(consumers, 1) // those that wait do not count
	}
	return ch.reply(noWait, &wire.QueueDeclareOK{Queue: q.Name, MessageCount: uint32(ready), ConsumerCount: uint32(consumers + int(q.CountedAsConsumers.Load()))})
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
		// RabbitMQ checks the binding first.
		if _, fault := ch.node.Config.Compat.Bindings(ends.source.Kind).Add(d, ends.key, m.Arguments); fault != nil {
			return node.Refuse(wire.PreconditionFailed, "%s", fault)
		}
		return err
	}
	if err := v.Bind(ends.source, d, ends.key, m.Arguments); err != nil {
		return err
	}
	return ch.reply(m.NoWait, &wire.QueueBindOK{})
}

// unbindQueue removes a binding. It is no error if there is none.
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
	return ch.send(&wire.QueueUnbindOK{})
}

// queueEnds are the two ends of a queue's binding, nil if they do not exist.
type queueEnds struct {
	exchange, name, key string
	source              *node.Exchange
	queue               *node.Queue
}

func (ch *Channel) queueEnds(exchange, name, key string) (e queueEnds, err error) {
	v, access, bareName := ch.conn.vhost, ch.conn.access, bare(name)
	e = queueEnds{exchange: bare(exchange), key: key}
	if e.name, err = ch.queueName(bareName); err != nil {
		return e, err
	}
	if bareName == "" {
		e.key = cmp.Or(key, e.name)
	}
	err = cmp.Or(access.Check(node.Write, "queue", e.name), notDefault(e.exchange), access.Check(node.Read, "exchange", e.exchange))
	if err != nil {
		return e, err
	}
	e.source, e.queue = v.Exchange(e.exchange), v.Queue(e.name)
	if e.source != nil {
		err = access.CheckTopic(node.Read, e.source, e.key)
	}
	return e, err
}

// missing reports whether an unbind or a delete has succeeded: there is no error, or the resource does not exist.
func missing(err error) bool {
	x, ok := err.(*node.Exception)
	return err == nil || ok && x.Code == wire.NotFound
}

func (ch *Channel) purgeQueue(m *wire.QueuePurge) error {
	q, err := ch.permittedQueue(bare(m.Queue), node.Read)
	if err != nil {
		return err
	}
	messages := q.Purge()
	ch.audit("purge queue", q.Name, "messages", messages)
	return ch.reply(m.NoWait, &wire.QueuePurgeOK{MessageCount: uint32(messages)})
}

func (ch *Channel) deleteQueue(m *wire.QueueDelete) error {
	name, err := ch.queueName(bare(m.Queue))
	if err != nil {
		return err
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
	if !missing(err) {
		return err
	}
	if err == nil && !q.Exclusive { // exclusive queues end with their connection anyway
		ch.audit("delete queue", name, "messages", messages)
	}
	return ch.reply(m.NoWait, &wire.QueueDeleteOK{MessageCount: uint32(messages)})
}

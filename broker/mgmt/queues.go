package mgmt

import (
	"fmt"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/session"
	"github.com/rehop/rehop/internal/wire"
)

func (c *call) queues() (any, error) {
	all := list{}
	for _, v := range c.visible() {
		for _, q := range v.Queues() {
			all = append(all, c.queueBrief(q))
		}
	}
	return all, nil
}

// queueBrief describes a queue in a list, which says less than the queue's own page from 4.0 on.
func (a *api) queueBrief(q *node.Queue) object {
	o := a.queueObject(q)
	if a.since(node.RabbitMQ40) {
		for _, key := range []string{"operator_policy", "exclusive_consumer_tag", "single_active_consumer_tag"} {
			delete(o, key)
		}
	}
	return o
}

func (c *call) oneQueue() (any, error) {
	q := c.vhost.Queue(c.path("queue"))
	if q == nil {
		return nil, notFound()
	}
	o := c.queueObject(q)
	details := list{}
	for _, s := range session.Subscriptions(q) {
		details = append(details, c.consumerObject(s))
	}
	o["consumer_details"], o["incoming"], o["deliveries"] = details, list{}, list{}
	return o, nil
}

// queueObject describes a queue with the keys of its type.
func (a *api) queueObject(q *node.Queue) object {
	s := q.Status()
	consumers := len(s.Consumers) + s.CountedAsConsumers
	o := object{
		"name": printable(q.Name), "vhost": printable(q.VhostName()), "type": q.Type(), "node": a.node.Name(), "state": "running",
		"durable": q.Durable, "auto_delete": q.AutoDelete, "exclusive": q.Exclusive, "arguments": shown(q.ShownArguments()),
		"consumers": consumers, "consumer_capacity": capacity(s), "consumer_utilisation": capacity(s),
		"message_bytes": s.ReadyBytes + s.UnackedBytes + s.KeptBytes, "message_bytes_ready": s.ReadyBytes, "message_bytes_unacknowledged": s.UnackedBytes,
		"policy": nil, "operator_policy": nil, "effective_policy_definition": object{},
	}
	describePolicy(q, o)
	now := figuresOf(q)
	rates := a.rates.of(q, now)
	now.messages(o, rates)
	if now.happened() {
		o["message_stats"] = now.stats(rates)
	}
	var exclusive, active any
	if len(s.Consumers) > 0 && s.Consumers[0].Exclusive {
		exclusive = printable(s.Consumers[0].Tag)
	}
	if q.SingleActive() && s.Active != nil {
		active = printable(s.Active.Tag)
	}
	if a.since(node.RabbitMQ43) {
		o["internal"], o["internal_owner"] = false, false // of those that plugins make
	}
	if q.Type() == queue.Quorum {
		self := []string{a.node.Name()}
		o["leader"], o["members"], o["online"] = a.node.Name(), self, self
		o["messages_dlx"], o["message_bytes_dlx"] = s.Kept, s.KeptBytes
		a.describeQuorum(o, s, active)
	} else {
		o["exclusive_consumer_tag"], o["single_active_consumer_tag"] = exclusive, active
		if a.since(node.RabbitMQ40) {
			o["storage_version"] = 2 // the only one that 4.3 has
		}
	}
	if owner, exclusive := q.Owner.(*session.Connection); exclusive {
		o["owner_pid_details"] = connectionBrief(owner)
	}
	return o
}

// describeQuorum adds what releases tell of a quorum queue in their own ways.
func (a *api) describeQuorum(o object, s queue.Status, active any) {
	if !a.since(node.RabbitMQ40) {
		o["single_active_consumer_ctag"] = active
		return
	}
	o["single_active_consumer_tag"], o["delivery_limit"], o["messages_ready_returned"] = active, s.Settings.DeliveryLimit, s.Returned
	if !a.since(node.RabbitMQ43) {
		o["messages_ready_normal"], o["messages_ready_high"] = s.Fresh[0], s.Fresh[1]
		return
	}
	byPriority := map[int]int{}
	for level, n := range s.Fresh {
		if n > 0 {
			byPriority[level] = n
		}
	}
	o["messages_by_priority"], o["messages_active_priorities"] = byPriority, len(byPriority)
	o["delayed_retry"], o["messages_delayed"] = "disabled", s.Delayed
	if r := s.Settings.Retry; r != (queue.Retry{}) {
		o["delayed_retry"] = fmt.Sprintf("%s (min: %dms, max: %dms)", r.Type, r.Min.Milliseconds(), r.Max.Milliseconds())
	}
	if now := time.Now(); s.Delayed > 0 {
		o["next_delayed_at"], o["last_delayed_at"] = now.Add(s.NextReady).UnixMilli(), now.Add(s.LastReady).UnixMilli()
	}
}

func describePolicy(q *node.Queue, o object) {
	if name := q.Policy(); name != "" {
		o["policy"] = printable(name)
	}
	if name := q.OperatorPolicy(); name != "" {
		o["operator_policy"] = printable(name)
	}
	if definition := q.EffectivePolicy(); definition != nil {
		o["effective_policy_definition"] = definition
	}
}

// capacity is whether a message that came now would be delivered at once. RabbitMQ has the mean over some seconds.
func capacity(s queue.Status) float64 {
	if len(s.Consumers) > 0 && s.Waiting {
		return 1
	}
	return 0
}

func (c *call) declareQueue() (any, error) {
	f, err := c.fields(maxBody)
	if err != nil {
		return nil, err
	}
	m := &wire.QueueDeclare{Queue: c.path("queue")}
	if m.Durable, err = f.flag("durable"); err != nil {
		return nil, err
	}
	if m.AutoDelete, err = f.flag("auto_delete"); err != nil {
		return nil, err
	}
	if m.Arguments, err = f.arguments(); err != nil {
		return nil, err
	}
	created := c.vhost.Queue(m.Queue) == nil
	return made(created), c.ask(m)
}

func (c *call) deleteQueue() (any, error) {
	m := &wire.QueueDelete{Queue: c.path("queue")}
	if c.vhost.Queue(m.Queue) == nil {
		return nil, notFound()
	}
	var err error
	if m.IfUnused, err = c.condition("if-unused"); err != nil {
		return nil, err
	}
	if m.IfEmpty, err = c.condition("if-empty"); err != nil {
		return nil, err
	}
	return done, c.ask(m)
}

func (c *call) purgeQueue() (any, error) {
	name := c.path("queue")
	if c.vhost.Queue(name) == nil {
		return nil, notFound()
	}
	return done, c.ask(&wire.QueuePurge{Queue: name})
}

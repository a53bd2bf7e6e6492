package mgmt

import (
	"fmt"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/session"
	"github.com/rehop/rehop/internal/wire"
)

func (c *call) oneQueue() (any, error) {
	q := c.vhost.Queue(c.path("queue"))
	if q == nil {
		return nil, notFound()
	}
	o := c.queueObject(q)
	o["consumer_details"], o["incoming"], o["deliveries"] = c.consumerList(session.Subscriptions(q)), list{}, list{}
	return o, nil
}

// queueObject describes a queue with the keys of its type.
func (a *api) queueObject(q *node.Queue) object {
	s := q.Status()
	consumers := len(s.Consumers) + s.CountedAsConsumers
	o := object{
		"name": printable(q.Name), "vhost": printable(q.Vhost.Name), "type": q.Core.Type, "node": a.node.Config.Name, "state": "running",
		"durable": q.Durable, "auto_delete": q.AutoDelete, "exclusive": q.Exclusive, "arguments": shown(q.ShownArguments()),
		"consumers": consumers, "consumer_capacity": capacity(s), "consumer_utilisation": capacity(s),
		"message_bytes": s.ReadyBytes + s.UnackedBytes + s.KeptBytes, "message_bytes_ready": s.ReadyBytes, "message_bytes_unacknowledged": s.UnackedBytes,
		"policy": nil, "operator_policy": nil, "effective_policy_definition": object{},
	}
	describePolicy(q, o)
	now := figuresOfTotals(s.Totals)
	now.addMessages(s)
	rates := a.rates.of(q, now)
	now.messages(o, rates)
	if now.happened() {
		o["message_stats"] = now.stats(rates)
	}
	var exclusive, active any
	if len(s.Consumers) > 0 && s.Consumers[0].Exclusive {
		exclusive = printable(s.Consumers[0].Tag)
	}
	if node.SingleActive(q.Arguments) && s.Active != nil {
		active = printable(s.Active.Tag)
	}
	if a.since(node.RabbitMQ43) {
		o["internal"], o["internal_owner"] = false, false // for queues of plugins
	}
	if q.Core.Type == queue.Quorum {
		self := []string{a.node.Config.Name}
		o["leader"], o["members"], o["online"] = a.node.Config.Name, self, self
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

// describeQuorum adds the keys of quorum queues, which differ between releases.
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
	policy, operatorPolicy := q.Policies()
	if policy != "" {
		o["policy"] = printable(policy)
	}
	if operatorPolicy != "" {
		o["operator_policy"] = printable(operatorPolicy)
	}
	if definition := q.EffectivePolicy(); definition != nil {
		o["effective_policy_definition"] = definition
	}
}

// capacity is 1 if the queue would deliver a message at once. RabbitMQ has the mean over some seconds.
func capacity(s queue.Status) float64 {
	if len(s.Consumers) > 0 && s.Waiting {
		return 1
	}
	return 0
}

func (c *call) declareQueue() (any, error) {
	f := c.fields(maxBody)
	m := &wire.QueueDeclare{Queue: c.path("queue"), Durable: f.flag("durable"), AutoDelete: f.flag("auto_delete"), Arguments: f.arguments()}
	if f.err != nil {
		return nil, f.err
	}
	created := c.vhost.Queue(m.Queue) == nil
	return made(created), c.ask(m)
}

func (c *call) deleteQueue() (any, error) {
	q := c.query()
	m := &wire.QueueDelete{Queue: c.path("queue"), IfUnused: q.flag("if-unused"), IfEmpty: q.flag("if-empty")}
	if c.vhost.Queue(m.Queue) == nil {
		return nil, notFound()
	}
	if q.err != nil {
		return nil, q.err
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

// queueBrief describes a queue in a list. From 4.0 on it has fewer keys than the queue alone.
func queueBrief(c *call, _ *node.Vhost, q *node.Queue) object {
	o := c.queueObject(q)
	if c.since(node.RabbitMQ40) {
		for _, key := range []string{"operator_policy", "exclusive_consumer_tag", "single_active_consumer_tag"} {
			delete(o, key)
		}
	}
	return o
}

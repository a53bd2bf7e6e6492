package mgmt

import (
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/session"
)

func (c *call) consumers() (any, error) {
	if c.vhost != nil && c.since(node.RabbitMQ43) && !c.isMonitor() && !c.sees(c.vhost.Name) {
		return nil, notFound() // earlier releases return an empty list
	}
	return c.consumerList(c.subscriptions()), nil
}

// subscriptions returns the consumers in the visible virtual hosts.
func (c *call) subscriptions() (all []session.Subscription) {
	for _, v := range c.visible() {
		for _, q := range v.Queues() {
			all = append(all, session.Subscriptions(q)...)
		}
	}
	return all
}

func (a *api) consumerList(subscriptions []session.Subscription) list {
	all := list{}
	for _, s := range subscriptions {
		all = append(all, a.consumerObject(s))
	}
	return all
}

func (a *api) consumerObject(s session.Subscription) object {
	activity := "up"
	if node.SingleActive(s.Queue.Arguments) {
		activity = "waiting"
		if s.Active {
			activity = "single_active"
		}
	}
	conn := s.Channel.Connection()
	channel := connectionBrief(conn)
	channel["connection_name"], channel["name"] = channel["name"], channelName(s.Channel)
	channel["number"], channel["node"], channel["user"] = s.Channel.Number, a.node.Config.Name, printable(conn.User)
	o := object{
		"consumer_tag": printable(s.Tag), "queue": object{"name": printable(s.Queue.Name), "vhost": printable(s.Queue.Vhost.Name)}, "channel_details": channel,
		"ack_required": !s.NoAck, "exclusive": s.Exclusive, "active": s.Active, "activity_status": activity, "prefetch_count": s.Prefetch,
		"arguments": shown(s.Arguments),
	}
	if a.since(node.RabbitMQ40) {
		o["consumer_timeout"] = nil
		if timeout := s.Queue.ShownTimeout(); timeout > 0 {
			o["consumer_timeout"] = timeout.Milliseconds()
		}
	}
	return o
}

package mgmt

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/session"
)

// channelTimeout is how long connections may take to describe their channels.
const channelTimeout = time.Second

func (c *call) statuses(connections []*session.Connection) []session.ChannelStatus {
	ctx, cancel := context.WithTimeout(c.r.Context(), channelTimeout)
	defer cancel()
	return session.ChannelStatuses(ctx, connections)
}

func (c *call) channels() (any, error) { return c.channelsOf(c.visibleConnections()), nil }

func (c *call) channelsOfConnection() (any, error) {
	conn, err := c.connection(c.isMonitor())
	if err != nil {
		return nil, err
	}
	return c.channelsOf([]*session.Connection{conn}), nil
}

func (c *call) channelsOf(connections []*session.Connection) list {
	all := list{}
	for _, s := range c.statuses(connections) {
		all = append(all, c.channelObject(s))
	}
	return all
}

func (c *call) oneChannel() (any, error) {
	name := c.path("channel")
	for _, conn := range c.node.Connections() {
		for _, ch := range conn.Channels() {
			if channelName(ch) != name {
				continue
			}
			if !c.isMonitor() && conn.User != c.user.Name {
				return nil, unauthorised("User not authorised to access object")
			}
			return c.channelInFull(ch)
		}
	}
	return nil, notFound()
}

func (c *call) channelInFull(ch *session.Channel) (any, error) {
	for _, s := range c.statuses([]*session.Connection{ch.Connection()}) {
		if s.Channel == ch {
			consumers := slices.DeleteFunc(c.subscriptions(), func(sub session.Subscription) bool { return sub.Channel != ch })
			o := c.channelObject(s)
			o["consumer_details"], o["publishes"], o["deliveries"] = c.consumerList(consumers), list{}, list{}
			return o, nil
		}
	}
	return nil, notFound()
}

// channelName is the name of the connection and the number of the channel.
func channelName(ch *session.Channel) string {
	return fmt.Sprintf("%s (%d)", printable(ch.Connection().Name), ch.Number)
}

func (a *api) channelObject(s session.ChannelStatus) object {
	conn := s.Channel.Connection()
	o := object{
		"name": channelName(s.Channel), "number": s.Channel.Number, "connection_details": connectionBrief(conn), "node": a.node.Config.Name,
		"vhost": printable(conn.Vhost()), "user": printable(conn.User), "user_who_performed_action": printable(conn.User), "state": "running",
		"confirm": s.Confirming, "transactional": s.Transactional, "prefetch_count": s.Prefetch,
		"consumer_count": s.Consumers, "messages_unacknowledged": s.Unacked, "messages_unconfirmed": s.Unconfirmed,
		"messages_uncommitted": s.UncommittedMessages, "acks_uncommitted": s.UncommittedAcknowledges,
	}
	if !a.since(node.RabbitMQ40) {
		o["global_prefetch_count"] = s.SharedPrefetch
	}
	now := figuresOfTraffic(s.Traffic)
	if rates := a.rates.of(s.Channel, now); now.happened() {
		o["message_stats"] = now.publisherStats(object{}, rates)
	}
	return o
}

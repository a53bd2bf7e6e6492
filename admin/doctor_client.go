package admin

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/topology"
)

// timeouts compares how long consumers may hold a message with how long the broker waits for the ack.
func (c *checkup) timeouts() {
	const id = "consumer.timeout"
	o := c.options
	node, seen := c.nodeTimeout()
	known := ""
	if !seen {
		known = ", unless the broker's consumer_timeout was set otherwise"
	}
	switch {
	case o.HandlerTimeout >= node:
		c.find(id, c.broker(), "lower the timeout of its handlers, or "+c.raise("…"), "handlers may hold a message for %v, the broker waits for %v%s", o.HandlerTimeout, node, known)
	case o.HandlerTimeout > 0 || len(o.Subscriptions) > 0:
	case seen || c.embedded():
		c.findAs(Info, id, c.broker(), "keep the timeouts of handlers below it, or run the doctor again with the longest time that a handler may take", "consumer_timeout is %v, and it is not known how long handlers may take", node)
	default:
		c.findAs(Info, id, c.broker(), "keep the timeouts of handlers below it; read it with rabbitmqctl eval 'application:get_env(rabbit, consumer_timeout).'",
			"the API does not show consumer_timeout, and it is not known how long handlers may take")
	}
	for _, q := range c.chart.live.Queues {
		limit, own := c.queueTimeout(q)
		handler := o.Subscriptions[q.Name].HandlerTimeout
		if handler == 0 && own && q.Consumers > 0 {
			handler = o.HandlerTimeout
		}
		switch {
		case limit == 0 || handler < limit:
		case !own && q.Consumers == 0 && c.chart.version.atLeast(4, 3): // its subscription will set its own timeout
		case own:
			c.find(id, q.Object(), "lower the timeout of its handlers, or raise x-consumer-timeout, or consumer-timeout in its policy", "its handlers may hold a message for %v, the queue waits for %v", handler, limit)
		default:
			c.find(id, q.Object(), "lower the timeout of its handlers, or "+c.raise(q.Name), "its handlers may hold a message for %v, the broker waits for %v%s", handler, limit, known)
		}
	}
}

// raise is how to make the broker wait longer for acks of a queue.
func (c *checkup) raise(queue string) string {
	if c.embedded() {
		return "raise the consumer timeout of the embedded broker"
	}
	if c.chart.version.before(3, 12) {
		return "raise consumer_timeout in rabbitmq.conf"
	}
	return fmt.Sprintf("raise consumer-timeout, in milliseconds, in a policy for queue %s, or consumer_timeout in rabbitmq.conf", queue)
}

// nodeTimeout is the consumer timeout of the node, and whether the API has shown it: from RabbitMQ 4.0 on, consumers have it.
func (c *checkup) nodeTimeout() (timeout time.Duration, seen bool) {
	for _, consumer := range c.chart.consumers {
		if q, exists := c.chart.live.Queue(consumer.Queue.object.Name); exists && !sets(q, "consumer-timeout") && consumer.Timeout > 0 {
			return time.Duration(consumer.Timeout), true
		}
	}
	return c.options.ConsumerTimeout, false
}

// queueTimeout is how long the broker waits for acks of a queue, and whether the queue or a consumer has set that. 0: forever.
func (c *checkup) queueTimeout(q topology.LiveQueue) (timeout time.Duration, own bool) {
	if c.chart.version.atLeast(4, 3) {
		if q.Type != quorum {
			return 0, false
		}
		for _, consumer := range c.chart.consumers {
			if ms, set := number(consumer.Args.object["x-consumer-timeout"]); set && consumer.Queue.object.Name == q.Name {
				return time.Duration(ms) * time.Millisecond, true
			}
		}
	}
	if ms, set := limitOf(q, "consumer-timeout"); set && c.chart.version.atLeast(3, 12) {
		return time.Duration(ms) * time.Millisecond, true
	}
	timeout, _ = c.nodeTimeout()
	return timeout, false
}

func (c *checkup) consumers() {
	for _, consumer := range c.chart.consumers {
		object := topology.Object{Kind: "consumer", Name: consumer.Tag + " of queue " + consumer.Queue.object.Name}
		shares, known := c.sharesPrefetch(consumer.Channel.object.Name)
		const fix = "set a prefetch (basic.qos) before consuming"
		switch {
		case strings.HasPrefix(consumer.Queue.object.Name, "amq.gen-"):
		case !consumer.Acks:
			c.find("consumer.auto-ack", object, "consume with acknowledgements, as rehop does", "it receives without acknowledgements")
		case consumer.Prefetch > 0 || shares:
		case known:
			c.find("consumer.unlimited", object, fix, "it has no prefetch limit")
		default:
			c.findAs(Info, "consumer.unlimited", object, fix+", for each consumer and not for the channel (global)",
				"it has no prefetch limit of its own, and RabbitMQ %s does not show whether its channel has one", c.chart.live.Version)
		}
	}
}

// sharesPrefetch reports whether the consumers of a channel share a prefetch, and whether that is known: the API of RabbitMQ 4 does not show it.
func (c *checkup) sharesPrefetch(channel string) (shares, known bool) {
	for _, ch := range c.chart.channels {
		if ch.Name == channel && ch.Shared != nil {
			return *ch.Shared > 0, true
		}
	}
	// If the broker denies global_qos, it applies a shared prefetch to each consumer.
	return false, slices.ContainsFunc(c.chart.features, func(f apiFeature) bool { return f.Name == "global_qos" && f.State == "denied" })
}

func (c *checkup) channels() {
	for _, ch := range c.chart.channels {
		if ch.Shared != nil && *ch.Shared > 0 {
			c.find("channel.global-prefetch", topology.Object{Kind: "channel", Name: ch.Name}, "set the prefetch for each consumer: basic.qos with global false", "its prefetch of %d is shared by all its consumers", *ch.Shared)
		}
	}
}

// users checks who may do what in the virtual host.
func (c *checkup) users() {
	clients := make(map[string]bool) // users of applications
	remote := make(map[string]bool)  // users that are connected from other machines
	for _, conn := range c.chart.connections {
		if !strings.HasPrefix(conn.Client.object.Name, adminName) {
			clients[conn.User] = true
		}
		addr, err := netip.ParseAddr(conn.Peer)
		if err != nil || addr.IsLoopback() {
			continue
		}
		remote[conn.User] = true
		if conn.User == "guest" {
			c.find("user.guest", topology.Object{Kind: "connection", Name: conn.Name},
				c.embeddedOr("give it its own user: users in rehop.yaml", "rabbitmqctl delete_user guest, after you gave its programs other users; keep the default of loopback_users"),
				"user guest is connected from %s", conn.Peer)
		}
	}
	for _, u := range c.chart.users {
		object := topology.Object{Kind: "user", Name: u.Name}
		permission, allowed := c.permission(u.Name)
		switch {
		case u.Name == "guest":
			c.findAs(Info, "user.guest", object, c.embeddedOr("nothing, if all programs run on this machine: guest may not log in from others; for those, name users in rehop.yaml", "rabbitmqctl change_password guest …, or delete_user guest"), "it exists")
		case !allowed:
			continue
		}
		switch {
		case u.has("administrator") && clients[u.Name]:
			if c.embedded() && u.Name == "guest" && !remote["guest"] {
				continue // only programs on this machine can log in as guest, and they can read its files as well
			}
			c.find("user.administrator", object, "give applications their own users, without tags: "+c.embeddedOr("users in rehop.yaml", "rabbitmqctl set_user_tags "+u.Name),
				"it has the tag administrator, and applications are connected as it")
		case !u.has("administrator") && allowed && everything(permission.Configure):
			c.wide(object)
		}
	}
}

// wide adds a finding for a user that may configure everything.
func (c *checkup) wide(user topology.Object) {
	const found = "it may configure everything in virtual host %q"
	vhost := c.admin.management.vhost
	if c.embedded() { // users in rehop.yaml may do everything, which cannot be changed
		c.findAs(Info, "user.wide", user, "for a user that rehop.yaml does not name: "+c.ctl("", "PUT /api/permissions/%s/"+user.Name), found, vhost)
		return
	}
	c.find("user.wide", user, c.ctl("rabbitmqctl set_permissions -p %q "+user.Name+" '^(rehop\\.|its own names).*' …", ""), found, vhost)
}

func (c *checkup) permission(user string) (apiPermission, bool) {
	i := slices.IndexFunc(c.chart.permissions, func(p apiPermission) bool { return p.User == user && p.Vhost == c.admin.management.vhost })
	if i < 0 {
		return apiPermission{}, false
	}
	return c.chart.permissions[i], true
}

// everything reports whether a pattern matches every name.
func everything(pattern string) bool {
	return slices.Contains([]string{".*", "^.*$", "^.*", ".*$", "^", ".", ".+", "^.+$", "(.*)", "^(.*)$"}, pattern)
}

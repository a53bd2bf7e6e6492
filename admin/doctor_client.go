package admin

import (
	"fmt"
	"strings"
	"time"

	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// timeouts compares how long consumers hold a message with how long the broker waits for their ack.
func (c *checkup) timeouts() {
	if c.embedded() {
		return
	}
	const id = "consumer.timeout"
	o := c.options
	node, seen := c.nodeTimeout()
	known := ""
	if !seen {
		known = ", unless the broker's consumer_timeout was set otherwise"
	}
	switch {
	case o.HandlerTimeout >= node:
		c.find(id, c.broker(), "lower Subscriber.Timeout, or "+c.raise("…"), "handlers may hold a message for %v, the broker waits for %v%s", o.HandlerTimeout, node, known)
	case o.HandlerTimeout > 0 || len(o.Subscriptions) > 0:
	case seen:
		c.findAs(Info, id, c.broker(), "keep Subscriber.Timeout below it, or set DoctorSubscription.HandlerTimeout", "consumer_timeout is %v, and the options do not say how long handlers may take", node)
	default:
		c.findAs(Info, id, c.broker(), "keep Subscriber.Timeout below it; look with rabbitmqctl eval 'application:get_env(rabbit, consumer_timeout).'",
			"the API does not show consumer_timeout, and the options do not say how long handlers may take")
	}
	for _, q := range c.chart.live.Queues {
		limit, own := c.queueTimeout(q)
		told := o.Subscriptions[q.Name].HandlerTimeout
		handler := told
		if told == 0 && own && q.Consumers > 0 {
			handler = o.HandlerTimeout
		}
		switch {
		case limit == 0 || handler < limit:
		case !own && q.Consumers == 0 && c.chart.version.atLeast(4, 3): // its subscription will ask for a timeout of its own
		case own:
			c.find(id, q.Object(), "lower Subscriber.Timeout, or raise x-consumer-timeout, or consumer-timeout in its policy", "its handlers may hold a message for %v, the queue waits for %v", handler, limit)
		default:
			c.find(id, q.Object(), "lower Subscriber.Timeout, or "+c.raise(q.Name), "its handlers may hold a message for %v, the broker waits for %v%s", handler, limit, known)
		}
	}
}

// raise is how to have the broker wait longer for acks of a queue.
func (c *checkup) raise(queue string) string {
	if c.chart.version.before(3, 12) {
		return "raise consumer_timeout in rabbitmq.conf"
	}
	return fmt.Sprintf("raise consumer-timeout, in milliseconds, in a policy for queue %s, or consumer_timeout in rabbitmq.conf", queue)
}

// nodeTimeout is the node's consumer timeout, and whether the API has shown it: from RabbitMQ 4.0 on, consumers have it.
func (c *checkup) nodeTimeout() (timeout time.Duration, seen bool) {
	for _, consumer := range c.chart.consumers {
		q, there := c.chart.live.Queue(consumer.Queue.object.Name)
		if _, own := q.Effective("consumer-timeout"); there && !own && consumer.Timeout > 0 {
			return time.Duration(consumer.Timeout), true
		}
	}
	return c.options.ConsumerTimeout, false
}

// queueTimeout is how long the broker waits for acks of a queue, and whether the queue or a consumer has set that. 0: for ever.
func (c *checkup) queueTimeout(q topology.LiveQueue) (timeout time.Duration, own bool) {
	if c.chart.version.atLeast(4, 3) && q.Type != string(layout.Quorum) {
		return 0, false
	}
	if c.chart.version.atLeast(4, 3) {
		for _, consumer := range c.chart.consumers {
			if ms, set := number(consumer.Args["x-consumer-timeout"]); set && consumer.Queue.object.Name == q.Name {
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

func (c *checkup) channels() {
	for _, ch := range c.chart.channels {
		if ch.Shared != nil && *ch.Shared > 0 {
			c.find("channel.global-prefetch", topology.Object{Kind: "channel", Name: ch.Name}, "set the prefetch for each consumer: basic.qos with global false", "its prefetch of %d is shared by all its consumers", *ch.Shared)
		}
	}
}

package admin

import (
	"slices"
	"strings"
)

func (c *checkup) consumers() {
	o := c.options
	known := "unless the broker's consumer_timeout was set otherwise"
	switch {
	case c.embedded():
	case o.HandlerTimeout == 0:
		c.findAs(Info, "consumer.timeout", c.broker(), "keep Subscription.Timeout below it; look with rabbitmqctl eval 'application:get_env(rabbit, consumer_timeout).'",
			"the API does not tell consumer_timeout, and Doctor was not told how long handlers may take")
	case o.HandlerTimeout >= o.ConsumerTimeout:
		c.find("consumer.timeout", c.broker(), "lower Subscription.Timeout, or raise consumer_timeout in rabbitmq.conf", "handlers may hold a message for %v, the broker waits for %v, %s", o.HandlerTimeout, o.ConsumerTimeout, known)
	}
	for _, consumer := range c.chart.consumers {
		object := Object{Kind: "consumer", Name: consumer.Tag + " of queue " + consumer.Queue.object.Name}
		switch {
		case strings.HasPrefix(consumer.Queue.object.Name, "amq.gen-"):
		case !consumer.Acks:
			c.find("consumer.auto-ack", object, "consume with acknowledgements, as rehop does", "it receives without acknowledgements")
		case consumer.Prefetch == 0 && !c.shares(consumer.Channel.object.Name):
			c.find("consumer.unlimited", object, "set a prefetch (basic.qos) before consuming", "it has no prefetch limit")
		}
	}
}

// shares reports whether the consumers of a channel share a limit.
func (c *checkup) shares(channel string) bool {
	return slices.ContainsFunc(c.chart.channels, func(ch apiChannel) bool { return ch.Name == channel && ch.Shared > 0 })
}

func (c *checkup) channels() {
	for _, ch := range c.chart.channels {
		if ch.Shared > 0 {
			c.find("channel.global-prefetch", Object{Kind: "channel", Name: ch.Name}, "set the prefetch for each consumer: basic.qos with global false", "its prefetch of %d is shared by all its consumers", ch.Shared)
		}
	}
}

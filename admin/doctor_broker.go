package admin

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/topology"
)

// embedded reports whether the broker is rehop's own, which has no Erlang and no feature flags.
func (c *checkup) embedded() bool { return c.chart.overview.Product == "rehop" }

func (c *checkup) versions() {
	v := c.chart.version
	switch {
	case c.embedded():
		return
	case v.before(3, 10):
		c.find("broker.version", c.broker(), "upgrade to RabbitMQ 3.10 or later", "it is RabbitMQ %s", c.chart.live.Version)
	case v.before(3, 13):
		c.findAs(Info, "broker.version", c.broker(), "upgrade to RabbitMQ 4 by way of 3.13", "it is RabbitMQ %s, which gets no more fixes", c.chart.live.Version)
	case v.atLeast(4, 0):
		c.find("broker.version-4", c.broker(), "set x-delivery-limit on quorum queues, and count with rehop's own headers; queues that rehop declares do both", "it is RabbitMQ %s", c.chart.live.Version)
	}
	// The lowest that each line of RabbitMQ runs on.
	lowest := release{23, 2}
	switch {
	case v.atLeast(4, 0):
		lowest = release{26, 2}
	case v.atLeast(3, 13):
		lowest = release{26, 0}
	case v.atLeast(3, 11):
		lowest = release{25, 0}
	}
	if e := releaseOf(c.chart.overview.Erlang); e.before(lowest.major, lowest.minor) {
		c.find("broker.erlang", c.broker(), "upgrade Erlang to "+lowest.String()+" or later", "it runs on Erlang %s", c.chart.overview.Erlang)
	}
}

func (c *checkup) flags() {
	var off []string
	for _, f := range c.chart.flags {
		switch {
		case f.State == "enabled" || f.State == "unavailable":
		case f.Name == "quorum_queue":
			c.find("broker.feature-flag", c.broker(), "rabbitmqctl enable_feature_flag quorum_queue", "feature flag quorum_queue is %s", f.State)
		case f.Stability == "stable" || f.Stability == "required":
			off = append(off, f.Name)
		}
	}
	if len(off) > 0 {
		slices.Sort(off)
		c.findAs(Warning, "broker.feature-flag", c.broker(), "rabbitmqctl enable_feature_flag all", "feature flags are not enabled: %s", strings.Join(off, ", "))
	}
}

func (c *checkup) nodes() {
	for _, n := range c.chart.nodes {
		node := Object{Kind: "node", Name: n.Name}
		if !n.Running {
			c.find("broker.node-down", node, "start the node, or remove it with rabbitmqctl forget_cluster_node", "it is down")
		}
		if n.MemoryFull {
			c.find("broker.alarm", node, "consume what waits, stop who publishes, or raise vm_memory_high_watermark", "it has a memory alarm")
		}
		if n.DiskFull {
			c.find("broker.alarm", node, "free disk space, or lower disk_free_limit", "it has a disk alarm")
		}
		if len(n.Partitions) > 0 {
			c.find("broker.partition", node, "mend the network, then restart the nodes of the side that is given up; set cluster_partition_handling to pause_minority",
				"it has lost %s", strings.Join(n.Partitions, ", "))
		}
	}
}

func (c *checkup) unroutable() {
	if n := c.chart.vhost.Stats.object.Dropped; n > 0 {
		c.find("broker.unroutable", c.vhost(), "publish mandatory, as rehop does, or give the exchanges an alternate exchange", "%d messages were dropped because no queue was bound for them", n)
	}
	if n := c.chart.vhost.Stats.object.Returned; n > 0 {
		c.findAs(Info, "broker.unroutable", c.vhost(), "bind a queue for their keys, or correct the keys", "%d messages went back to their publishers because no queue was bound for them", n)
	}
}

func (c *checkup) churn() {
	churn := c.chart.overview.Churn.object
	for what, rate := range map[string]float64{"connections": churn.Connections.Rate, "channels": churn.Channels.Rate, "queues": churn.Queues.Rate} {
		if rate > c.options.MaxChurn {
			c.find("broker.churn", c.broker(), "keep connections and channels open, and declare queues once; a client of rehop does", "%.0f %s are opened or declared per second", rate, what)
		}
	}
	if slices.ContainsFunc(c.chart.live.Queues, atLeastOnce) && !c.embedded() {
		c.find("broker.dead-letter-timeout", c.broker(),
			"look with rabbitmqctl eval 'application:get_env(rabbit, dead_letter_worker_publisher_confirm_timeout).'; in advanced.config: {rabbit, [{dead_letter_worker_publisher_confirm_timeout, 15000}]}",
			"queues dead-letter at least once, and the API does not tell the timeout")
	}
}

// atLeastOnce reports whether a queue keeps its dead letters until they are confirmed.
func atLeastOnce(q topology.LiveQueue) bool {
	_, dies := q.Effective("dead-letter-exchange")
	return dies && q.Type == "quorum" && setting(q, "dead-letter-strategy") == "at-least-once" && setting(q, "overflow") == "reject-publish"
}

// setting is what an argument and the policies come to, as text.
func setting(q topology.LiveQueue, name string) string {
	v, _ := q.Effective(name)
	text, _ := v.(string)
	return cmp.Or(text, "")
}

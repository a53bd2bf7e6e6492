package admin

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rehop/rehop/topology"
)

// embeddedProduct is the product name of the embedded broker.
const embeddedProduct = "rehop"

// embedded reports whether the broker is the embedded one, which has no Erlang and no feature flags.
func (c *checkup) embedded() bool { return c.chart.overview.Product == embeddedProduct }

// embeddedOr is the first text for the embedded broker, and the second for RabbitMQ.
func (c *checkup) embeddedOr(embedded, rabbit string) string {
	if c.embedded() {
		return embedded
	}
	return rabbit
}

// ctl is what to run: a command of RabbitMQ, or a request to the management API of the embedded broker, which has no such commands. %q in the command
// and %s in the request stand for the virtual host.
func (c *checkup) ctl(command, request string) string {
	if c.embedded() {
		return c.admin.management.path(request) + " of the management API"
	}
	return strings.ReplaceAll(command, "%q", strconv.Quote(c.admin.management.vhost))
}

// prevents is what a disabled feature flag prevents, in addition to upgrades.
var prevents = map[string]string{
	"stream_queue":                 "no stream can be declared",
	"quorum_queue_non_voters":      "a new member of a quorum queue votes before it has caught up",
	"message_containers_deaths_v2": "cycles of dead letters are not always found",
	"khepri_db":                    "definitions stay in Mnesia, which RabbitMQ 4.3 does not have",
}

func (c *checkup) flags() {
	var off []string
	for _, f := range c.chart.flags {
		if f.State == "enabled" || f.State == "unavailable" || f.Stability != "stable" && f.Stability != "required" {
			continue
		}
		if f.Name == "quorum_queue" {
			c.find("broker.feature-flag", c.broker(), "rabbitmqctl enable_feature_flag quorum_queue", "feature flag quorum_queue is %s: no quorum queue can be declared", f.State)
			continue
		}
		if what, known := prevents[f.Name]; known {
			f.Name += " (without it " + what + ")"
		}
		off = append(off, f.Name)
	}
	if len(off) > 0 {
		slices.Sort(off)
		c.findAs(Warning, "broker.feature-flag", c.broker(), "rabbitmqctl enable_feature_flag all", "%s starts only if they are enabled, and these are not: %s", c.chart.version.requiring(), strings.Join(off, ", "))
	}
}

func (c *checkup) nodes() {
	for _, n := range c.chart.nodes {
		node := topology.Object{Kind: "node", Name: n.Name}
		if n.Type == "ram" {
			c.find("broker.ram-node", node, "on that node: rabbitmqctl stop_app, rabbitmqctl change_cluster_node_type disc, rabbitmqctl start_app", "it is a RAM node")
		}
		if !n.Running {
			c.find("broker.node-down", node, "start the node, or remove it with rabbitmqctl forget_cluster_node", "it is down")
		}
		if n.MemoryFull {
			c.find("broker.alarm", node, "consume messages, stop publishers, or "+c.embeddedOr("give the process more memory (its control group, or GOMEMLIMIT)", "raise vm_memory_high_watermark"), "it has a memory alarm")
		}
		if n.DiskFull {
			c.find("broker.alarm", node, c.embeddedOr("free disk space; rehop broker compact frees the space of acked messages while the broker is stopped", "free disk space, or lower disk_free_limit"), "it has a disk alarm")
		}
		if len(n.Partitions) > 0 {
			c.find("broker.partition", node, "repair the network, then restart the nodes of the side that you give up; set cluster_partition_handling to pause_minority",
				"it has lost %s", strings.Join(n.Partitions, ", "))
		}
	}
}

func (c *checkup) unroutable() {
	if n := c.chart.vhost.Stats.object.Dropped; n > 0 {
		c.find("broker.unroutable", c.vhost(), "publish mandatory, as rehop does, or give the exchanges an alternate exchange", "%d messages were dropped because no queue was bound for them", n)
	}
	if n := c.chart.vhost.Stats.object.Returned; n > 0 {
		c.findAs(Info, "broker.unroutable", c.vhost(), "bind a queue for their keys, or correct the keys", "%d messages were returned to their publishers because no queue was bound for them", n)
	}
}

func (c *checkup) churn() {
	churn := c.chart.overview.Churn.object
	for what, rate := range map[string]float64{"connections": churn.Connections.Rate, "channels": churn.Channels.Rate, "queues": churn.Queues.Rate} {
		if rate > c.options.MaxChurn {
			c.find("broker.churn", c.broker(), "keep connections and channels open, and declare queues once, as rehop does", "%.0f %s are opened or declared per second", rate, what)
		}
	}
	if slices.ContainsFunc(c.chart.live.Queues, atLeastOnce) && !c.embedded() {
		c.find("broker.dead-letter-timeout", c.broker(),
			"look with rabbitmqctl eval 'application:get_env(rabbit, dead_letter_worker_publisher_confirm_timeout).'; in advanced.config: {rabbit, [{dead_letter_worker_publisher_confirm_timeout, 15000}]}",
			"queues dead-letter at least once, and the API does not show the timeout")
	}
}

package admin

import (
	"slices"
)

// deprecation is what is known of a deprecated feature of RabbitMQ.
type deprecation struct {
	about    string // the ailment of the objects that use it; "": there is none
	severity Severity
	fix      string
}

// deprecations are those of https://www.rabbitmq.com/release-information/deprecated-features-list.
var deprecations = map[string]deprecation{
	"transient_nonexcl_queues": {"queue.transient", Warning, "declare queues durable or exclusive; until that is done, put deprecated_features.permit.transient_nonexcl_queues = true into the rabbitmq.conf of all nodes before an upgrade to 4.3, which refuses them otherwise"},
	"global_qos":               {"channel.global-prefetch", Warning, "set the prefetch for each consumer: basic.qos with global false; RabbitMQ 4.3 takes each for that"},
	"queue_master_locator":     {"queue.old-arguments", Warning, "use x-queue-leader-locator, or queue-leader-locator in policies; RabbitMQ 4.3 refuses x-queue-master-locator"},
	"classic_queue_mirroring":  {"policy.mirrors", Warning, "migrate classic queues to quorum queues (rehop topology migrate), and take the ha- keys out of policies"},
	"ram_node_type":            {"broker.ram-node", Warning, "rabbitmqctl change_cluster_node_type disc, on the RAM nodes"},
	// Nothing of rehop's is concerned by it, and every management plugin uses it.
	"management_metrics_collection": {"", Info, "use the Prometheus plugin for metrics"},
}

// deprecated notes deprecated features that the broker says are in use, unless the objects that use them were found in this virtual host.
func (c *checkup) deprecated() {
	for _, f := range c.chart.used {
		d, known := deprecations[f.Name]
		if !known {
			d = deprecation{"", Warning, "see https://www.rabbitmq.com/release-information/deprecated-features-list"}
		}
		if d.about != "" && slices.ContainsFunc(c.findings, func(found Finding) bool { return found.ID == d.about }) {
			continue
		}
		found := "feature %s is deprecated, and in use"
		if d.about != "" {
			found += " in another virtual host"
		}
		c.findAs(d.severity, "broker.deprecated-feature", c.broker(), d.fix, found, f.Name)
	}
}

// sharesPrefetch reports whether the consumers of a channel share a limit, and whether that can be told: the API of RabbitMQ 4 does not show it.
func (c *checkup) sharesPrefetch(channel string) (shares, known bool) {
	for _, ch := range c.chart.channels {
		if ch.Name == channel && ch.Shared != nil {
			return *ch.Shared > 0, true
		}
	}
	i := slices.IndexFunc(c.chart.features, func(f apiFeature) bool { return f.Name == "global_qos" })
	return false, i >= 0 && c.chart.features[i].State == "denied" // then such a limit is one of each consumer
}

package admin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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

// series is what is known about a release series of RabbitMQ.
type series struct {
	release   release
	community string // the last day of community support
	extended  string // the last day of support under a commercial license
	erlang    release
	next      string // the first series of an upgrade in place; "" for the newest series
}

// knownSeries are the series in RabbitMQ's release information (https://www.rabbitmq.com/release-information, as of August 2026), the oldest
// first. Only the newest series has community support: it ends with the month in which the next series is released, or on the day that is
// announced. The upgrade paths are from https://www.rabbitmq.com/docs/upgrade, the lowest versions of Erlang from
// https://www.rabbitmq.com/docs/which-erlang. Newer series are not known, and nothing is reported about them.
var knownSeries = []series{
	{release{3, 10}, "2022-09-30", "2023-12-31", release{23, 2}, "3.11"},
	{release{3, 11}, "2023-06-30", "2024-06-30", release{25, 0}, "3.12"},
	{release{3, 12}, "2024-02-29", "2025-06-30", release{25, 0}, "3.13"},
	{release{3, 13}, "2024-09-30", "2029-12-31", release{26, 0}, "4.2"},
	{release{4, 0}, "2025-04-30", "2026-09-30", release{26, 2}, "4.2"},
	{release{4, 1}, "2026-01-31", "2027-04-30", release{26, 2}, "4.2"},
	{release{4, 2}, "2026-07-31", "2030-06-30", release{26, 2}, "4.3"},
	{release{4, 3}, "2026-11-30", "2028-04-30", release{26, 2}, ""},
}

// seriesOf finds what is known about a release.
func seriesOf(r release) (series, bool) {
	i := slices.IndexFunc(knownSeries, func(s series) bool { return s.release == r })
	if i < 0 {
		return series{}, false
	}
	return knownSeries[i], true
}

// day reads a date of the table.
func day(text string) time.Time {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		panic("admin: " + err.Error())
	}
	return t
}

// yearWithoutFixes is how long a series may be out of community support before that is a warning.
const yearWithoutFixes = 365 * 24 * time.Hour

// unsupported reports whether the series gets no more fixes on a day, and how bad that is.
func (s series) unsupported(now time.Time) (Severity, bool) {
	ended := day(s.community).AddDate(0, 0, 1)
	switch {
	case now.Before(ended):
		return "", false
	case now.Before(ended.Add(yearWithoutFixes)) && now.Before(day(s.extended)):
		return Info, true
	}
	return Warning, true
}

// path is the upgrade path to the newest known series, in place.
func (s series) path() string {
	way := s.release.String()
	for s.next != "" {
		way += " → " + s.next
		s, _ = seriesOf(releaseOf(s.next))
	}
	return way
}

func (c *checkup) versions() {
	v := c.chart.version
	if c.embedded() {
		return
	}
	if v.before(3, 10) {
		c.find("broker.version", c.broker(), "upgrade to RabbitMQ 3.10 or later", "it is RabbitMQ %s", c.chart.live.Version)
	}
	if v.atLeast(4, 0) {
		c.find("broker.version-4", c.broker(), "set x-delivery-limit on quorum queues, and count with rehop's own headers; queues that rehop declares do both", "it is RabbitMQ %s", c.chart.live.Version)
	}
	s, known := seriesOf(v)
	if !known {
		return
	}
	if severity, out := s.unsupported(c.now); out {
		c.findAs(severity, "broker.support", c.broker(), s.leave(),
			"it is RabbitMQ %s; community support for %s ended on %s, support under a commercial license ends or ended on %s", c.chart.live.Version, v, s.community, s.extended)
	}
	if e := releaseOf(c.chart.overview.Erlang); e.before(s.erlang.major, s.erlang.minor) {
		c.find("broker.erlang", c.broker(), "upgrade Erlang to "+s.erlang.String()+" or later", "it runs on Erlang %s", c.chart.overview.Erlang)
	}
}

// leave is how to upgrade from a series to a supported one.
func (s series) leave() string {
	if s.next == "" {
		return "upgrade to the newest release series; see docs/upgrade.md"
	}
	newest := knownSeries[len(knownSeries)-1].release
	return fmt.Sprintf("upgrade in place by way of %s, or move to a new cluster of RabbitMQ %s; see docs/upgrade.md", s.path(), newest)
}

// requiring is the next release series that starts only if all feature flags of the ones before it are enabled.
func (r release) requiring() string {
	switch {
	case r.before(3, 12):
		return "RabbitMQ 3.12"
	case r.before(4, 0):
		return "RabbitMQ 4.0"
	case r.before(4, 3):
		return "RabbitMQ 4.3"
	}
	return "a later release"
}

// deprecation is a deprecated feature of RabbitMQ.
type deprecation struct {
	about    string // the check that finds the objects that use it; "": there is none
	severity Severity
	fix      string
}

// deprecations are from https://www.rabbitmq.com/release-information/deprecated-features-list.
var deprecations = map[string]deprecation{
	"transient_nonexcl_queues": {"queue.transient", Warning, "declare queues durable or exclusive; until that is done, put deprecated_features.permit.transient_nonexcl_queues = true into the rabbitmq.conf of all nodes before an upgrade to 4.3, which refuses them otherwise"},
	"global_qos":               {"channel.global-prefetch", Warning, "set the prefetch for each consumer: basic.qos with global false; RabbitMQ 4.3 applies it to each consumer anyway"},
	"queue_master_locator":     {"queue.old-arguments", Warning, "use x-queue-leader-locator, or queue-leader-locator in policies; RabbitMQ 4.3 refuses x-queue-master-locator"},
	"classic_queue_mirroring":  {"policy.mirrors", Warning, "migrate classic queues to quorum queues (rehop topology migrate), and remove the ha- keys from policies"},
	"ram_node_type":            {"broker.ram-node", Warning, "rabbitmqctl change_cluster_node_type disc, on the RAM nodes"},
	// It does not affect rehop, and every management plugin uses it.
	"management_metrics_collection": {"", Info, "use the Prometheus plugin for metrics"},
}

// deprecated finds deprecated features that are in use, unless the objects that use them were found in this virtual host. The others
// may be in another one, or be among what the API does not show.
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
			found += ", by objects that were not found in this virtual host"
		}
		c.findAs(d.severity, "broker.deprecated-feature", c.broker(), d.fix, found, f.Name)
	}
}

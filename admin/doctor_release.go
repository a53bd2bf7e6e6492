package admin

import (
	"fmt"
	"slices"
	"time"
)

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

// deprecated finds deprecated features that are in use, unless the objects that use them were found in this virtual host.
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

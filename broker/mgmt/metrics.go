package mgmt

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/session"
)

// exposition is metrics in the text format of Prometheus.
type exposition struct{ bytes.Buffer }

// sampled is a value with its labels, such as a="b".
type sampled struct {
	labels string
	value  float64
}

// family is a metric with all its values.
func (e *exposition) family(name, kind, help string, values ...sampled) {
	fmt.Fprintf(e, "# TYPE %s %s\n# HELP %s %s\n", name, kind, name, help)
	for _, v := range values {
		if v.labels == "" {
			fmt.Fprintf(e, "%s %v\n", name, v.value)
		} else {
			fmt.Fprintf(e, "%s{%s} %v\n", name, v.labels, v.value)
		}
	}
}

// value is a metric with one value and no labels.
func (e *exposition) value(name, kind, help string, value float64) {
	e.family(name, kind, help, sampled{"", value})
}

func labels(pairs ...string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `%s="%s"`, pairs[i], escape.Replace(printable(pairs[i+1])))
	}
	return b.String()
}

// metrics returns the sums over all queues and connections.
func (c *call) metrics() (any, error) { return c.exposed(false), nil }

// metricsPerObject returns the metrics of each queue and connection.
func (c *call) metricsPerObject() (any, error) { return c.exposed(true), nil }

func (c *call) exposed(perObject bool) document {
	e := &exposition{}
	c.exposeNode(e)
	c.exposeTotals(e)
	queues, consumers := c.exposeQueues(e, perObject)
	connections := c.node.Connections()
	channels, publishers := c.exposeConnections(e, connections, perObject)
	protocol := labels("protocol", "amqp091")
	e.family("rabbitmq_global_publishers", "gauge", "Channels that have published", sampled{protocol, float64(publishers)})
	e.family("rabbitmq_global_consumers", "gauge", "Consumers", sampled{protocol, float64(consumers)})
	e.value("rabbitmq_connections", "gauge", "Open connections", float64(len(connections)))
	e.value("rabbitmq_channels", "gauge", "Open channels", float64(channels))
	e.value("rabbitmq_queues", "gauge", "Queues", float64(queues))
	e.value("rabbitmq_consumers", "gauge", "Consumers", float64(consumers))
	return document{"text/plain; version=0.0.4; charset=utf-8", e.Bytes()}
}

func (c *call) exposeNode(e *exposition) {
	version := c.node.Config.Version
	e.family("rabbitmq_build_info", "untyped", "Version of the broker",
		sampled{labels("rabbitmq_version", version, "prometheus_plugin_version", version, "erlang_version", "none", "product_name", "rehop", "product_version", version), 1})
	e.family("rabbitmq_identity_info", "untyped", "Name of the broker", sampled{labels("rabbitmq_node", c.node.Config.Name, "rabbitmq_cluster", c.node.ClusterName()), 1})
	raised := c.node.Alarms()
	alarm := func(name, help string, any ...node.Alarm) {
		value := 0.0
		if slices.ContainsFunc(any, func(a node.Alarm) bool { return slices.Contains(raised, a) }) {
			value = 1
		}
		e.value("rabbitmq_alarms_"+name, "untyped", help, value)
	}
	alarm("memory_used_watermark", "1 while publishers are blocked because memory is short", node.MemoryAlarm)
	alarm("free_disk_space_watermark", "1 while publishers are blocked because the disk is nearly full or has failed", node.DiskAlarm, node.FailedAlarm)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	resident := float64(memory.Sys - memory.HeapReleased)
	e.value("rabbitmq_process_resident_memory_bytes", "gauge", "Memory that the process has from the system", resident)
	// Messages block publishers, not the memory of the process. So the limit is what the process has, and what messages may still take.
	used, limit := c.node.Memory()
	e.value("rabbitmq_resident_memory_limit_bytes", "gauge", "Memory of the process at which more messages would block publishers", resident+float64(limit-used))
	if free, ok := c.node.DiskFree(); ok {
		e.value("rabbitmq_disk_space_available_bytes", "gauge", "Free disk space in the broker's directory", float64(free))
	}
	if open, limit, ok := openFiles(); ok {
		e.value("rabbitmq_process_open_fds", "gauge", "Open files and sockets of the process", float64(open))
		e.value("rabbitmq_process_max_fds", "gauge", "Limit of open files and sockets of the process", float64(limit))
		e.value("rabbitmq_process_open_tcp_sockets", "gauge", "Open connections", float64(len(c.node.Connections())))
		e.value("rabbitmq_process_max_tcp_sockets", "gauge", "Limit of open connections", float64(limit))
	}
	e.value("rabbitmq_disk_space_available_limit_bytes", "gauge", "Free disk space below which publishers are blocked", float64(c.node.DiskReserve()))
}

// metric is a metric of queues or connections.
type metric[T any] struct {
	name, kind, help string
	of               func(T) float64
}

// expose exposes metrics of all items, or their sums unless perObject.
func expose[T any](e *exposition, prefix string, metrics []metric[T], items []T, labels []string, perObject bool) {
	for _, m := range metrics {
		sum := sampled{}
		values := make([]sampled, len(items))
		for i, item := range items {
			values[i] = sampled{labels[i], m.of(item)}
			sum.value += values[i].value
		}
		if !perObject {
			values = []sampled{sum}
		}
		e.family(prefix+m.name, m.kind, m.help, values...)
	}
}

// exposeQueues returns how many queues and consumers there are.
func (c *call) exposeQueues(e *exposition, perObject bool) (queues, consumers int) {
	var names []string
	var statuses []queue.Status
	for q := range c.node.Queues() {
		s := q.Status()
		names = append(names, labels("vhost", q.Vhost.Name, "queue", q.Name))
		statuses = append(statuses, s)
		consumers += len(s.Consumers)
	}
	expose(e, "rabbitmq_queue_", queueMetrics, statuses, names, perObject)
	return len(statuses), consumers
}

// queueMetrics are the metrics of queues.
var queueMetrics = []metric[queue.Status]{
	{"messages_ready", "gauge", "Messages that wait for a consumer", func(s queue.Status) float64 { return float64(s.Ready) }},
	{"messages_unacked", "gauge", "Messages that were delivered and not acknowledged", func(s queue.Status) float64 { return float64(s.Unacked) }},
	{"messages", "gauge", "Messages that are ready, delayed, unacknowledged, or dead letters that the queue keeps", func(s queue.Status) float64 { return float64(s.Ready + s.Delayed + s.Unacked + s.Kept) }},
	{"consumers", "gauge", "Consumers of queues", func(s queue.Status) float64 { return float64(len(s.Consumers) + s.CountedAsConsumers) }},
	{"consumer_capacity", "gauge", "1 if the queue would deliver a message at once", capacity},
	{"consumer_utilisation", "gauge", "Older name of consumer_capacity", capacity},
	{"messages_ready_bytes", "gauge", "Bytes of messages that wait for a consumer", func(s queue.Status) float64 { return float64(s.ReadyBytes) }},
	{"messages_unacked_bytes", "gauge", "Bytes of messages that are not acknowledged", func(s queue.Status) float64 { return float64(s.UnackedBytes) }},
	{"messages_bytes", "gauge", "Bytes of all messages", func(s queue.Status) float64 { return float64(s.ReadyBytes + s.UnackedBytes + s.KeptBytes) }},
	{"messages_published_total", "counter", "Messages published to queues", func(s queue.Status) float64 { return float64(s.Totals.Published) }},
}

var connectionMetrics = []metric[*session.Connection]{
	{"channels", "gauge", "Channels of connections", func(c *session.Connection) float64 { return float64(len(c.Channels())) }},
	{"outgoing_bytes_total", "counter", "Bytes sent to clients", func(c *session.Connection) float64 { return float64(c.Sent()) }},
	{"incoming_bytes_total", "counter", "Bytes received from clients", func(c *session.Connection) float64 { return float64(c.ReceivedBytes()) }},
	{"incoming_packets_total", "counter", "Frames received from clients", func(c *session.Connection) float64 { return float64(c.Received()) }},
}

// exposeConnections returns how many channels there are, and how many of them have published.
func (c *call) exposeConnections(e *exposition, connections []*session.Connection, perObject bool) (channels, publishers int) {
	var names []string
	for _, conn := range connections {
		names = append(names, labels("connection", conn.Name))
		for _, ch := range conn.Channels() {
			channels++
			if ch.Traffic().Published > 0 {
				publishers++
			}
		}
	}
	expose(e, "rabbitmq_connection_", connectionMetrics, connections, names, perObject)
	return channels, publishers
}

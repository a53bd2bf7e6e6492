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

// sampled is a value with its labels, written as a="b".
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

// labels writes pairs of names and values.
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

// metrics adds up all queues and all connections.
func (c *call) metrics() (any, error) { return c.exposed(false), nil }

// metricsPerObject has each on its own.
func (c *call) metricsPerObject() (any, error) { return c.exposed(true), nil }

func (c *call) exposed(perObject bool) document {
	e := &exposition{}
	c.exposeNode(e)
	c.exposeTally(e)
	queues, consumers := c.exposeQueues(e, perObject)
	connections := c.node.Connections()
	channels, publishers := c.exposeConnections(e, connections, perObject)
	exposePresent(e, publishers, consumers)
	e.family("rabbitmq_connections", "gauge", "Connections that are open", sampled{"", float64(len(connections))})
	e.family("rabbitmq_channels", "gauge", "Channels that are open", sampled{"", float64(channels)})
	e.family("rabbitmq_queues", "gauge", "Queues that there are", sampled{"", float64(queues)})
	e.family("rabbitmq_consumers", "gauge", "Consumers that are subscribed", sampled{"", float64(consumers)})
	return document{"text/plain; version=0.0.4; charset=utf-8", e.Bytes()}
}

func (c *call) exposeNode(e *exposition) {
	name := c.node.Name()
	e.family("rabbitmq_build_info", "untyped", "Which broker this is",
		sampled{labels("rabbitmq_version", c.node.Version(), "prometheus_plugin_version", c.node.Version(), "erlang_version", "none", "product_name", "rehop", "product_version", c.node.Version()), 1})
	e.family("rabbitmq_identity_info", "untyped", "How this broker is called", sampled{labels("rabbitmq_node", name, "rabbitmq_cluster", c.node.ClusterName()), 1})
	raised := c.node.Alarms()
	is := func(any ...node.Alarm) sampled {
		if slices.ContainsFunc(any, func(a node.Alarm) bool { return slices.Contains(raised, a) }) {
			return sampled{"", 1}
		}
		return sampled{"", 0}
	}
	e.family("rabbitmq_alarms_memory_used_watermark", "untyped", "1 while publishers are blocked because there is too much in memory", is(node.MemoryAlarm))
	e.family("rabbitmq_alarms_free_disk_space_watermark", "untyped", "1 while publishers are blocked because the disk is nearly full or has failed", is(node.DiskAlarm, node.FailedAlarm))
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	resident := float64(memory.Sys - memory.HeapReleased)
	e.family("rabbitmq_process_resident_memory_bytes", "gauge", "Memory that the process has from the system", sampled{"", resident})
	// What blocks publishers are messages, not the process: the limit is as far from what the process has as messages are from theirs.
	used, limit := c.node.Memory()
	e.family("rabbitmq_resident_memory_limit_bytes", "gauge", "With so much memory, if more messages took it, publishers would be blocked", sampled{"", resident + float64(limit-used)})
	if free, ok := c.node.DiskFree(); ok {
		e.family("rabbitmq_disk_space_available_bytes", "gauge", "Free space where the broker keeps its files", sampled{"", float64(free)})
	}
	if files, ok := openFiles(); ok {
		e.family("rabbitmq_process_open_fds", "gauge", "Files and sockets that the process has open", sampled{"", float64(files.open)})
		e.family("rabbitmq_process_max_fds", "gauge", "As many as the process may have open", sampled{"", float64(files.limit)})
		e.family("rabbitmq_process_open_tcp_sockets", "gauge", "Connections that are open", sampled{"", float64(len(c.node.Connections()))})
		e.family("rabbitmq_process_max_tcp_sockets", "gauge", "As many connections as there is room for", sampled{"", float64(files.limit)})
	}
	e.family("rabbitmq_disk_space_available_limit_bytes", "gauge", "With less free space than this publishers are blocked", sampled{"", float64(c.node.DiskReserve())})
}

// exposeQueues returns how many queues and consumers there are.
func (c *call) exposeQueues(e *exposition, perObject bool) (queues, consumers int) {
	var names []string
	var statuses []queue.Status
	for _, v := range c.node.Vhosts() {
		for _, q := range v.Queues() {
			names = append(names, labels("vhost", v.Name, "queue", q.Name))
			statuses = append(statuses, q.Status())
		}
	}
	for _, m := range queueMetrics {
		values := make([]sampled, len(statuses))
		for i, s := range statuses {
			values[i] = sampled{names[i], m.of(s)}
		}
		e.family("rabbitmq_queue_"+m.name, m.kind, m.help, summed(values, perObject)...)
	}
	for _, s := range statuses {
		consumers += len(s.Consumers)
	}
	return len(statuses), consumers
}

// queueMetrics is never changed.
var queueMetrics = []struct {
	name, kind, help string
	of               func(queue.Status) float64
}{
	{"messages_ready", "gauge", "Messages that wait for a consumer", func(s queue.Status) float64 { return float64(s.Ready) }},
	{"messages_unacked", "gauge", "Messages that clients have and have not acknowledged", func(s queue.Status) float64 { return float64(s.Unacked) }},
	{"messages", "gauge", "Messages: ready, delayed, not acknowledged, or dead and kept", func(s queue.Status) float64 { return float64(s.Ready + s.Delayed + s.Unacked + s.Kept) }},
	{"consumers", "gauge", "Consumers of queues", func(s queue.Status) float64 { return float64(len(s.Consumers) + s.CountedAsConsumers) }},
	{"consumer_capacity", "gauge", "Whether a message that came now would be delivered at once", capacity},
	{"consumer_utilisation", "gauge", "The same, under its older name", capacity},
	{"messages_ready_bytes", "gauge", "Bytes of messages that wait for a consumer", func(s queue.Status) float64 { return float64(s.ReadyBytes) }},
	{"messages_unacked_bytes", "gauge", "Bytes of messages that are not acknowledged", func(s queue.Status) float64 { return float64(s.UnackedBytes) }},
	{"messages_bytes", "gauge", "Bytes of all messages", func(s queue.Status) float64 { return float64(s.ReadyBytes + s.UnackedBytes + s.KeptBytes) }},
	{"messages_published_total", "counter", "Messages that have come into queues", func(s queue.Status) float64 { return float64(s.Totals.Published) }},
}

// summed adds values up unless each is wanted on its own.
func summed(values []sampled, perObject bool) []sampled {
	if perObject {
		return values
	}
	sum := sampled{}
	for _, v := range values {
		sum.value += v.value
	}
	return []sampled{sum}
}

// exposeConnections returns how many channels there are, and on how many something was published.
func (c *call) exposeConnections(e *exposition, connections []*session.Connection, perObject bool) (channels, publishers int) {
	var perConnection, sent, received, incoming []sampled
	for _, conn := range connections {
		label := labels("connection", conn.Name)
		mine := conn.Channels()
		channels += len(mine)
		for _, ch := range mine {
			if ch.Traffic().Published > 0 {
				publishers++
			}
		}
		perConnection = append(perConnection, sampled{label, float64(len(mine))})
		sent = append(sent, sampled{label, float64(conn.Sent())})
		received = append(received, sampled{label, float64(conn.Received())})
		incoming = append(incoming, sampled{label, float64(conn.ReceivedBytes())})
	}
	for _, m := range []struct {
		name, kind, help string
		values           []sampled
	}{{"channels", "gauge", "Channels of connections", perConnection}, {"outgoing_bytes_total", "counter", "Bytes that clients were sent", sent},
		{"incoming_bytes_total", "counter", "Bytes that clients have sent", incoming},
		{"incoming_packets_total", "counter", "Frames that clients have sent", received}} {
		e.family("rabbitmq_connection_"+m.name, m.kind, m.help, summed(m.values, perObject)...)
	}
	return channels, publishers
}

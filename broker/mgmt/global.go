package mgmt

import (
	"slices"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/queue"
)

// typeLabel is RabbitMQ's name for a queue type in metrics.
func typeLabel(kind queue.Type) string { return "rabbit_" + string(kind) + "_queue" }

// globalMetrics are the counters that exist per queue type.
var globalMetrics = []struct {
	name, help string
	of         func(queue.Totals) uint64
}{
	{"delivered_total", "Messages delivered to clients", func(t queue.Totals) uint64 { return t.Delivered + t.DeliveredNoAck + t.Got + t.GotNoAck }},
	{"delivered_consume_manual_ack_total", "Messages delivered to consumers with manual acknowledgements", func(t queue.Totals) uint64 { return t.Delivered }},
	{"delivered_consume_auto_ack_total", "Messages delivered to consumers with automatic acknowledgements", func(t queue.Totals) uint64 { return t.DeliveredNoAck }},
	{"delivered_get_manual_ack_total", "Messages delivered by basic.get with manual acknowledgements", func(t queue.Totals) uint64 { return t.Got }},
	{"delivered_get_auto_ack_total", "Messages delivered by basic.get with automatic acknowledgements", func(t queue.Totals) uint64 { return t.GotNoAck }},
	{"get_empty_total", "Calls of basic.get on an empty queue", func(t queue.Totals) uint64 { return t.GotNothing }},
	{"redelivered_total", "Messages redelivered to clients", func(t queue.Totals) uint64 { return t.Redelivered }},
	{"acknowledged_total", "Messages acknowledged", func(t queue.Totals) uint64 { return t.Acked }},
}

// exposeDeadLetters exposes each kind of dead letters from the start, so that a rate includes the first one.
func exposeDeadLetters(e *exposition, t node.MessageCounts) {
	type kind struct {
		queue    queue.Type
		strategy node.Strategy
	}
	classic := []kind{{queue.Classic, node.AtMostOnce}, {queue.Classic, node.Disabled}}
	short := []kind{{queue.Quorum, node.AtMostOnce}, {queue.Quorum, node.Disabled}}
	quorum := slices.Concat([]kind{{queue.Quorum, node.AtLeastOnce}}, short)
	for _, m := range []struct {
		reason queue.Reason
		help   string
		kinds  []kind
	}{
		{queue.DeliveryLimit, "Messages dead-lettered because of the delivery limit", quorum},
		{queue.Expired, "Messages dead-lettered because they expired", slices.Concat(classic, quorum)},
		{queue.MaxLength, "Messages dead-lettered because of a length limit", slices.Concat(classic, short)},
		{queue.Rejected, "Messages dead-lettered because they were rejected", slices.Concat(classic, quorum)},
	} {
		var values []sampled
		for _, k := range m.kinds {
			n := t.DeadLetters[node.DeadLetters{Type: k.queue, Strategy: k.strategy, Reason: m.reason}]
			values = append(values, sampled{labels("queue_type", typeLabel(k.queue), "dead_letter_strategy", string(k.strategy)), float64(n)})
		}
		e.family("rabbitmq_global_messages_dead_lettered_"+string(m.reason)+"_total", "counter", m.help, values...)
	}
	e.family("rabbitmq_global_messages_dead_lettered_confirmed_total", "counter", "Dead letters that another queue has confirmed, with the strategy at-least-once",
		sampled{labels("queue_type", typeLabel(queue.Quorum), "dead_letter_strategy", string(node.AtLeastOnce)), float64(t.DeadLettersMoved)})
}

// exposeTotals exposes what has happened since the broker started: what was opened, closed, created and deleted, and
// RabbitMQ's global counters. Unlike the counters of queues and connections, they remain when these are gone.
func (c *call) exposeTotals(e *exposition) {
	churn, t := c.node.Churn(), c.node.MessageCounts()
	protocol := labels("protocol", "amqp091")
	for _, m := range []struct {
		name, labels, help string
		value              uint64
	}{
		{"connections_opened_total", "", "Connections opened", churn.ConnectionsOpened},
		{"connections_closed_total", "", "Connections closed or lost", churn.ConnectionsClosed},
		{"channels_opened_total", "", "Channels opened", churn.ChannelsOpened},
		{"channels_closed_total", "", "Channels closed", churn.ChannelsClosed},
		{"queues_declared_total", "", "Queue declarations, also of existing queues", churn.QueuesDeclared},
		{"queues_created_total", "", "Queues created", churn.QueuesCreated},
		{"queues_deleted_total", "", "Queues deleted", churn.QueuesDeleted},
		{"global_messages_received_total", protocol, "Messages received from publishers", t.Traffic.Received},
		{"global_messages_received_confirm_total", protocol, "Messages received from publishers that use confirms", t.Traffic.Awaited},
		{"global_messages_confirmed_total", protocol, "Messages confirmed to publishers", t.Traffic.Confirmed},
		{"global_messages_routed_total", protocol, "Messages routed to queues, counted once per queue", t.Traffic.Routed},
		{"global_messages_unroutable_returned_total", protocol, "Unroutable messages returned to publishers", t.Traffic.Returned},
		{"global_messages_unroutable_dropped_total", protocol, "Unroutable messages dropped", t.Traffic.Dropped},
	} {
		e.family("rabbitmq_"+m.name, "counter", m.help, sampled{m.labels, float64(m.value)})
	}
	for _, m := range globalMetrics {
		var values []sampled
		for _, kind := range []queue.Type{queue.Classic, queue.Quorum} {
			values = append(values, sampled{labels("protocol", "amqp091", "queue_type", typeLabel(kind)), float64(m.of(t.Queues[kind]))})
		}
		e.family("rabbitmq_global_messages_"+m.name, "counter", m.help, values...)
	}
	exposeDeadLetters(e, t)
}

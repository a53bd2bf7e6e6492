package mgmt

import (
	"slices"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/queue"
)

// exposeTally exposes what has happened since the broker began: what has come and gone, and RabbitMQ's global counters. Unlike those of queues
// and connections they go on when these are gone, so that rates can be made of them.
func (c *call) exposeTally(e *exposition) {
	churn, t := c.node.Churn(), c.node.MessageCounts()
	for _, m := range []struct {
		name, help string
		value      uint64
	}{
		{"connections_opened_total", "Connections that were opened", churn.ConnectionsOpened},
		{"connections_closed_total", "Connections that have ended, in order or not", churn.ConnectionsClosed},
		{"channels_opened_total", "Channels that were opened", churn.ChannelsOpened},
		{"channels_closed_total", "Channels that have ended", churn.ChannelsClosed},
		{"queues_declared_total", "Declarations of queues, new or not", churn.QueuesDeclared},
		{"queues_created_total", "Queues that were made", churn.QueuesCreated},
		{"queues_deleted_total", "Queues that are gone", churn.QueuesDeleted},
	} {
		e.family("rabbitmq_"+m.name, "counter", m.help, sampled{"", float64(m.value)})
	}
	protocol := labels("protocol", "amqp091")
	for _, m := range []struct {
		name, help string
		value      uint64
	}{
		{"received_total", "Messages that publishers have sent", t.Traffic.Received},
		{"received_confirm_total", "Messages whose publishers wait for a confirm", t.Traffic.Awaited},
		{"confirmed_total", "Messages that were confirmed", t.Traffic.Confirmed},
		{"routed_total", "Times that a queue was to get a message from a publisher", t.Traffic.Routed},
		{"unroutable_returned_total", "Mandatory messages that were returned because no queue was bound", t.Traffic.Returned},
		{"unroutable_dropped_total", "Messages that were dropped because no queue was bound", t.Traffic.Dropped},
	} {
		e.family("rabbitmq_global_messages_"+m.name, "counter", m.help, sampled{protocol, float64(m.value)})
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

// exposePresent exposes how many publishers and consumers there are, in the words of the global counters.
func exposePresent(e *exposition, publishers, consumers int) {
	protocol := labels("protocol", "amqp091")
	e.family("rabbitmq_global_publishers", "gauge", "Channels that have published", sampled{protocol, float64(publishers)})
	e.family("rabbitmq_global_consumers", "gauge", "Consumers that are subscribed", sampled{protocol, float64(consumers)})
}

// typeLabel is how RabbitMQ names a type of queues in metrics.
func typeLabel(kind queue.Type) string { return "rabbit_" + string(kind) + "_queue" }

// globalMetrics is never changed.
var globalMetrics = []struct {
	name, help string
	of         func(queue.Totals) uint64
}{
	{"delivered_total", "Messages that clients were sent", func(t queue.Totals) uint64 { return t.Delivered + t.DeliveredNoAck + t.Got + t.GotNoAck }},
	{"delivered_consume_manual_ack_total", "Messages for consumers that acknowledge", func(t queue.Totals) uint64 { return t.Delivered }},
	{"delivered_consume_auto_ack_total", "Messages for consumers that do not acknowledge", func(t queue.Totals) uint64 { return t.DeliveredNoAck }},
	{"delivered_get_manual_ack_total", "Messages that were asked for one at a time, to be acknowledged", func(t queue.Totals) uint64 { return t.Got }},
	{"delivered_get_auto_ack_total", "Messages that were asked for one at a time, not to be acknowledged", func(t queue.Totals) uint64 { return t.GotNoAck }},
	{"get_empty_total", "Times that a queue had nothing for who asked", func(t queue.Totals) uint64 { return t.GotNothing }},
	{"redelivered_total", "Messages that clients were sent again", func(t queue.Totals) uint64 { return t.Redelivered }},
	{"acknowledged_total", "Messages that were acknowledged", func(t queue.Totals) uint64 { return t.Acked }},
}

// exposeDeadLetters has a value for each kind of dead letters that there can be, so that a rate begins with the first of them.
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
		{queue.DeliveryLimit, "Messages that were delivered too often", quorum},
		{queue.Expired, "Messages that have expired", slices.Concat(classic, quorum)},
		{queue.MaxLength, "Messages that a full queue had no room for", slices.Concat(classic, short)},
		{queue.Rejected, "Messages that were rejected", slices.Concat(classic, quorum)},
	} {
		var values []sampled
		for _, k := range m.kinds {
			n := t.DeadLetters[node.DeadLetters{Type: k.queue, Strategy: k.strategy, Reason: m.reason}]
			values = append(values, sampled{labels("queue_type", typeLabel(k.queue), "dead_letter_strategy", string(k.strategy)), float64(n)})
		}
		e.family("rabbitmq_global_messages_dead_lettered_"+string(m.reason)+"_total", "counter", m.help, values...)
	}
	e.family("rabbitmq_global_messages_dead_lettered_confirmed_total", "counter", "Dead letters that another queue has, of queues that keep them until then",
		sampled{labels("queue_type", typeLabel(queue.Quorum), "dead_letter_strategy", string(node.AtLeastOnce)), float64(t.DeadLettersMoved)})
}

package amqp

import "testing"

const prefetchPage = "Consumer Prefetch"

func qosCases() []Case {
	return []Case{
		{"Limit", prefetchPage, qosLimit},
		{"AckMakesRoom", prefetchPage, qosAckMakesRoom},
		{"RejectMakesRoom", prefetchPage, qosRejectMakesRoom},
		{"MultipleAckMakesRoom", prefetchPage, qosMultipleAckMakesRoom},
		{"RequeueComesBack", prefetchPage, qosRequeueComesBack},
		{"PerConsumer", prefetchPage + ": Independent Consumers", qosPerConsumer},
		{"PerChannel", prefetchPage + ": Independent Consumers", qosPerChannel},
		{"OnlyNewConsumers", prefetchPage, qosOnlyNewConsumers},
		{"ZeroIsUnlimited", prefetchPage, qosZero},
		{"NotForNoAck", prefetchPage, qosNotForNoAck},
		{"Shared", prefetchPage + ": Multiple Consumers Sharing the Limit", qosShared},
		{"SharedAndEach", prefetchPage + ": Multiple Consumers Sharing the Limit", qosSharedAndEach},
		{"SharedByRunningConsumers", prefetchPage + ": Multiple Consumers Sharing the Limit", qosSharedByRunningConsumers},
		{"SharedNotForGet", prefetchPage + ": Multiple Consumers Sharing the Limit", qosSharedNotForGet},
		{"SharedRaised", prefetchPage, qosSharedRaised},
		{"SharedLifted", prefetchPage, qosSharedLifted},
		{"Size", "Specification differences: basic.qos, prefetch-size", qosSize},
		{"SharedOnQuorumQueue", "Quorum Queues: Global QoS", qosSharedOnQuorumQueue},
		{"QuorumQueue", "Quorum Queues: Feature Matrix", qosQuorumQueue},
	}
}

// backlog declares queue q and fills it with messages a to f.
func backlog(ch *Channel) {
	ch.b.t.Helper()
	ch.Queue("q", nil)
	ch.SendAll("q", "a", "b", "c", "d", "e", "f")
}

func qosLimit(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(2)
	backlog(ch)
	b.WantDeliveries(ch.Deliveries("q"), "a", "b")
	ch.WantBodies("q", "c", "d", "e", "f")
}

func qosAckMakesRoom(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(2)
	backlog(ch)
	deliveries := ch.Deliveries("q")
	got := b.WantDeliveries(deliveries, "a", "b")
	b.Must(got[1].Ack(false))
	b.WantDelivery(deliveries, "c")
	ch.WantCount("q", 3)
}

func qosRejectMakesRoom(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(1)
	backlog(ch)
	deliveries := ch.Deliveries("q")
	b.Must(b.WantDelivery(deliveries, "a").Reject(false))
	b.Must(b.WantDelivery(deliveries, "b").Nack(false, false))
	b.WantDelivery(deliveries, "c")
	ch.WantCount("q", 3)
}

func qosMultipleAckMakesRoom(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(3)
	backlog(ch)
	deliveries := ch.Deliveries("q")
	b.Must(b.WantDeliveries(deliveries, "a", "b", "c")[1].Ack(true))
	b.WantDeliveries(deliveries, "d", "e")
	ch.WantCount("q", 1)
}

func qosRequeueComesBack(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(1)
	backlog(ch)
	deliveries := ch.Deliveries("q")
	b.Must(b.WantDelivery(deliveries, "a").Nack(false, true))
	b.WantRedelivered(b.WantDelivery(deliveries, "a"), true)
}

func qosPerConsumer(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(2)
	backlog(ch)
	b.WantDeliveries(ch.Deliveries("q"), "a", "b")
	b.WantDeliveries(ch.Deliveries("q"), "c", "d")
	ch.WantCount("q", 2)
}

func qosPerChannel(_ *testing.T, b *Bench) {
	conn := b.Connect()
	limited, unlimited := conn.Channel().Prefetch(1), conn.Channel()
	backlog(limited)
	b.WantDelivery(limited.Deliveries("q"), "a")
	b.WantDeliveries(unlimited.Deliveries("q"), "b", "c", "d", "e", "f")
}

func qosOnlyNewConsumers(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(1)
	backlog(ch)
	first := ch.Deliveries("q")
	held := b.WantDelivery(first, "a")
	ch.Prefetch(3)
	b.WantDeliveries(ch.Deliveries("q"), "b", "c", "d")
	b.Must(held.Ack(false))
	b.WantDelivery(first, "e")
	ch.WantCount("q", 1)
}

func qosZero(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(1).Prefetch(0)
	backlog(ch)
	b.WantDeliveries(ch.Deliveries("q"), "a", "b", "c", "d", "e", "f")
}

func qosNotForNoAck(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(1).SharedPrefetch(1)
	backlog(ch)
	b.WantDeliveries(ch.Unacknowledged("q"), "a", "b", "c", "d", "e", "f")
}

func qosShared(_ *testing.T, b *Bench) {
	ch := b.Channel().SharedPrefetch(3)
	backlog(ch)
	ch.Queue("other", nil)
	ch.SendAll("other", "x", "y")
	held := b.WantDeliveries(ch.Deliveries("q"), "a", "b", "c")
	other := ch.Deliveries("other")
	if b.Since(release43) { // each consumer has the limit for itself
		b.WantDeliveries(other, "x", "y")
		ch.WantCount("q", 3)
		return
	}
	ch.WantCount("other", 2)
	ch.WantCount("q", 3)
	_, err := ch.QueuePurge("q", false) // else either queue may use what becomes free
	b.Must(err)
	b.Must(held[2].Ack(true))
	b.WantDeliveries(other, "x", "y")
}

func qosSharedAndEach(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(2).SharedPrefetch(3)
	backlog(ch)
	if b.Since(release43) { // the later limit of each consumer
		b.WantDeliveries(ch.Deliveries("q"), "a", "b", "c")
		b.WantDeliveries(ch.Deliveries("q"), "d", "e", "f")
		return
	}
	b.WantDeliveries(ch.Deliveries("q"), "a", "b")
	b.WantDelivery(ch.Deliveries("q"), "c")
	ch.WantCount("q", 3)
}

func qosSharedByRunningConsumers(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(1)
	backlog(ch)
	first, second := ch.Deliveries("q"), ch.Deliveries("q")
	held := b.WantDelivery(first, "a")
	b.WantDelivery(second, "b")
	ch.SharedPrefetch(1)
	ch.Take("q") // RabbitMQ's queues serve acks before a new limit that was set earlier, but a get after it
	b.Must(held.Ack(false))
	if b.Since(release43) {
		b.WantDelivery(first, "d")
		return
	}
	ch.WantBodies("q", "d", "e", "f")
}

func qosSharedNotForGet(_ *testing.T, b *Bench) {
	ch := b.Channel().SharedPrefetch(1)
	backlog(ch)
	ch.HoldAll("q", "a", "b")
	b.WantDelivery(ch.Deliveries("q"), "c")
	ch.WantCount("q", 3)
}

func qosSharedRaised(_ *testing.T, b *Bench) {
	ch := b.Channel().SharedPrefetch(1)
	backlog(ch)
	deliveries := ch.Deliveries("q")
	b.WantDelivery(deliveries, "a")
	ch.SharedPrefetch(3)
	if b.Since(release43) { // that is for new consumers
		ch.WantCount("q", 5)
		return
	}
	b.WantDeliveries(deliveries, "b", "c")
	ch.WantCount("q", 3)
}

func qosSharedLifted(_ *testing.T, b *Bench) {
	ch := b.Channel().SharedPrefetch(1)
	backlog(ch)
	deliveries := ch.Deliveries("q")
	b.WantDelivery(deliveries, "a")
	ch.SharedPrefetch(0)
	if b.Since(release43) { // that is for new consumers
		ch.WantCount("q", 5)
		return
	}
	b.WantDeliveries(deliveries, "b", "c", "d", "e", "f")
}

func qosSize(_ *testing.T, b *Bench) {
	conn := b.Connect()
	b.Refused(conn.Channel().Qos(0, 10, false), 540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)")
	conn.WantClosed(540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)")
}

func qosSharedOnQuorumQueue(_ *testing.T, b *Bench) {
	conn := b.Connect()
	ch := conn.Channel().SharedPrefetch(1)
	ch.Queue("q", quorum(nil))
	_, err := ch.Consume("q", "", false, false, false, false, nil)
	if b.Since(release43) {
		b.Must(err)
		return
	}
	b.Refused(err, 540, "NOT_IMPLEMENTED - queue 'q' in vhost '{vhost}' does not support global qos")
	conn.WantClosed(540, "NOT_IMPLEMENTED - queue 'q' in vhost '{vhost}' does not support global qos")
}

func qosQuorumQueue(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(2).Confirming()
	ch.Queue("q", quorum(nil))
	ch.SendAll("q", "a", "b", "c", "d")
	deliveries := ch.Deliveries("q")
	b.Must(b.WantDeliveries(deliveries, "a", "b")[0].Ack(false))
	b.WantDelivery(deliveries, "c")
	ch.WantCount("q", 1)
}

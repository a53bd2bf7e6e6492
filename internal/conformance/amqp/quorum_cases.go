package amqp

import (
	"fmt"
	"testing"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/internal/wire"
)

const (
	quorumQueues = "Quorum Queues"
	poisonPage   = "Quorum Queues: Poison Message Handling"
	repeatsPage  = "Quorum Queues: Repeated Requeues"
)

func quorumCases() []Case {
	return []Case{
		{"Order", quorumQueues, quorumOrder},
		{"GetFields", quorumQueues, quorumGetFields},
		{"Counts", quorumQueues, quorumCounts},
		{"CancelledConsumerCounts", quorumQueues, quorumCancelledConsumerCounts},
		{"CancelledConsumerContinues", quorumQueues, quorumCancelledConsumerContinues},
		{"Purge", quorumQueues, quorumPurge},
		{"TransientStaysTransient", quorumQueues + ": Feature Matrix", quorumTransient},
		{"DeliveryCountAbsentAtFirst", poisonPage, quorumFirstDelivery},
		{"NackCounts", poisonPage, redelivers(func(d amqp091.Delivery) error { return d.Nack(false, true) })},
		{"RejectCounts", poisonPage, redelivers(func(d amqp091.Delivery) error { return d.Reject(true) })},
		{"ChannelCloseCounts", poisonPage, quorumChannelCloseCounts},
		{"ConnectionCloseCounts", poisonPage, quorumConnectionCloseCounts},
		{"ConnectionCutCounts", poisonPage, quorumConnectionCutCounts},
		{"RecoverCounts", poisonPage, quorumRecoverCounts},
		{"CancelDoesNotCount", poisonPage, quorumCancelDoesNotCount},
		{"GetCounts", poisonPage, quorumGetCounts},
		{"DeliveryLimit", poisonPage, quorumDeliveryLimit},
		{"DeliveryLimitDrops", poisonPage, dropsAfter(1, deliveryLimit(1), nil)},
		{"DeliveryLimitZero", poisonPage, dropsAfter(0, deliveryLimit(0), nil)},
		{"DeliveryLimitOfPolicy", poisonPage, dropsAfter(1, nil, map[string]any{"delivery-limit": 1})},
		{"DeliveryLimitOfArgumentLower", poisonPage, dropsAfter(1, deliveryLimit(1), map[string]any{"delivery-limit": 5})},
		{"DeliveryLimitOfPolicyLower", poisonPage, dropsAfter(1, deliveryLimit(5), map[string]any{"delivery-limit": 1})},
		{"DeadLetterRejected", dlxEffects, quorumRejected},
		{"DeadLetterForgetsDeliveryCount", dlxEffects, quorumDeadForgetsCount},
		{"RequeueWithoutLimitGoesLast", repeatsPage, requeues(nil, []int{1}, "d", "b")},
		{"RequeueWithoutLimitInOrderOfReturn", repeatsPage, requeues(nil, []int{2, 0, 1}, "d", "c", "a", "b")},
		{"RequeueWithLimitGoesFirst", repeatsPage, requeues(deliveryLimit(5), []int{1}, "b", "d")},
		{"RequeueWithLimitInOrderOfReturn", repeatsPage, requeues(deliveryLimit(5), []int{2, 0, 1}, "c", "a", "b", "d")},
		{"RequeueWithLimitMultiple", repeatsPage, quorumRequeueMultiple},
		{"LostReturnFirst", repeatsPage, quorumLostReturnFirst},
		{"TTLOfQueue", quorumQueues + ": Feature Matrix", quorumTTLOfQueue},
		{"TTLOfMessage", quorumQueues + ": Feature Matrix", quorumTTLOfMessage},
		{"TTLZero", quorumQueues + ": Feature Matrix", quorumTTLZero},
		{"TTLZeroDelivered", quorumQueues + ": Feature Matrix", quorumTTLZeroDelivered},
		{"TTLOnlyAtTheHead", ttlCaveats, quorumTTLOnlyAtTheHead},
		{"Length", lengthPage, quorumLength},
		{"LengthDeadLetters", lengthPage, quorumLengthDeadLetters},
		{"Bytes", lengthPage, quorumBytes},
		{"RejectPublish", overflowPage, quorumRejectPublish},
		{"RejectPublishEnds", overflowPage, quorumRejectPublishEnds},
		{"ExclusiveConsumer", quorumQueues + ": Feature Matrix", quorumExclusiveConsumer},
		{"SingleActiveCancelled", singleActivePage, quorumSingleActiveCancelled},
		{"SingleActive", singleActivePage, quorumSingleActive},
		{"SingleActiveGet", singleActivePage, quorumSingleActiveGet},
		{"ConsumerPriority", consumerPriorities, quorumConsumerPriority},
	}
}

// quorumQueue declares quorum queue q on a channel with confirms.
func quorumQueue(b *Bench, args amqp091.Table) *Channel {
	ch := b.Channel().Confirming()
	ch.Queue("q", quorum(args))
	return ch
}

// wantDeliveryCount checks how often a message came back to its quorum queue.
func wantDeliveryCount(b *Bench, d amqp091.Delivery, want any) {
	b.t.Helper()
	Equal(b, "delivery count of message "+string(d.Body), d.Headers["x-delivery-count"], want)
	b.WantRedelivered(d, want != nil)
}

func quorumOrder(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	ch.SendAll("q", "a", "b", "c")
	deliveries := ch.Deliveries("q")
	ch.SendAll("q", "d", "e")
	b.WantDeliveries(deliveries, "a", "b", "c", "d", "e")
}

func quorumGetFields(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	ch.SendAll("q", "a", "b", "c")
	got := ch.Hold("q")
	Equal(b, "body", string(got.Body), "a")
	Equal(b, "routing key", got.RoutingKey, "q")
	Equal(b, "messages left", got.MessageCount, 2)
	b.WantRedelivered(got, false)
}

func quorumCounts(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	ch.SendAll("q", "a", "b", "c")
	ch.WantCount("q", 3)
	ch.Hold("q")
	ch.WantCount("q", 2)
}

// consumersOf waits for a number of consumers of queue q.
func consumersOf(b *Bench) func(when string, want int) {
	ch := b.Channel()
	return func(when string, want int) {
		b.t.Helper()
		b.Eventually(fmt.Sprintf("%s: %d consumers", when, want), func() bool {
			q, err := ch.QueueDeclarePassive("q", true, false, false, false, nil)
			b.Must(err)
			return q.Consumers == want
		})
	}
}

// A consumer with the tag of one that has cancelled and not answered is the same one: it is counted once, and its prefetch is used up.
func quorumCancelledConsumerContinues(_ *testing.T, b *Bench) {
	count := consumersOf(b)
	ch := quorumQueue(b, nil).Prefetch(1)
	ch.SendAll("q", "a", "b")
	first := b.WantDelivery(ch.Consumer("q", "one", nil), "a")
	b.Must(ch.Cancel("one", false))
	again := ch.Consumer("q", "one", nil)
	count("it is back", 1)
	ch.WantCount("q", 1)
	b.Must(first.Ack(false))
	second := b.WantDelivery(again, "b")
	b.Must(ch.Cancel("one", false))
	count("it has cancelled again", 1)
	b.Must(second.Ack(false))
	count("all is answered", 0)
}

// Who has cancelled is counted among the consumers until all is answered, or the channel closes.
func quorumCancelledConsumerCounts(_ *testing.T, b *Bench) {
	count := consumersOf(b)
	ch := quorumQueue(b, nil)
	ch.SendAll("q", "a", "b", "c")
	held := ch.Consumer("q", "one", nil)
	first, second, _ := b.WantDelivery(held, "a"), b.WantDelivery(held, "b"), b.WantDelivery(held, "c")
	b.Must(ch.Cancel("one", false))
	ch.Consumer("q", "idle", nil)
	count("one has cancelled, another is idle", 2)
	b.Must(first.Ack(false))
	b.Must(ch.Cancel("idle", false))
	count("the idle one has cancelled, too", 1)
	b.Must(second.Ack(false))
	b.Must(ch.Close())
	count("the channel is closed", 0)

	ch = b.Channel()
	last := b.WantDelivery(ch.Consumer("q", "one", nil), "c")
	b.Must(ch.Cancel("one", false))
	count("the last has cancelled", 1)
	b.Must(last.Ack(false))
	count("all is answered", 0)
}

func quorumPurge(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	ch.SendAll("q", "held", "b", "c")
	held := ch.Hold("q")
	purged, err := ch.QueuePurge("q", false)
	b.Must(err)
	Equal(b, "purged", purged, 2)
	b.Must(held.Nack(false, true))
	b.WantArrivals("q", "held")
}

func quorumTransient(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	ch.SendMessage("", "q", amqp091.Publishing{DeliveryMode: amqp091.Transient})
	Equal(b, "delivery mode", ch.Take("q").DeliveryMode, amqp091.Transient)
}

func quorumFirstDelivery(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	ch.SendAll("q", "a")
	wantDeliveryCount(b, b.WantDelivery(ch.Deliveries("q"), "a"), nil)
}

// redelivers is a case in which a message that is given back comes again, and is counted.
func redelivers(giveBack func(amqp091.Delivery) error) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		ch := quorumQueue(b, nil)
		deliveries := ch.Deliveries("q")
		ch.SendAll("q", "a")
		b.Must(giveBack(b.WantDelivery(deliveries, "a")))
		for count := range int64(3) {
			got := b.WantDelivery(deliveries, "a")
			wantDeliveryCount(b, got, count+1)
			b.Must(giveBack(got))
		}
	}
}

func quorumChannelCloseCounts(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	ch.SendAll("q", "a", "b")
	b.WantDelivery(ch.Prefetch(1).Deliveries("q"), "a")
	b.Must(ch.Close())
	b.AwaitCount("q", 2)
	got := b.WantArrivals("q", "a", "b")
	wantDeliveryCount(b, got[0], int64(1))
	wantDeliveryCount(b, got[1], nil)
}

func quorumConnectionCloseCounts(_ *testing.T, b *Bench) {
	conn := b.Connect()
	ch := conn.Channel().Confirming()
	ch.Queue("q", quorum(nil))
	ch.SendAll("q", "a")
	b.WantDelivery(ch.Deliveries("q"), "a")
	b.Must(conn.Close())
	wantDeliveryCount(b, b.Arrival("q"), int64(1))
}

func quorumRecoverCounts(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	deliveries := ch.Deliveries("q")
	ch.SendAll("q", "a")
	b.WantDelivery(deliveries, "a")
	b.Must(ch.Recover(true))
	wantDeliveryCount(b, b.WantDelivery(deliveries, "a"), int64(1))
}

func quorumCancelDoesNotCount(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	ch.SendAll("q", "a")
	held := b.WantDelivery(ch.Consumer("q", "one", nil), "a")
	b.Must(ch.Cancel("one", false))
	ch.WantCount("q", 0)
	b.Must(held.Nack(false, true))
	wantDeliveryCount(b, b.Arrival("q"), int64(1))
}

func quorumGetCounts(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	ch.SendAll("q", "a")
	b.Must(ch.Hold("q").Nack(false, true))
	wantDeliveryCount(b, b.Arrival("q"), int64(1))
}

// exhaust gives a message back until its delivery limit is reached.
func exhaust(b *Bench, deliveries <-chan amqp091.Delivery, body string, limit int) {
	b.t.Helper()
	for range limit + 1 {
		b.Must(b.WantDelivery(deliveries, body).Nack(false, true))
	}
}

func quorumDeliveryLimit(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.DeadLettering(deliveryLimit(2))
	ch.SendAll(source, "a")
	exhaust(b, ch.Deliveries(source), "a", 2)
	got := b.WantArrivals(dead, "a")[0]
	b.WantDeaths(got, death{1, "delivery_limit", source, "", []string{source}, ""})
	b.WantFirstDeath(got, "delivery_limit", source, "")
}

// dropsAfter is a case in which a queue gives up a message that came back once more than its limit.
func dropsAfter(limit int, args amqp091.Table, policy map[string]any) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		if policy != nil {
			b.SetPolicy("limit", "^q$", 0, policy)
		}
		ch := quorumQueue(b, args)
		ch.SendAll("q", "dropped", "next")
		deliveries := ch.Prefetch(1).Deliveries("q")
		exhaust(b, deliveries, "dropped", limit)
		b.WantDelivery(deliveries, "next")
	}
}

func quorumRejected(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.DeadLettering(quorum(nil))
	ch.SendAll(source, "a", "b")
	reject(ch)
	reject(ch)
	for _, got := range b.WantArrivals(dead, "a", "b") {
		b.WantDeaths(got, death{1, "rejected", source, "", []string{source}, ""})
	}
}

func quorumDeadForgetsCount(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.DeadLettering(quorum(nil))
	ch.SendAll(source, "a")
	deliveries := ch.Deliveries(source)
	b.Must(b.WantDelivery(deliveries, "a").Nack(false, true))
	b.Must(b.WantDelivery(deliveries, "a").Reject(false))
	wantDeliveryCount(b, b.Arrival(dead), nil)
}

// threeHeldInQuorum gets three messages of a quorum queue of four.
func threeHeldInQuorum(b *Bench, args amqp091.Table) (*Channel, []amqp091.Delivery) {
	ch := quorumQueue(b, args)
	ch.SendAll("q", "a", "b", "c", "d")
	held := b.WantDeliveries(ch.Prefetch(3).Consumer("q", "holder", nil), "a", "b", "c")
	b.Must(ch.Cancel("holder", false))
	return ch, held
}

// requeues is a case in which held messages are given back one by one, and come again.
func requeues(args amqp091.Table, order []int, want ...string) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		_, held := threeHeldInQuorum(b, args)
		for _, i := range order {
			b.Must(held[i].Nack(false, true))
		}
		b.AwaitCount("q", len(want))
		b.WantArrivals("q", want...)
	}
}

func quorumRequeueMultiple(_ *testing.T, b *Bench) {
	_, held := threeHeldInQuorum(b, deliveryLimit(5))
	b.Must(held[2].Nack(true, true))
	b.AwaitCount("q", 4)
	b.WantArrivals("q", "a", "b", "c", "d")
}

func quorumLostReturnFirst(_ *testing.T, b *Bench) {
	ch, _ := threeHeldInQuorum(b, nil)
	b.Must(ch.Close())
	b.AwaitCount("q", 4)
	b.WantArrivals("q", "a", "b", "c", "d")
}

func quorumTTLOfQueue(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.DeadLettering(quorum(ttl(short)))
	ch.SendAll(source, "a", "b")
	for _, got := range b.WantArrivals(dead, "a", "b") {
		b.WantDeaths(got, death{1, "expired", source, "", []string{source}, ""})
	}
}

func quorumTTLOfMessage(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.DeadLettering(quorum(nil))
	ch.SendMessage("", source, mortal("a", short))
	got := b.WantArrivals(dead, "a")[0]
	b.WantDeaths(got, death{1, "expired", source, "", []string{source}, shortExpiration})
	Equal(b, "expiration of the dead letter", got.Expiration, "")
}

func quorumTTLOnlyAtTheHead(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.DeadLettering(quorum(nil))
	ch.Queue("clock", amqp091.Table{"x-dead-letter-exchange": "dlx"})
	ch.SendAll(source, "immortal")
	ch.SendMessage("", source, mortal("behind", short))
	ch.SendMessage("", "clock", mortal("clock", 2*short))
	b.WantArrivals(dead, "clock")
	ch.Hold(source)
	b.WantArrivals(dead, "behind")
}

func quorumLength(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, maxLength(2))
	ch.SendAll("q", "a", "b", "c", "d")
	ch.WantBodies("q", "c", "d")
}

func quorumLengthDeadLetters(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.DeadLettering(quorum(maxLength(1)))
	ch.SendAll(source, "a", "b", "c")
	for _, got := range b.WantArrivals(dead, "a", "b") {
		b.WantDeaths(got, death{1, "maxlen", source, "", []string{source}, ""})
	}
}

func quorumBytes(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, amqp091.Table{"x-max-length-bytes": 6})
	ch.SendAll("q", "123", "456", "7")
	ch.WantBodies("q", "456", "7")
}

func quorumRejectPublish(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, refusing(2))
	ch.SendAll("q", "a", "b", "one too many")
	ch.WantNack("", "q", "refused")
	ch.WantCount("q", 3)
}

func quorumSingleActive(_ *testing.T, b *Bench) {
	conn := b.Connect()
	first, second := conn.Channel().Confirming(), conn.Channel()
	first.Queue("q", quorum(singleActive()))
	fromFirst, fromSecond := first.Deliveries("q"), second.Deliveries("q")
	first.SendAll("q", "a", "b")
	b.WantDeliveries(fromFirst, "a", "b")
	b.Must(first.Close())
	for _, d := range b.WantDeliveries(fromSecond, "a", "b") {
		wantDeliveryCount(b, d, int64(1))
	}
}

func quorumSingleActiveGet(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, singleActive())
	_, _, err := ch.Get("q", true)
	b.Refused(err, 405, "RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '{vhost}'. "+
		"basic.get operations are not supported by quorum queues with single active consumer")
}

func quorumConsumerPriority(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil).Prefetch(1)
	low, high := ch.Consumer("q", "low", nil), ch.Consumer("q", "high", priority(5))
	ch.SendAll("q", "a", "b")
	b.WantDelivery(high, "a")
	b.WantDelivery(low, "b")
}

func quorumConnectionCutCounts(_ *testing.T, b *Bench) {
	quorumQueue(b, nil).SendAll("q", "a")
	r := b.RawChannel()
	r.Send(1, &wire.BasicGet{Queue: "q"})
	Expect[*wire.BasicGetOK](r, 1)
	b.Must(r.conn.Close())
	wantDeliveryCount(b, b.Arrival("q"), int64(1))
}

func quorumRejectPublishEnds(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, refusing(2))
	ch.SendAll("q", "a", "b", "one too many")
	ch.WantNack("", "q", "refused")
	ch.WantBodies("q", "a", "b", "one too many")
	b.Eventually("a message is accepted again", func() bool {
		confirm, err := ch.PublishWithDeferredConfirm("", "q", false, false, amqp091.Publishing{})
		b.Must(err)
		return b.Acked(confirm)
	})
	ch.WantCount("q", 1)
}

func quorumExclusiveConsumer(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	b.Must(exclusiveConsumer(ch, "one"))
	b.Must(exclusiveConsumer(ch, "two"))
}

func quorumSingleActiveCancelled(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, singleActive()).Prefetch(1)
	first, second := ch.Consumer("q", "one", nil), ch.Consumer("q", "two", nil)
	ch.SendAll("q", "a", "b")
	held := b.WantDelivery(first, "a")
	b.Must(ch.Cancel("one", false))
	b.WantDelivery(second, "b")
	b.Must(held.Ack(false))
}

func quorumTTLZero(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.DeadLettering(quorum(ttl(0)))
	ch.SendAll(source, "a")
	b.WantDeaths(b.Arrival(dead), death{1, "expired", source, "", []string{source}, ""})
}

func quorumTTLZeroDelivered(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, ttl(0))
	deliveries := ch.Deliveries("q")
	ch.SendAll("q", "a")
	b.WantDelivery(deliveries, "a")
}

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
		{"NackIsNoFailure", poisonPage, redelivers(0, func(d amqp091.Delivery) error { return d.Nack(false, true) })},
		{"RejectIsAFailure", poisonPage, redelivers(1, func(d amqp091.Delivery) error { return d.Reject(true) })},
		{"ChannelCloseCounts", poisonPage, quorumChannelCloseCounts},
		{"ConnectionCloseCounts", poisonPage, quorumConnectionCloseCounts},
		{"ConnectionCutCounts", poisonPage, quorumConnectionCutCounts},
		{"RecoverCounts", poisonPage, quorumRecoverCounts},
		{"CancelDoesNotCount", poisonPage, quorumCancelDoesNotCount},
		{"GetCounts", poisonPage, quorumGetCounts},
		{"GetFirstCount", poisonPage, quorumGetFirstCount},
		{"ForgedCount", poisonPage, quorumForgedCount},
		{"DeliveryLimit", poisonPage, quorumDeliveryLimit},
		{"DeliveryLimitDrops", poisonPage, dropsAfter(1, deliveryLimit(1), nil)},
		{"DeliveryLimitZero", poisonPage, dropsAfter(0, deliveryLimit(0), nil)},
		{"DeliveryLimitOfNack", poisonPage, quorumLimitOfNack},
		{"DeliveryLimitByDefault", poisonPage, quorumLimitByDefault},
		{"DeliveryLimitNegative", poisonPage, quorumLimitNegative},
		{"DeliveryLimitOfPolicy", poisonPage, dropsAfter(1, nil, map[string]any{"delivery-limit": 1})},
		{"DeliveryLimitOfArgumentLower", poisonPage, dropsAfter(1, deliveryLimit(1), map[string]any{"delivery-limit": 5})},
		{"DeliveryLimitOfPolicyLower", poisonPage, dropsAfter(1, deliveryLimit(5), map[string]any{"delivery-limit": 1})},
		{"DeadLetterRejected", dlxEffects, quorumRejected},
		{"DeadLetterToClassic", dlxEffects, quorumDeadToClassic},
		{"DeadLetterToQuorum", dlxEffects, quorumDeadToQuorum},
		{"DeadLetterByNackToQuorum", dlxEffects, quorumDeadByNack},
		{"DeadLetterOfClassicToQuorum", dlxEffects, classicDeadToQuorum},
		{"DeadLetterAndLimit", poisonPage, quorumDeadAndLimit},
		{"RequeueWithoutLimit", repeatsPage, requeuesUnlimited},
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

// wantReturns checks the headers of a delivery: how often the message came back to its quorum queue, and how often of those its
// delivery had failed. From 4.3 on these are two headers; before, one counts all returns.
func wantReturns(b *Bench, d amqp091.Delivery, returns, failures int) {
	b.t.Helper()
	count := func(n int) any {
		if n == 0 {
			return nil
		}
		return int64(n)
	}
	want := either(b, release43, [2]any{count(returns), count(failures)}, [2]any{nil, count(returns)})
	Equal(b, "x-acquired-count and x-delivery-count of message "+string(d.Body), [2]any{d.Headers["x-acquired-count"], d.Headers["x-delivery-count"]}, want)
	b.WantRedelivered(d, returns > 0)
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
	wantReturns(b, b.WantDelivery(ch.Deliveries("q"), "a"), 0, 0)
}

// redelivers is a case in which a message that is given back comes again, and is counted.
func redelivers(failures int, giveBack func(amqp091.Delivery) error) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		ch := quorumQueue(b, nil)
		deliveries := ch.Deliveries("q")
		ch.SendAll("q", "a")
		b.Must(giveBack(b.WantDelivery(deliveries, "a")))
		for count := range 3 {
			got := b.WantDelivery(deliveries, "a")
			wantReturns(b, got, count+1, failures*(count+1))
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
	wantReturns(b, got[0], 1, 1)
	wantReturns(b, got[1], 0, 0)
}

func quorumConnectionCloseCounts(_ *testing.T, b *Bench) {
	conn := b.Connect()
	ch := conn.Channel().Confirming()
	ch.Queue("q", quorum(nil))
	ch.SendAll("q", "a")
	b.WantDelivery(ch.Deliveries("q"), "a")
	b.Must(conn.Close())
	wantReturns(b, b.Arrival("q"), 1, 1)
}

func quorumRecoverCounts(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	deliveries := ch.Deliveries("q")
	ch.SendAll("q", "a")
	b.WantDelivery(deliveries, "a")
	b.Must(ch.Recover(true))
	wantReturns(b, b.WantDelivery(deliveries, "a"), 1, 0)
}

func quorumCancelDoesNotCount(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	ch.SendAll("q", "a")
	held := b.WantDelivery(ch.Consumer("q", "one", nil), "a")
	b.Must(ch.Cancel("one", false))
	ch.WantCount("q", 0)
	b.Must(held.Nack(false, true))
	wantReturns(b, b.Arrival("q"), 1, 0)
}

func quorumGetCounts(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	ch.SendAll("q", "a")
	b.Must(ch.Hold("q").Nack(false, true))
	wantReturns(b, b.Arrival("q"), 1, 0)
}

// exhaust gives a message back until its delivery limit is reached.
func exhaust(b *Bench, deliveries <-chan amqp091.Delivery, body string, limit int) {
	b.t.Helper()
	for range limit + 1 {
		b.Must(b.WantDelivery(deliveries, body).Reject(true))
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

// A classic queue has no header for failed deliveries elsewhere. From 4.3 on it marks the message as redelivered.
func quorumDeadToClassic(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.DeadLettering(quorum(nil))
	ch.SendAll(source, "a")
	deliveries := ch.Deliveries(source)
	b.Must(b.WantDelivery(deliveries, "a").Nack(false, true))
	b.Must(b.WantDelivery(deliveries, "a").Reject(false))
	b.AwaitCount(dead, 1) // a classic queue does not mark a message for which a consumer waits
	got := b.Arrival(dead)
	Equal(b, "x-acquired-count and x-delivery-count", [2]any{got.Headers["x-acquired-count"], got.Headers["x-delivery-count"]}, [2]any{nil, nil})
	b.WantRedelivered(got, b.Since(release43))
}

// deadToQuorum is a queue with these arguments whose dead letters come to a quorum queue.
func deadToQuorum(b *Bench, args amqp091.Table) (*Channel, <-chan amqp091.Delivery) {
	b.t.Helper()
	ch := b.Channel().Confirming()
	ch.Queue(dead, quorum(nil))
	ch.Queue(source, with(deadTo(dead), args))
	ch.SendAll(source, "a")
	return ch, ch.Deliveries(source)
}

// From 4.0 on a dead letter takes along how often its delivery had failed: as if it had come back to the next quorum queue. A return there
// counts anew, but for the failures from 4.3 on.
func quorumDeadToQuorum(_ *testing.T, b *Bench) {
	ch, deliveries := deadToQuorum(b, quorum(nil))
	b.Must(b.WantDelivery(deliveries, "a").Nack(false, true))
	b.Must(b.WantDelivery(deliveries, "a").Reject(false))
	next := ch.Deliveries(dead)
	got := b.WantDelivery(next, "a")
	carried := either(b, release40, 1, 0)
	wantReturns(b, got, carried, carried)
	b.Must(got.Nack(false, true))
	got = b.WantDelivery(next, "a")
	wantReturns(b, got, 1, carried)
	b.Must(got.Nack(false, true))
	wantReturns(b, b.WantDelivery(next, "a"), 2, carried)
}

// basic.nack is no failure from 4.3 on, also if the message dies of it.
func quorumDeadByNack(_ *testing.T, b *Bench) {
	ch, deliveries := deadToQuorum(b, quorum(nil))
	b.Must(b.WantDelivery(deliveries, "a").Nack(false, false))
	carried := either(b, release43, 0, either(b, release40, 1, 0))
	wantReturns(b, b.WantDelivery(ch.Deliveries(dead), "a"), carried, carried)
}

// Classic queues count failed deliveries from 4.3 on.
func classicDeadToQuorum(_ *testing.T, b *Bench) {
	ch, deliveries := deadToQuorum(b, nil)
	b.Must(b.WantDelivery(deliveries, "a").Nack(false, true))
	b.Must(b.WantDelivery(deliveries, "a").Reject(true))
	b.Must(b.WantDelivery(deliveries, "a").Reject(false))
	carried := either(b, release43, 2, 0)
	wantReturns(b, b.WantDelivery(ch.Deliveries(dead), "a"), carried, carried)
}

// From 4.3 on, failures that a dead letter takes along use up the limit of the next queue.
func quorumDeadAndLimit(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("grave", nil)
	ch.Queue(dead, with(deliveryLimit(1), deadTo("grave")))
	ch.Queue(source, quorum(deadTo(dead)))
	ch.SendAll(source, "a")
	b.Must(b.WantDelivery(ch.Deliveries(source), "a").Reject(false))
	next := ch.Deliveries(dead)
	b.Must(b.WantDelivery(next, "a").Reject(true))
	if !b.Since(release43) {
		b.Must(b.WantDelivery(next, "a").Reject(true))
	}
	b.WantArrivals("grave", "a")
}

func quorumGetFirstCount(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	ch.SendAll("q", "a")
	got := ch.Hold("q")
	Equal(b, "x-delivery-count", got.Headers["x-delivery-count"], either[any](b, release40, nil, int64(0)))
	b.WantRedelivered(got, false)
}

// A count that a client sends is passed on, until the queue has one of its own.
func quorumForgedCount(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	deliveries := ch.Deliveries("q")
	ch.SendMessage("", "q", amqp091.Publishing{Body: []byte("a"), Headers: amqp091.Table{"x-delivery-count": "forged"}})
	got := b.WantDelivery(deliveries, "a")
	Equal(b, "x-delivery-count", got.Headers["x-delivery-count"], "forged")
	b.Must(got.Reject(true))
	wantReturns(b, b.WantDelivery(deliveries, "a"), 1, 1)
}

// From 4.3 on basic.nack does not use up the limit.
func quorumLimitOfNack(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, deliveryLimit(1))
	ch.SendAll("q", "a", "next")
	deliveries := ch.Prefetch(1).Deliveries("q")
	b.Must(b.WantDelivery(deliveries, "a").Nack(false, true))
	b.Must(b.WantDelivery(deliveries, "a").Nack(false, true))
	b.WantDelivery(deliveries, either(b, release43, "a", "next"))
}

// From 4.0 on a quorum queue has a limit of 20 by default.
func quorumLimitByDefault(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	ch.SendAll("q", "a")
	deliveries := ch.Prefetch(1).Deliveries("q")
	exhaust(b, deliveries, "a", 20)
	if b.Since(release40) {
		ch.SendAll("q", "next")
	}
	b.WantDelivery(deliveries, either(b, release40, "next", "a"))
}

// A negative limit is none from 4.0 on. Before, it is one of 0.
func quorumLimitNegative(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, deliveryLimit(-1))
	ch.SendAll("q", "a")
	deliveries := ch.Prefetch(1).Deliveries("q")
	if !b.Since(release40) {
		b.Must(b.WantDelivery(deliveries, "a").Reject(true))
		ch.SendAll("q", "next")
		b.WantDelivery(deliveries, "next")
		return
	}
	exhaust(b, deliveries, "a", 25)
	b.WantDelivery(deliveries, "a")
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

// Where no limit ends it, a message that is given back goes behind all others, until 4.3. From 4.0 on there is a limit unless it is switched off.
func requeuesUnlimited(t *testing.T, b *Bench) {
	last, first := []string{"d", "c", "a", "b"}, []string{"c", "a", "b", "d"}
	requeues(nil, []int{2, 0, 1}, either(b, release40, first, last)...)(t, b)
	if b.Since(release40) {
		requeues(deliveryLimit(-1), []int{2, 0, 1}, either(b, release43, first, last)...)(t, NewBench(t, b.Target))
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
	// From 4.3 on the properties count, too: two bytes if there are none.
	ch := quorumQueue(b, amqp091.Table{"x-max-length-bytes": either(b, release43, 12, 6)})
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
		wantReturns(b, d, 1, 1)
	}
}

func quorumSingleActiveGet(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, singleActive())
	_, _, err := ch.Get("q", true)
	b.Refused(err, 405, "RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '{vhost}'. "+
		"basic.get operations are not supported by "+either(b, release43, "<<\"quorum\">>", "quorum")+" queues with single active consumer")
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
	wantReturns(b, b.Arrival("q"), 1, 1)
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

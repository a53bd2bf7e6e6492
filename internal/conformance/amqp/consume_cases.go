package amqp

import (
	"slices"
	"strings"
	"testing"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/internal/wire"
)

const (
	consumeReference   = "AMQP 0-9-1 reference: basic.consume"
	cancelReference    = "AMQP 0-9-1 reference: basic.cancel"
	consumersPage      = "Consumers"
	consumerPriorities = "Consumer Priorities"
)

func consumeCases() []Case {
	return []Case{
		{"CancelOnFailover", consumersPage, consumeCancelOnFailover},
		{"Backlog", consumersPage, consumeBacklog},
		{"Order", "Broker Semantics: Message ordering guarantees", consumeOrder},
		{"OwnTag", consumersPage + ": Consumer Tags", consumeOwnTag},
		{"GeneratedTag", consumersPage + ": Consumer Tags", consumeGeneratedTag},
		{"OKComesBeforeMessages", consumeReference, consumeOKFirst},
		{"TagInUse", consumeReference + ", consumer-tag", consumeTagInUse},
		{"TagInUseOnOtherChannel", consumeReference + ", consumer-tag", consumeTagOnTwoChannels},
		{"TagFreeAfterCancel", consumeReference + ", consumer-tag", consumeTagAfterCancel},
		{"MissingQueue", consumeReference, consumeFromMissingQueue},
		{"LastDeclaredQueue", consumeReference + ", queue", consumeFromLastDeclaredQueue},
		{"ForeignExclusiveQueue", "Queues: Exclusive Queues", consumeFromForeignExclusiveQueue},
		{"SeveralQueuesOneChannel", consumersPage, consumeFromSeveralQueues},
		{"CountedByDeclare", "AMQP 0-9-1 reference: queue.declare-ok, consumer-count", consumersCounted},
		{"NoAck", consumersPage + ": Acknowledgement Modes", consumeNoAck},
		{"AckOfNoAck", acksPage, consumeAckOfNoAck},
		{"NoLocalIsIgnored", "Specification differences: no-local", consumeNoLocal},
		{"UnknownArgument", consumeReference + ", arguments", consumeUnknownArgument},
		{"Cancel", cancelReference, consumeCancel},
		{"CancelOKEndsDeliveries", cancelReference, consumeCancelOKEnds},
		{"CancelUnknownTag", cancelReference, consumeCancelUnknown},
		{"CancelLeavesUnacked", cancelReference, consumeCancelLeavesUnacked},
		{"CancelThenOthersGetTheRest", cancelReference, consumeCancelFreesOthers},
		{"CancelledByQueueDelete", "Consumer Cancel Notification", cancelledByDelete(nil)},
		{"CancelledWithoutReply", "Consumer Cancel Notification", consumeCancelledWithoutReply},
		{"CancelledAfterDeleteOK", "Consumer Cancel Notification", cancelledAfterDeleteOK(nil)},
		{"CancelledAfterDeleteOKInQuorumQueue", "Consumer Cancel Notification", cancelledAfterDeleteOK(wire.Table{{Key: "x-queue-type", Value: "quorum"}})},
		{"CancelledInSilence", "Consumer Cancel Notification: Client Capabilities", consumeCancelledInSilence},
		{"CancelledInQuorumQueue", "Consumer Cancel Notification", cancelledByDelete(quorum(nil))},
		{"ExclusiveKeepsOthersOut", consumersPage + ": Exclusivity", consumeExclusive},
		{"ExclusiveNeedsToBeAlone", consumersPage + ": Exclusivity", consumeExclusiveNotAlone},
		{"ExclusiveEndsWithCancel", consumersPage + ": Exclusivity", consumeExclusiveCancelled},
		{"ExclusiveEndsWithChannel", consumersPage + ": Exclusivity", consumeExclusiveClosed},
		{"ExclusiveLeavesGetAlone", consumersPage + ": Exclusivity", consumeExclusiveAndGet},
		{"RoundRobin", "Tutorial two: Round-robin dispatching", consumeRoundRobin},
		{"PriorityFirst", consumerPriorities, consumePriorityFirst},
		{"PriorityBlocked", consumerPriorities, consumePriorityBlocked},
		{"PriorityNegative", consumerPriorities, consumePriorityNegative},
		{"PriorityOfWrongType", consumerPriorities, consumePriorityOfWrongType},
		{"SingleActive", singleActivePage, consumeSingleActive},
		{"SingleActiveCancelled", singleActivePage, consumeSingleActiveCancelled},
		{"SingleActiveChannelClosed", singleActivePage, consumeSingleActiveClosed},
		{"SingleActiveIsNotExclusive", singleActivePage, consumeSingleActiveExclusive},
		{"SingleActiveIgnoresPriority", singleActivePage, consumeSingleActivePriority},
	}
}

func consumeBacklog(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Bind(ch.Queue("q", nil), "key", "amq.direct", nil)
	ch.Send("amq.direct", "key", "a")
	got := b.WantDelivery(ch.Deliveries("q"), "a")
	Equal(b, "exchange", got.Exchange, "amq.direct")
	Equal(b, "routing key", got.RoutingKey, "key")
	Equal(b, "delivery tag", got.DeliveryTag, 1)
	b.WantRedelivered(got, false)
}

func consumeOrder(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.SendAll("q", "before 1", "before 2")
	deliveries := ch.Deliveries("q")
	ch.SendAll("q", "after 1", "after 2")
	for i, d := range b.WantDeliveries(deliveries, "before 1", "before 2", "after 1", "after 2") {
		Equal(b, "delivery tag of "+string(d.Body), d.DeliveryTag, uint64(i+1))
	}
}

func consumeOwnTag(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.SendAll("q", "a")
	Equal(b, "consumer tag", b.WantDelivery(ch.Consumer("q", "my tag", nil), "a").ConsumerTag, "my tag")
}

func consumeTagInUse(_ *testing.T, b *Bench) {
	conn := b.Connect()
	ch := conn.Channel()
	ch.Queue("q", nil)
	ch.Consumer("q", "one", nil)
	_, err := ch.Consume("q", "one", false, false, false, false, nil)
	b.Refused(err, 530, "NOT_ALLOWED - attempt to reuse consumer tag 'one'")
	conn.WantClosed(530, "NOT_ALLOWED - attempt to reuse consumer tag 'one'")
}

func consumeTagOnTwoChannels(_ *testing.T, b *Bench) {
	conn := b.Connect()
	first, second := conn.Channel(), conn.Channel()
	first.Queue("q1", nil)
	first.Queue("q2", nil)
	fromFirst, fromSecond := first.Consumer("q1", "one", nil), second.Consumer("q2", "one", nil)
	first.SendAll("q1", "a")
	first.SendAll("q2", "b")
	b.WantDelivery(fromFirst, "a")
	b.WantDelivery(fromSecond, "b")
}

func consumeTagAfterCancel(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.Consumer("q", "one", nil)
	b.Must(ch.Cancel("one", false))
	deliveries := ch.Consumer("q", "one", nil)
	ch.SendAll("q", "a")
	b.WantDelivery(deliveries, "a")
}

func consumeFromMissingQueue(_ *testing.T, b *Bench) {
	_, err := b.Channel().Consume("nope", "", false, false, false, false, nil)
	b.Refused(err, 404, "NOT_FOUND - no queue 'nope' in vhost '{vhost}'")
}

func consumeFromLastDeclaredQueue(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("first", nil)
	ch.Queue("last", nil)
	ch.SendAll("first", "wrong")
	ch.SendAll("last", "right")
	b.WantDelivery(ch.Deliveries(""), "right")
}

func consumeFromForeignExclusiveQueue(_ *testing.T, b *Bench) {
	_, err := b.Channel().QueueDeclare("mine", false, false, true, false, nil)
	b.Must(err)
	_, err = b.Channel().Consume("mine", "", false, false, false, false, nil)
	b.Refused(err, 405, lockedQueue("mine"))
}

func consumeFromSeveralQueues(_ *testing.T, b *Bench) {
	ch := b.Channel()
	first, second := ch.Deliveries(ch.Queue("q1", nil)), ch.Deliveries(ch.Queue("q2", nil))
	ch.SendAll("q1", "a")
	Equal(b, "tag of the first delivery", b.WantDelivery(first, "a").DeliveryTag, 1)
	ch.SendAll("q2", "b")
	Equal(b, "tag of the second delivery", b.WantDelivery(second, "b").DeliveryTag, 2)
	ch.SendAll("q1", "c")
	Equal(b, "tag of the third delivery", b.WantDelivery(first, "c").DeliveryTag, 3)
}

func consumersCounted(_ *testing.T, b *Bench) {
	ch := b.Channel()
	count := func(want int) {
		q, err := ch.QueueDeclarePassive("q", true, false, false, false, nil)
		b.Must(err)
		Equal(b, "consumers", q.Consumers, want)
	}
	ch.Queue("q", nil)
	count(0)
	ch.Consumer("q", "one", nil)
	ch.Consumer("q", "two", nil)
	count(2)
	b.Must(ch.Cancel("one", false))
	count(1)
}

func consumeNoAck(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(1)
	ch.Queue("q", nil)
	ch.SendAll("q", "a", "b", "c")
	b.WantDeliveries(ch.Unacknowledged("q"), "a", "b", "c")
	b.Must(ch.Close())
	b.Channel().WantBodies("q")
}

func consumeAckOfNoAck(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.SendAll("q", "a")
	got := b.WantDelivery(ch.Unacknowledged("q"), "a")
	b.Must(ch.Ack(got.DeliveryTag, false))
	ch.WantClosed(406, "PRECONDITION_FAILED - unknown delivery tag 1")
}

func consumeNoLocal(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	deliveries, err := ch.Consume("q", "", false, false, true, false, nil)
	b.Must(err)
	ch.SendAll("q", "my own")
	b.WantDelivery(deliveries, "my own")
}

func consumeUnknownArgument(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	deliveries := ch.Consumer("q", "", amqp091.Table{"x-whatever": "yes"})
	ch.SendAll("q", "a")
	b.WantDelivery(deliveries, "a")
}

func consumeCancel(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	deliveries := ch.Consumer("q", "one", nil)
	ch.SendAll("q", "a")
	b.Must(b.WantDelivery(deliveries, "a").Ack(false))
	b.Must(ch.Cancel("one", false))
	ch.SendAll("q", "b")
	ch.WantBodies("q", "b")
}

func consumeCancelUnknown(_ *testing.T, b *Bench) {
	ch := b.Channel()
	b.Must(ch.Cancel("nobody", false))
	ch.Sync()
}

func consumeCancelLeavesUnacked(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.SendAll("q", "acked", "nacked")
	got := b.WantDeliveries(ch.Consumer("q", "one", nil), "acked", "nacked")
	b.Must(ch.Cancel("one", false))
	ch.WantCount("q", 0)
	b.Must(got[0].Ack(false))
	b.Must(got[1].Nack(false, true))
	ch.WantBodies("q", "nacked")
}

func consumeCancelFreesOthers(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(1)
	ch.Queue("q", nil)
	ch.SendAll("q", "a", "b", "c")
	first := b.WantDelivery(ch.Consumer("q", "one", nil), "a")
	b.Must(ch.Cancel("one", false))
	b.Must(first.Ack(false))
	deliveries := ch.Deliveries("q")
	b.Must(b.WantDelivery(deliveries, "b").Ack(false))
	b.WantDelivery(deliveries, "c")
}

// cancelledByDelete is a case in which a consumer is notified that its queue was deleted.
func cancelledByDelete(args amqp091.Table) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		ch := b.Channel()
		ch.Queue("q", args)
		cancelled := ch.NotifyCancel(make(chan string, 1))
		ch.Consumer("q", "one", nil)
		_, err := b.Channel().QueueDelete("q", false, false, false)
		b.Must(err)
		Equal(b, "consumer cancelled", Receive(b, cancelled, "a cancel"), "one")
		ch.Sync()
	}
}

const inExclusiveUse = "ACCESS_REFUSED - queue 'q' in vhost '{vhost}' in exclusive use"

// exclusiveConsumer consumes from queue q as the only one who may.
func exclusiveConsumer(ch *Channel, tag string) error {
	_, err := ch.Consume("q", tag, false, true, false, false, nil)
	return err
}

func consumeExclusive(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	b.Must(exclusiveConsumer(ch, "one"))
	_, err := b.Channel().Consume("q", "two", false, false, false, false, nil)
	b.Refused(err, 403, inExclusiveUse)
}

func consumeExclusiveNotAlone(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.Consumer("q", "one", nil)
	b.Refused(exclusiveConsumer(ch, "two"), 403, inExclusiveUse)
}

func consumeExclusiveCancelled(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	b.Must(exclusiveConsumer(ch, "one"))
	b.Must(ch.Cancel("one", false))
	b.Must(exclusiveConsumer(b.Channel(), "two"))
}

func consumeExclusiveClosed(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	b.Must(exclusiveConsumer(ch, "one"))
	b.Must(ch.Close())
	b.Must(exclusiveConsumer(b.Channel(), "two"))
}

func consumeExclusiveAndGet(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming().Prefetch(1)
	ch.Queue("q", nil)
	b.Must(exclusiveConsumer(ch, "one"))
	ch.SendAll("q", "delivered", "got")
	Equal(b, "message got", string(b.Channel().Take("q").Body), "got")
}

func consumeRoundRobin(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	first, second := ch.Consumer("q", "one", nil), ch.Consumer("q", "two", nil)
	ch.SendAll("q", "a", "b", "c", "d")
	b.WantDeliveries(first, "a", "c")
	b.WantDeliveries(second, "b", "d")
}

func consumePriorityFirst(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	low, high := ch.Consumer("q", "low", nil), ch.Consumer("q", "high", priority(10))
	ch.SendAll("q", "a", "b", "c")
	b.WantDeliveries(high, "a", "b", "c")
	b.Must(ch.Cancel("high", false))
	ch.SendAll("q", "d")
	b.WantDelivery(low, "d")
}

func consumePriorityBlocked(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(1)
	ch.Queue("q", nil)
	low, high := ch.Consumer("q", "low", priority(1)), ch.Consumer("q", "high", priority(2))
	ch.SendAll("q", "a", "b")
	first := b.WantDelivery(high, "a")
	b.WantDelivery(low, "b")
	b.Must(first.Ack(false))
	ch.SendAll("q", "c")
	b.WantDelivery(high, "c")
}

func consumePriorityNegative(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(1)
	ch.Queue("q", nil)
	below, ordinary := ch.Consumer("q", "below", priority(-1)), ch.Consumer("q", "ordinary", nil)
	ch.SendAll("q", "a", "b")
	b.WantDelivery(ordinary, "a")
	b.WantDelivery(below, "b")
}

func consumePriorityOfWrongType(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	_, err := ch.Consume("q", "", false, false, false, false, amqp091.Table{"x-priority": "high"})
	b.Refused(err, 406, `PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q' in vhost '{vhost}': "expected integer, got longstr"`)
}

func consumeSingleActive(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(2)
	ch.Queue("q", singleActive())
	first := ch.Consumer("q", "one", nil)
	ch.Consumer("q", "two", nil)
	ch.SendAll("q", "a", "b", "c")
	b.Must(b.WantDeliveries(first, "a", "b")[0].Ack(false))
	b.WantDelivery(first, "c")
}

func consumeSingleActiveCancelled(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", singleActive())
	first, second := ch.Consumer("q", "one", nil), ch.Consumer("q", "two", nil)
	ch.SendAll("q", "a")
	held := b.WantDelivery(first, "a")
	b.Must(ch.Cancel("one", false))
	ch.SendAll("q", "b")
	b.WantDelivery(second, "b")
	b.Must(held.Nack(false, true))
	b.WantRedelivered(b.WantDelivery(second, "a"), true)
}

func consumeSingleActiveClosed(_ *testing.T, b *Bench) {
	conn := b.Connect()
	first, second := conn.Channel(), conn.Channel()
	first.Queue("q", singleActive())
	fromFirst, fromSecond := first.Deliveries("q"), second.Deliveries("q")
	first.SendAll("q", "a", "b")
	b.WantDeliveries(fromFirst, "a", "b")
	b.Must(first.Close())
	for _, d := range b.WantDeliveries(fromSecond, "a", "b") {
		b.WantRedelivered(d, true)
	}
}

func consumeSingleActiveExclusive(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", singleActive())
	b.Refused(exclusiveConsumer(ch, "one"), 403, inExclusiveUse)
}

func consumeSingleActivePriority(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", singleActive())
	first := ch.Consumer("q", "one", nil)
	ch.Consumer("q", "two", priority(10))
	ch.SendAll("q", "a")
	b.WantDelivery(first, "a")
}

func consumeGeneratedTag(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Queue("q")
	var tags [2]string
	for i := range tags {
		r.Send(1, &wire.BasicConsume{Queue: "q"})
		tags[i] = Expect[*wire.BasicConsumeOK](r, 1).ConsumerTag
		if !strings.HasPrefix(tags[i], "amq.ctag-") {
			b.t.Errorf("generated consumer tag: got %q, want one that begins with amq.ctag-", tags[i])
		}
	}
	if tags[0] == tags[1] {
		b.t.Errorf("generated consumer tags: got %q twice, want two", tags[0])
	}
}

func consumeOKFirst(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Queue("q")
	r.Publish(1, &wire.BasicPublish{RoutingKey: "q"}, wire.Properties{}, []byte("a"))
	r.Send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "one"})
	Expect[*wire.BasicConsumeOK](r, 1)
	Equal(b, "delivery", *Expect[*wire.BasicDeliver](r, 1), wire.BasicDeliver{ConsumerTag: "one", DeliveryTag: 1, RoutingKey: "q"})
	r.Content(1)
}

func consumeCancelOKEnds(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Queue("q")
	r.Send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "one"})
	Expect[*wire.BasicConsumeOK](r, 1)
	r.Send(1, &wire.BasicCancel{ConsumerTag: "one"})
	Equal(b, "consumer cancelled", Expect[*wire.BasicCancelOK](r, 1).ConsumerTag, "one")
	r.Publish(1, &wire.BasicPublish{RoutingKey: "q"}, wire.Properties{}, []byte("a"))
	r.Send(1, &wire.BasicGet{Queue: "q"})
	Expect[*wire.BasicGetOK](r, 1)
}

// capableChannel opens a connection of a client with capabilities, and its channel 1.
func capableChannel(b *Bench, capabilities wire.Table) *Raw {
	b.t.Helper()
	r := b.Raw()
	r.Start()
	r.Send(0, &wire.ConnectionStartOK{
		ClientProperties: wire.Table{{Key: "capabilities", Value: capabilities}},
		Mechanism:        "PLAIN", Response: plain(b.User, b.Password), Locale: "en_US",
	})
	Expect[*wire.ConnectionTune](r, 0)
	r.Open(&wire.ConnectionTuneOK{ChannelMax: channelMax, FrameMax: frameMax})
	r.OpenChannel(1)
	return r
}

// loseQueue consumes on channel 1 from a queue that another connection then deletes.
func loseQueue(b *Bench, capabilities wire.Table) *Raw {
	b.t.Helper()
	r := capableChannel(b, capabilities)
	r.Queue("q")
	r.Send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "one"})
	Expect[*wire.BasicConsumeOK](r, 1)
	_, err := b.Channel().QueueDelete("q", false, false, false)
	b.Must(err)
	return r
}

func consumeCancelledWithoutReply(_ *testing.T, b *Bench) {
	r := loseQueue(b, wire.Table{{Key: "consumer_cancel_notify", Value: true}})
	Equal(b, "cancel", *Expect[*wire.BasicCancel](r, 1), wire.BasicCancel{ConsumerTag: "one", NoWait: true})
	r.Sync()
}

// Who deletes the queue that it consumes from gets the answer first.
func cancelledAfterDeleteOK(args wire.Table) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		r := capableChannel(b, wire.Table{{Key: "consumer_cancel_notify", Value: true}})
		r.Send(1, &wire.QueueDeclare{Queue: "q", Durable: true, Arguments: args})
		Expect[*wire.QueueDeclareOK](r, 1)
		for _, tag := range []string{"one", "two"} {
			r.Send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: tag})
			Expect[*wire.BasicConsumeOK](r, 1)
		}
		r.Send(1, &wire.QueueDelete{Queue: "q"})
		Expect[*wire.QueueDeleteOK](r, 1)
		cancelled := []string{Expect[*wire.BasicCancel](r, 1).ConsumerTag, Expect[*wire.BasicCancel](r, 1).ConsumerTag}
		slices.Sort(cancelled)
		Equal(b, "cancelled", strings.Join(cancelled, " "), "one two")
		r.Sync()
	}
}

func consumeCancelledInSilence(_ *testing.T, b *Bench) {
	r := loseQueue(b, nil)
	r.Queue("q")
	r.Publish(1, &wire.BasicPublish{RoutingKey: "q"}, wire.Properties{}, []byte("a"))
	r.Send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "two"})
	Expect[*wire.BasicConsumeOK](r, 1)
	Equal(b, "consumer", Expect[*wire.BasicDeliver](r, 1).ConsumerTag, "two")
}

// Mirrors are gone in 4.0, and with them the argument by which a consumer hears of their end.
func consumeCancelOnFailover(_ *testing.T, b *Bench) {
	conn := b.Connect()
	ch := conn.Channel()
	ch.Queue("q", nil)
	_, err := ch.Consume("q", "", true, false, false, false, amqp091.Table{"x-cancel-on-ha-failover": "yes"})
	if b.Since(release40) {
		b.Must(err)
		return
	}
	b.Refused(err, 406, "PRECONDITION_FAILED - invalid arg 'x-cancel-on-ha-failover' for queue 'q' in vhost '{vhost}': {unacceptable_type,longstr}")
}

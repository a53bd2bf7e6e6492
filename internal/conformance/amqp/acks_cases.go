package amqp

import (
	"strings"
	"testing"

	"github.com/rehop/rehop/internal/wire"
)

const (
	acksPage        = "Consumer Acknowledgements"
	requeuePage     = "Consumer Acknowledgements: Negative Acknowledgement and Requeuing"
	rejectReference = "AMQP 0-9-1 reference: basic.reject"
	recoverPage     = "AMQP 0-9-1 reference: basic.recover"
	multiplePage    = "Consumer Acknowledgements: Acknowledging Multiple Deliveries at Once"
	unknownTag      = "Consumer Acknowledgements: Client Errors, Double Acking and Unknown Tags"
	returnedPage    = "Consumer Acknowledgements: Automatic Requeueing of Deliveries"
)

func acksCases() []Case {
	return []Case{
		{"Ack", acksPage, leaves("bcd", ack(1, one))},
		{"AckOutOfOrder", acksPage, leaves("bd", ack(3, one), ack(1, one))},
		{"AckMultiple", multiplePage, leaves("cd", ack(2, upTo))},
		{"AckAll", "AMQP 0-9-1 reference: basic.ack, multiple", leaves("d", ack(0, upTo))},
		{"AckAllOfNone", "AMQP 0-9-1 reference: basic.ack, multiple", ackAllOfNone},
		{"AckMultipleOfSeveralQueues", multiplePage, ackMultipleOfSeveralQueues},
		{"AckUnknownTag", unknownTag, refusesTag("42", "abcd", ack(42, one))},
		{"AckUnknownTagMultiple", unknownTag, refusesTag("42", "abcd", ack(42, upTo))},
		{"AckTagZero", unknownTag, refusesTag("0", "abcd", ack(0, one))},
		{"NackUnknownTag", unknownTag, refusesTag("42", "abcd", nack(42, one, requeue))},
		{"NackTagZero", unknownTag, refusesTag("0", "abcd", nack(0, one, requeue))},
		{"RejectUnknownTag", unknownTag, refusesTag("42", "abcd", rejectTag(42, drop))},
		{"AckTwice", unknownTag, refusesTag("2", "acd", ack(2, one), ack(2, one))},
		{"AckAfterNack", unknownTag, refusesTag("2", "acd", nack(2, one, drop), ack(2, one))},
		{"AckMultipleUpToAcked", unknownTag, refusesTag("2", "acd", ack(2, one), ack(2, upTo))},
		{"AckBeforeExceptionCounts", acksPage, refusesTag("42", "cd", ack(2, upTo), ack(42, one))},
		{"AckOnOtherChannel", unknownTag, ackOnOtherChannel},
		{"AckAfterQueueDelete", acksPage, ackAfterQueueDelete},
		{"PurgeSparesUnacked", "AMQP 0-9-1 reference: queue.purge", purgeSparesUnacked},
		{"NackDrop", requeuePage, leaves("bcd", nack(1, one, drop))},
		{"NackDropMultiple", requeuePage, leaves("cd", nack(2, upTo, drop))},
		{"NackRequeue", requeuePage, givesBack("ad", nack(1, one, requeue))},
		{"NackRequeueMultiple", requeuePage, givesBack("abd", nack(2, upTo, requeue))},
		{"NackRequeueAll", requeuePage, givesBack("abcd", nack(0, upTo, requeue))},
		{"RejectDrop", rejectReference, leaves("acd", rejectTag(2, drop))},
		{"RejectRequeue", rejectReference, givesBack("bd", rejectTag(2, requeue))},
		{"RequeueSeveralToTheirPlaces", requeuePage, givesBack("abcd", nack(3, one, requeue), nack(1, one, requeue), nack(2, one, requeue))},
		{"RequeueBeforeNewer", requeuePage, requeueBeforeNewer},
		{"RequeueToOtherConsumer", requeuePage, requeueToOtherConsumer},
		{"RedeliveredOnlyWhenDelivered", acksPage, redeliveredOnlyWhenDelivered},
		{"Recover", recoverPage, recoverAll},
		{"RecoverGoesToAnyConsumer", recoverPage, recoverToAnyConsumer},
		{"RecoverWithoutRequeue", "Specification differences: basic.recover", recoverWithoutRequeue},
		{"RecoverAsync", "AMQP 0-9-1 reference: basic.recover-async", recoverAsync},
		{"ChannelCloseReturns", returnedPage, leaves("abcd")},
		{"ConnectionCloseReturns", returnedPage, connectionCloseReturns},
		{"ConnectionCutReturns", returnedPage, connectionCutReturns},
		{"ConnectionCloseReturnsToOthers", returnedPage, connectionCloseReturnsToOthers},
		{"ExceptionReturns", returnedPage, exceptionReturns},
	}
}

// answer is how a client settles a delivery.
type answer func(*Channel) error

const (
	one, upTo     = false, true // multiple
	drop, requeue = false, true
)

func ack(tag uint64, multiple bool) answer {
	return func(ch *Channel) error { return ch.Ack(tag, multiple) }
}

func nack(tag uint64, multiple, requeue bool) answer {
	return func(ch *Channel) error { return ch.Nack(tag, multiple, requeue) }
}

func rejectTag(tag uint64, requeue bool) answer {
	return func(ch *Channel) error { return ch.Reject(tag, requeue) }
}

// threeHeld gets messages a, b and c of queue q, behind which there is d, and answers.
func threeHeld(b *Bench, answers ...answer) *Channel {
	b.t.Helper()
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.SendAll("q", "a", "b", "c", "d")
	ch.HoldAll("q", "a", "b", "c")
	for _, answer := range answers {
		b.Must(answer(ch))
	}
	return ch
}

// closeAndWant closes a channel and waits for the messages that are then left in queue q, a letter each.
func closeAndWant(ch *Channel, left string) {
	ch.b.t.Helper()
	ch.b.Must(ch.Close())
	ch.b.AwaitCount("q", len(left)) // the queue may learn of the end later than the client
	ch.b.WantArrivals("q", strings.Split(left, "")...)
	ch.b.Channel().WantBodies("q")
}

// leaves is a case in which answers to three messages take effect before the channel is closed.
func leaves(left string, answers ...answer) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) { closeAndWant(threeHeld(b, answers...), left) }
}

// givesBack is a case in which answers to three messages make some ready again.
func givesBack(ready string, answers ...answer) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		ch := threeHeld(b, answers...)
		for _, body := range strings.Split(ready, "") {
			got := ch.Take("q")
			Equal(b, "message", string(got.Body), body)
			b.WantRedelivered(got, body != "d")
		}
		ch.WantBodies("q")
	}
}

// refusesTag is a case in which the last answer is to a tag that is not held, which closes the channel.
func refusesTag(tag, left string, answers ...answer) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		threeHeld(b, answers...).WantClosed(406, "PRECONDITION_FAILED - unknown delivery tag "+tag)
		b.WantArrivals("q", strings.Split(left, "")...)
	}
}

func ackAllOfNone(_ *testing.T, b *Bench) {
	ch := b.Channel()
	b.Must(ch.Ack(0, true))
	ch.Sync()
}

func ackMultipleOfSeveralQueues(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	ch.Queue("other", nil)
	ch.SendAll("other", "x", "y")
	ch.HoldAll("other", "x", "y")
	b.Must(ch.Ack(4, true))
	b.Must(ch.Close())
	b.WantArrivals("other", "y")
	b.WantArrivals("q", "d")
}

func ackOnOtherChannel(_ *testing.T, b *Bench) {
	conn := b.Connect()
	holder, other := conn.Channel(), conn.Channel()
	holder.Queue("q", nil)
	holder.SendAll("q", "a")
	held := holder.Hold("q")
	b.Must(other.Ack(held.DeliveryTag, false))
	other.WantClosed(406, "PRECONDITION_FAILED - unknown delivery tag 1")
	b.Must(held.Ack(false))
	holder.WantBodies("q")
}

func ackAfterQueueDelete(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	_, err := ch.QueueDelete("q", false, false, false)
	b.Must(err)
	for _, answer := range []answer{ack(1, one), nack(2, one, requeue), rejectTag(3, drop)} {
		b.Must(answer(ch))
	}
	ch.Sync()
}

func purgeSparesUnacked(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	purged, err := ch.QueuePurge("q", false)
	b.Must(err)
	Equal(b, "purged", purged, 1)
	closeAndWant(ch, "abc")
}

func requeueBeforeNewer(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	ch.SendAll("q", "e")
	b.Must(ch.Nack(2, one, requeue))
	ch.WantBodies("q", "b", "d", "e")
}

func requeueToOtherConsumer(_ *testing.T, b *Bench) {
	conn := b.Connect()
	first, second := conn.Channel().Prefetch(1), conn.Channel()
	first.Queue("q", nil)
	first.SendAll("q", "a")
	held := b.WantDelivery(first.Consumer("q", "one", nil), "a")
	b.Must(first.Cancel("one", false))
	deliveries := second.Deliveries("q")
	b.Must(held.Nack(false, true))
	b.WantRedelivered(b.WantDelivery(deliveries, "a"), true)
}

func recoverAll(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Ack(2, false))
	b.Must(ch.Recover(true))
	for _, body := range []string{"a", "c"} {
		got := ch.Take("q")
		Equal(b, "recovered message", string(got.Body), body)
		b.WantRedelivered(got, true)
	}
	b.WantRedelivered(ch.Take("q"), false)
}

func recoverToAnyConsumer(_ *testing.T, b *Bench) {
	conn := b.Connect()
	first, second := conn.Channel(), conn.Channel()
	first.Queue("q", nil)
	first.SendAll("q", "a", "b")
	b.WantDeliveries(first.Consumer("q", "one", nil), "a", "b")
	b.Must(first.Cancel("one", false))
	deliveries := second.Deliveries("q")
	b.Must(first.Recover(true))
	b.WantDeliveries(deliveries, "a", "b")
}

func recoverWithoutRequeue(_ *testing.T, b *Bench) {
	conn := b.Connect()
	b.Refused(conn.Channel().Recover(false), 540, "NOT_IMPLEMENTED - requeue=false")
	conn.WantClosed(540, "NOT_IMPLEMENTED - requeue=false")
}

func connectionCloseReturns(_ *testing.T, b *Bench) {
	conn := b.Connect()
	ch := conn.Channel()
	ch.Queue("q", nil)
	ch.SendAll("q", "a", "b", "c")
	b.WantDeliveries(ch.Deliveries("q"), "a", "b", "c")
	b.Must(conn.Close())
	for _, d := range b.WantArrivals("q", "a", "b", "c") {
		b.WantRedelivered(d, true)
	}
}

func exceptionReturns(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	_, _, err := ch.Get("nope", false)
	b.Refused(err, 404, "NOT_FOUND - no queue 'nope' in vhost '{vhost}'")
	b.WantArrivals("q", "a", "b", "c", "d")
}

func redeliveredOnlyWhenDelivered(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Close())
	for _, d := range b.WantArrivals("q", "a", "b", "c", "d") {
		b.WantRedelivered(d, string(d.Body) != "d")
	}
}

func recoverAsync(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Queue("q")
	r.Publish(1, &wire.BasicPublish{RoutingKey: "q"}, wire.Properties{}, []byte("a"))
	r.Send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "one"})
	Expect[*wire.BasicConsumeOK](r, 1)
	for tag := range uint64(2) {
		got := Expect[*wire.BasicDeliver](r, 1)
		Equal(b, "delivery", *got, wire.BasicDeliver{ConsumerTag: "one", DeliveryTag: tag + 1, Redelivered: tag > 0, RoutingKey: "q"})
		r.Content(1)
		r.Send(1, &wire.BasicRecoverAsync{Requeue: true})
	}
}

// connectionCloseReturnsToOthers: what a channel gives back at the end of its connection reaches others, even if a consumer on another
// channel of that connection was handed it in between, which RabbitMQ leaves to chance.
func connectionCloseReturnsToOthers(_ *testing.T, b *Bench) {
	conn := b.Connect()
	holder := conn.Channel().Confirming()
	holder.Queue("q", nil)
	holder.SendAll("q", "held")
	holder.Hold("q")
	conn.Channel().Deliveries("q")
	b.Must(conn.Close())
	b.WantArrivals("q", "held")
}

func connectionCutReturns(_ *testing.T, b *Bench) {
	b.Channel().Queue("q", nil)
	r := b.RawChannel()
	r.Publish(1, &wire.BasicPublish{RoutingKey: "q"}, wire.Properties{}, []byte("a"))
	r.Send(1, &wire.BasicGet{Queue: "q"})
	Expect[*wire.BasicGetOK](r, 1)
	b.Must(r.conn.Close())
	b.WantRedelivered(b.Arrival("q"), true)
}

package amqp

import (
	"testing"

	"github.com/rehop/rehop/internal/wire"
)

const (
	acksPage     = "Consumer Acknowledgements"
	requeuePage  = "Consumer Acknowledgements: Negative Acknowledgement and Requeuing"
	recoverPage  = "AMQP 0-9-1 reference: basic.recover"
	unknownTag   = "Consumer Acknowledgements: Client Errors, Double Acking and Unknown Tags"
	returnedPage = "Consumer Acknowledgements: Automatic Requeueing of Deliveries"
)

func acksCases() []Case {
	return []Case{
		{"Ack", acksPage, ackOne},
		{"AckOutOfOrder", acksPage, ackOutOfOrder},
		{"AckMultiple", acksPage + ": Acknowledging Multiple Deliveries at Once", ackMultiple},
		{"AckAll", "AMQP 0-9-1 reference: basic.ack, multiple", ackAll},
		{"AckAllOfNone", "AMQP 0-9-1 reference: basic.ack, multiple", ackAllOfNone},
		{"AckMultipleOfSeveralQueues", acksPage + ": Acknowledging Multiple Deliveries at Once", ackMultipleOfSeveralQueues},
		{"AckUnknownTag", unknownTag, unknown("42", func(ch *Channel) error { return ch.Ack(42, false) })},
		{"AckUnknownTagMultiple", unknownTag, unknown("42", func(ch *Channel) error { return ch.Ack(42, true) })},
		{"AckTagZero", unknownTag, unknown("0", func(ch *Channel) error { return ch.Ack(0, false) })},
		{"NackUnknownTag", unknownTag, unknown("42", func(ch *Channel) error { return ch.Nack(42, false, true) })},
		{"RejectUnknownTag", unknownTag, unknown("42", func(ch *Channel) error { return ch.Reject(42, false) })},
		{"AckTwice", unknownTag, ackTwice},
		{"AckMultipleUpToAcked", unknownTag, ackMultipleUpToAcked},
		{"AckOnOtherChannel", unknownTag, ackOnOtherChannel},
		{"AckBeforeExceptionCounts", acksPage, ackBeforeException},
		{"AckAfterQueueDelete", acksPage, ackAfterQueueDelete},
		{"PurgeSparesUnacked", "AMQP 0-9-1 reference: queue.purge", purgeSparesUnacked},
		{"NackRequeue", requeuePage, nackRequeue},
		{"NackDrop", requeuePage, nackDrop},
		{"NackMultiple", requeuePage, nackMultiple},
		{"NackAll", requeuePage, nackAll},
		{"RejectRequeue", "AMQP 0-9-1 reference: basic.reject", rejectRequeue},
		{"RejectDrop", "AMQP 0-9-1 reference: basic.reject", rejectDrop},
		{"RequeueToOriginalPlace", requeuePage, requeueToPlace},
		{"RequeueSeveralKeepsOrder", requeuePage, requeueSeveral},
		{"RequeueToOtherConsumer", requeuePage, requeueToOtherConsumer},
		{"Recover", recoverPage, recoverAll},
		{"RecoverGoesToAnyConsumer", recoverPage, recoverToAnyConsumer},
		{"RecoverWithoutRequeue", "Specification differences: basic.recover", recoverWithoutRequeue},
		{"RecoverAsync", "AMQP 0-9-1 reference: basic.recover-async", recoverAsync},
		{"ChannelCloseReturns", returnedPage, channelCloseReturns},
		{"ConnectionCloseReturns", returnedPage, connectionCloseReturns},
		{"ConnectionCutReturns", returnedPage, connectionCutReturns},
		{"ExceptionReturns", returnedPage, exceptionReturns},
		{"RedeliveredOnlyWhenDelivered", acksPage, redeliveredOnlyWhenDelivered},
	}
}

// threeHeld gets three messages of a queue of four.
func threeHeld(b *Bench) *Channel {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.SendAll("q", "a", "b", "c", "d")
	ch.HoldAll("q", "a", "b", "c")
	return ch
}

// closeAndWant closes a channel and waits for what is then left in its queue, in order.
func closeAndWant(ch *Channel, bodies ...string) {
	ch.b.t.Helper()
	ch.b.Must(ch.Close())
	ch.b.WantArrivals("q", bodies...)
	ch.b.Channel().WantBodies("q")
}

// unknown is a case in which an answer to a tag that was not given out closes the channel.
func unknown(tag string, answer func(*Channel) error) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		ch := threeHeld(b)
		b.Must(answer(ch))
		ch.WantClosed(406, "PRECONDITION_FAILED - unknown delivery tag "+tag)
		b.WantArrivals("q", "a", "b", "c", "d")
	}
}

func ackOne(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Ack(1, false))
	closeAndWant(ch, "b", "c", "d")
}

func ackOutOfOrder(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Ack(3, false))
	b.Must(ch.Ack(1, false))
	closeAndWant(ch, "b", "d")
}

func ackMultiple(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Ack(2, true))
	closeAndWant(ch, "c", "d")
}

func ackAll(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Ack(0, true))
	closeAndWant(ch, "d")
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

func ackTwice(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Ack(2, false))
	b.Must(ch.Ack(2, false))
	ch.WantClosed(406, "PRECONDITION_FAILED - unknown delivery tag 2")
	b.WantArrivals("q", "a", "c", "d")
}

func ackMultipleUpToAcked(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Ack(2, false))
	b.Must(ch.Ack(2, true))
	ch.WantClosed(406, "PRECONDITION_FAILED - unknown delivery tag 2")
	b.WantArrivals("q", "a", "c", "d")
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

func ackBeforeException(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Ack(2, true))
	b.Must(ch.Ack(42, false))
	ch.WantClosed(406, "PRECONDITION_FAILED - unknown delivery tag 42")
	b.WantArrivals("q", "c", "d")
}

func ackAfterQueueDelete(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	_, err := ch.QueueDelete("q", false, false, false)
	b.Must(err)
	b.Must(ch.Ack(1, false))
	b.Must(ch.Nack(2, false, true))
	b.Must(ch.Reject(3, false))
	ch.Sync()
}

func purgeSparesUnacked(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	purged, err := ch.QueuePurge("q", false)
	b.Must(err)
	Equal(b, "purged", purged, 1)
	closeAndWant(ch, "a", "b", "c")
}

func nackRequeue(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Nack(1, false, true))
	got := ch.Take("q")
	Equal(b, "message", string(got.Body), "a")
	b.WantRedelivered(got, true)
	b.WantRedelivered(ch.Take("q"), false)
}

func nackDrop(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Nack(1, false, false))
	closeAndWant(ch, "b", "c", "d")
}

func nackMultiple(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Nack(2, true, true))
	ch.WantBodies("q", "a", "b", "d")
	b.Must(ch.Nack(3, true, false))
	ch.WantBodies("q")
}

func nackAll(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Nack(0, true, true))
	ch.WantBodies("q", "a", "b", "c", "d")
}

func rejectRequeue(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Reject(2, true))
	b.WantRedelivered(ch.Hold("q"), true)
	ch.WantBodies("q", "d")
}

func rejectDrop(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Reject(2, false))
	closeAndWant(ch, "a", "c", "d")
}

func requeueToPlace(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Nack(2, false, true))
	ch.SendAll("q", "e")
	ch.WantBodies("q", "b", "d", "e")
}

func requeueSeveral(_ *testing.T, b *Bench) {
	ch := threeHeld(b)
	b.Must(ch.Nack(3, false, true))
	b.Must(ch.Nack(1, false, true))
	b.Must(ch.Nack(2, false, true))
	ch.WantBodies("q", "a", "b", "c", "d")
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

func channelCloseReturns(_ *testing.T, b *Bench) {
	closeAndWant(threeHeld(b), "a", "b", "c", "d")
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

func connectionCutReturns(_ *testing.T, b *Bench) {
	b.Channel().Queue("q", nil)
	r := b.RawChannel()
	r.Publish(1, &wire.BasicPublish{RoutingKey: "q"}, wire.Properties{}, []byte("a"))
	r.Send(1, &wire.BasicGet{Queue: "q"})
	Expect[*wire.BasicGetOK](r, 1)
	b.Must(r.conn.Close())
	b.WantRedelivered(b.Arrival("q"), true)
}

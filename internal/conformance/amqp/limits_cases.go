package amqp

import (
	"testing"

	"github.com/rabbitmq/amqp091-go"
)

const (
	lengthPage   = "Queue Length Limit"
	overflowPage = "Queue Length Limit: Overflow Behaviour"
)

func limitsCases() []Case {
	return []Case{
		{"Length", lengthPage, limitLength},
		{"LengthZero", lengthPage, limitLengthZero},
		{"LengthZeroDelivers", lengthPage, limitLengthZeroDelivers},
		{"Bytes", lengthPage, limitBytes},
		{"BytesOfOneTooLarge", lengthPage, limitBytesTooLarge},
		{"LengthAndBytes", lengthPage, limitLengthAndBytes},
		{"UnackedDoNotCount", lengthPage, limitUnacked},
		{"RequeueOverflows", lengthPage, limitRequeue},
		{"DroppedAreConfirmed", overflowPage, limitDroppedConfirmed},
		{"DropHeadByName", overflowPage, limitDropHead},
		{"RejectPublish", overflowPage, limitRejectPublish},
		{"RejectPublishWithoutConfirms", overflowPage, limitRejectUnconfirmed},
		{"RejectPublishBytes", overflowPage, limitRejectBytes},
		{"RejectPublishUnackedDoNotCount", overflowPage, limitRejectUnacked},
		{"RejectPublishIsNoDeath", overflowPage, limitRejectIsNoDeath},
		{"RejectPublishDeadLetter", overflowPage, limitRejectDeadLetter},
		{"RequeueIntoFullRejecting", overflowPage, limitRequeueIntoRejecting},
		{"OldestDieFirst", lengthPage + ", with dead-lettering", limitOldestDieFirst},
		{"PolicyLower", lengthPage + ": Definition Using a Policy", limitsTo(1, 2, 1)},
		{"ArgumentLower", lengthPage + ": Definition Using a Policy", limitsTo(1, 1, 2)},
		{"PolicyOnFullQueue", lengthPage + ": Definition Using a Policy", limitPolicyOnFullQueue},
		{"PolicyRejectPublish", lengthPage + ": Definition Using a Policy", limitPolicyRejectPublish},
	}
}

func limitLength(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", maxLength(2))
	ch.SendAll("q", "a", "b", "c", "d")
	ch.WantBodies("q", "c", "d")
}

func limitLengthZero(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("q", maxLength(0))
	ch.SendAll("q", "a")
	ch.WantBodies("q")
}

func limitLengthZeroDelivers(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", maxLength(0))
	deliveries := ch.Deliveries("q")
	ch.SendAll("q", "a", "b")
	b.WantDeliveries(deliveries, "a", "b")
}

func limitBytes(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("q", amqp091.Table{"x-max-length-bytes": 10})
	ch.SendMessage("", "q", amqp091.Publishing{Body: []byte("123"), MessageId: "properties do not count"})
	ch.SendAll("q", "4567", "890")
	ch.WantCount("q", 3)
	ch.SendAll("q", "x")
	ch.WantBodies("q", "4567", "890", "x")
}

func limitBytesTooLarge(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", amqp091.Table{"x-max-length-bytes": 4})
	ch.SendAll("q", "1234", "12345")
	ch.WantBodies("q")
	ch.SendAll("q", "12", "34")
	ch.WantBodies("q", "12", "34")
}

func limitLengthAndBytes(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("q", with(maxLength(3), amqp091.Table{"x-max-length-bytes": 5}))
	ch.SendAll("q", "1", "2", "3", "4")
	ch.WantCount("q", 3)
	ch.SendAll("q", "5555")
	ch.WantBodies("q", "4", "5555")
}

func limitUnacked(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", maxLength(2))
	ch.SendAll("q", "a", "b")
	ch.HoldAll("q", "a", "b")
	ch.SendAll("q", "c", "d")
	ch.WantBodies("q", "c", "d")
}

func limitRequeue(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(maxLength(2))
	ch.SendAll(source, "a", "b")
	held := ch.Hold(source)
	ch.SendAll(source, "c")
	b.Must(held.Nack(false, true))
	b.WantDeaths(b.WantArrivals(dead, "a")[0], death{1, "maxlen", source, "", []string{source}, ""})
	ch.WantBodies(source, "b", "c")
}

func limitDroppedConfirmed(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("q", maxLength(1))
	for _, body := range []string{"a", "b", "c"} {
		ch.SendMessage("", "q", amqp091.Publishing{Body: []byte(body), DeliveryMode: amqp091.Persistent})
	}
	ch.WantBodies("q", "c")
}

func limitDropHead(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", with(maxLength(1), amqp091.Table{"x-overflow": "drop-head"}))
	ch.SendAll("q", "a", "b")
	ch.WantBodies("q", "b")
}

func limitRejectPublish(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("q", refusing(2))
	ch.SendAll("q", "a", "b")
	ch.WantNack("", "q", "refused")
	Equal(b, "message taken", string(ch.Take("q").Body), "a")
	ch.SendAll("q", "c")
	ch.WantBodies("q", "b", "c")
}

func limitRejectUnconfirmed(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", refusing(1))
	ch.SendAll("q", "a", "dropped in silence")
	ch.WantBodies("q", "a")
}

func limitRejectBytes(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("q", amqp091.Table{"x-max-length-bytes": 5, "x-overflow": "reject-publish"})
	ch.SendAll("q", "1234")
	ch.WantNack("", "q", "56")
	ch.SendAll("q", "5")
	ch.WantBodies("q", "1234", "5")
}

func limitRejectUnacked(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("q", refusing(1))
	ch.SendAll("q", "a")
	ch.Hold("q")
	ch.SendAll("q", "b")
	ch.WantNack("", "q", "c")
}

func limitRejectIsNoDeath(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.DeadLettering(refusing(1))
	ch.SendAll(source, "a")
	ch.WantNack("", source, "refused")
	reject(ch)
	b.WantArrivals(dead, "a")
}

func limitRejectDeadLetter(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.DeadLettering(with(maxLength(1), amqp091.Table{"x-overflow": "reject-publish-dlx"}))
	ch.SendAll(source, "a")
	ch.WantNack("", source, "refused")
	b.WantDeaths(b.WantArrivals(dead, "refused")[0], death{1, "maxlen", source, "", []string{source}, ""})
	ch.WantBodies(source, "a")
}

func limitRequeueIntoRejecting(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("q", refusing(1))
	ch.SendAll("q", "a")
	held := ch.Hold("q")
	ch.SendAll("q", "b")
	b.Must(held.Nack(false, true))
	ch.WantBodies("q", "a", "b")
}

func limitOldestDieFirst(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(maxLength(2))
	ch.SendAll(source, "a", "b", "c", "d", "e")
	b.WantArrivals(dead, "a", "b", "c")
	ch.WantBodies(source, "d", "e")
}

// limitsTo is a case in which the lower of two limits counts.
func limitsTo(want, argument, policy int) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		b.SetPolicy("limit", "^q$", 0, limited(policy))
		ch := b.Channel()
		wantLimit(ch, ch.Queue("q", maxLength(argument)), want)
	}
}

func limitPolicyOnFullQueue(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("q", nil)
	ch.SendAll("q", "a", "b", "c", "d")
	b.SetPolicy("limit", "^q$", 0, limited(2))
	b.WantArrivals("q", "c", "d")
}

func limitPolicyRejectPublish(_ *testing.T, b *Bench) {
	b.SetPolicy("limit", "^q$", 0, map[string]any{"max-length": 1, "overflow": "reject-publish"})
	ch := b.Channel().Confirming()
	ch.Queue("q", nil)
	ch.SendAll("q", "a")
	ch.WantNack("", "q", "b")
}

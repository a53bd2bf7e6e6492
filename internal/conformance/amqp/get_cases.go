package amqp

import (
	"testing"
)

const getReference = "AMQP 0-9-1 reference: basic.get"

func getCases() []Case {
	return []Case{
		{"Fields", getReference, getFields},
		{"Empty", getReference, getEmpty},
		{"EmptyWhileOthersHold", getReference, getEmptyWhileHeld},
		{"TagsCount", "AMQP 0-9-1 reference: basic.get-ok, delivery-tag", getTagsCount},
		{"TagsSharedWithConsumers", "AMQP 0-9-1 reference: basic.get-ok, delivery-tag", getTagsSharedWithConsumers},
		{"NoAck", getReference + ", no-ack", getNoAck},
		{"HeldReturnsAtChannelClose", acksPage + ", Automatic Requeueing of Deliveries", getHeldReturns},
		{"HeldReturnsToItsPlace", acksPage + ", Negative Acknowledgement and Requeuing", getHeldReturnsToItsPlace},
		{"MissingQueue", getReference, getFromMissingQueue},
		{"LastDeclaredQueue", getReference + ", queue", getFromLastDeclaredQueue},
		{"ForeignExclusiveQueue", "Queues: Exclusive Queues", getFromForeignExclusiveQueue},
		{"IgnoresPrefetch", prefetchPage, getIgnoresPrefetch},
		{"PastBusyConsumer", prefetchPage, getPastBusyConsumer},
	}
}

func getFields(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Bind(ch.Queue("q", nil), "key", "amq.direct", nil)
	for _, body := range []string{"a", "b", "c"} {
		ch.Send("amq.direct", "key", body)
	}
	got := ch.Hold("q")
	Equal(b, "body", string(got.Body), "a")
	Equal(b, "exchange", got.Exchange, "amq.direct")
	Equal(b, "routing key", got.RoutingKey, "key")
	Equal(b, "messages left", got.MessageCount, 2)
	b.WantRedelivered(got, false)
}

func getEmpty(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.WantBodies("q")
}

func getEmptyWhileHeld(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.SendAll("q", "a")
	ch.Hold("q")
	ch.WantBodies("q")
	ch.WantCount("q", 0)
}

func getTagsCount(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.SendAll("q", "a", "b", "c")
	Equal(b, "first tag", ch.Hold("q").DeliveryTag, 1)
	Equal(b, "tag of one without ack", ch.Take("q").DeliveryTag, 2)
	Equal(b, "third tag", ch.Hold("q").DeliveryTag, 3)
}

func getTagsSharedWithConsumers(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("got", nil)
	ch.Queue("consumed", nil)
	ch.SendAll("got", "a", "b")
	deliveries := ch.Deliveries("consumed")
	Equal(b, "tag of a get", ch.Hold("got").DeliveryTag, 1)
	ch.SendAll("consumed", "c")
	Equal(b, "tag of a delivery", b.WantDelivery(deliveries, "c").DeliveryTag, 2)
	Equal(b, "tag of the next get", ch.Hold("got").DeliveryTag, 3)
}

func getNoAck(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.SendAll("q", "taken", "left")
	Equal(b, "body", string(ch.Take("q").Body), "taken")
	b.Must(ch.Close())
	b.Channel().WantBodies("q", "left")
}

func getHeldReturns(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.SendAll("q", "a")
	ch.Hold("q")
	b.Must(ch.Close())
	got := b.Arrival("q")
	Equal(b, "body", string(got.Body), "a")
	b.WantRedelivered(got, true)
}

func getHeldReturnsToItsPlace(_ *testing.T, b *Bench) {
	conn := b.Connect()
	ch, other := conn.Channel(), conn.Channel()
	ch.Queue("q", nil)
	ch.SendAll("q", "a", "b", "c")
	held := ch.HoldAll("q", "a", "b")
	other.HoldAll("q", "c")
	b.Must(held[1].Nack(false, true))
	b.Must(other.Close())
	b.Must(held[0].Nack(false, true))
	ch.WantBodies("q", "a", "b", "c")
}

func getFromMissingQueue(_ *testing.T, b *Bench) {
	_, _, err := b.Channel().Get("nope", true)
	b.Refused(err, 404, "NOT_FOUND - no queue 'nope' in vhost '{vhost}'")
}

func getFromLastDeclaredQueue(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("first", nil)
	ch.Queue("last", nil)
	ch.SendAll("first", "wrong")
	ch.SendAll("last", "right")
	Equal(b, "message of the queue without a name", string(ch.Take("").Body), "right")
}

func getFromForeignExclusiveQueue(_ *testing.T, b *Bench) {
	_, err := b.Channel().QueueDeclare("mine", false, false, true, false, nil)
	b.Must(err)
	_, _, err = b.Channel().Get("mine", true)
	b.Refused(err, 405, lockedQueue("mine"))
}

func getIgnoresPrefetch(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(1).SharedPrefetch(1)
	ch.Queue("q", nil)
	ch.SendAll("q", "a", "b", "c")
	ch.HoldAll("q", "a", "b", "c")
}

func getPastBusyConsumer(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(1)
	ch.Queue("q", nil)
	ch.SendAll("q", "a", "b")
	b.WantDelivery(ch.Deliveries("q"), "a")
	Equal(b, "message got", string(ch.Take("q").Body), "b")
}

// lockedQueue is what a connection reads that uses the exclusive queue of another one.
func lockedQueue(name string) string {
	return "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '" + name + "' in vhost '{vhost}'. " +
		"It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."
}

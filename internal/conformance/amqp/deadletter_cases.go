package amqp

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

const (
	dlxPage       = "Dead Letter Exchanges"
	dlxArguments  = "Dead Letter Exchanges: Configuring a Dead Letter Exchange using Optional Queue Arguments"
	dlxRouting    = "Dead Letter Exchanges: Routing Dead-Lettered Messages"
	dlxEffects    = "Dead Letter Exchanges: Effects of Dead-Lettering on Messages"
	atLeastOnce   = "Quorum Queues: At-least-once dead-lettering"
	dlxByRejected = "Dead Letter Exchanges: rejected messages"
)

func deadLetterCases() []Case {
	return []Case{
		{"Rejected", dlxEffects, deadRejected},
		{"Nacked", dlxByRejected, deadNacked},
		{"NackedMultiple", dlxByRejected, deadNackedMultiple},
		{"Expired", dlxEffects, deadExpired},
		{"ExpiredByMessage", dlxEffects, deadExpiredByMessage},
		{"Overflown", dlxEffects, deadOverflown},
		{"ContentIsKept", dlxEffects, deadContentKept},
		{"RequeueIsNoDeath", dlxPage, deadNotByRequeue},
		{"PurgeIsNoDeath", dlxPage, deadNotByPurge},
		{"DeleteIsNoDeath", dlxPage, deadNotByDelete},
		{"QueueExpiryIsNoDeath", "Time-To-Live: Queue TTL", deadNotByQueueExpiry},
		{"KeepsRoutingKey", dlxRouting, deadKeepsKey},
		{"OtherRoutingKey", dlxRouting, deadOtherKey},
		{"DefaultExchange", dlxArguments, deadToDefaultExchange},
		{"SeveralQueues", dlxRouting, deadToSeveralQueues},
		{"MissingExchange", dlxArguments, deadToMissingExchange},
		{"ExchangeDeclaredLater", dlxArguments, deadToExchangeDeclaredLater},
		{"InternalExchange", dlxArguments, deadToInternalExchange},
		{"UnroutableToAlternateExchange", "Alternate Exchanges", deadToAlternateExchange},
		{"QuorumTarget", dlxPage, deadToQuorumQueue},
		{"FullTarget", dlxPage + ": Safety", deadToFullQueue},
		{"CopiesInRoutingKeys", dlxEffects, deadWithCC},
		{"CopiesRoutedAgain", dlxRouting, deadRoutedByCC},
		{"CopiesAndOtherKey", dlxRouting, deadOtherKeyAndCC},
		{"BlindCopiesAreForgotten", dlxRouting, deadWithBCC},
		{"TwoQueues", dlxEffects, deadTwice},
		{"ThreeQueues", dlxEffects, deadThrice},
		{"CountsAddUp", dlxEffects, deadCounts},
		{"MergedKeepsFirstRouting", dlxEffects, deadMergedKeepsRouting},
		{"RejectedToItself", dlxRouting, deadToItselfByReject},
		{"ExpiredToItself", dlxRouting, deadToItselfByExpiry},
		{"CycleOfExpiry", dlxRouting, deadCycle},
		{"CycleWithReject", dlxRouting, deadCycleWithReject},
		{"ForgedHistory", dlxEffects, deadForgedHistory},
		{"LastDeath", dlxEffects, deadLast},
		{"HistoryOfWrongType", dlxEffects, deadHistoryOfWrongType},
		{"AtLeastOnce", atLeastOnce, deadAtLeastOnce},
		{"AtLeastOnceRejected", atLeastOnce, deadAtLeastOnceRejected},
		{"AtLeastOnceOutOfOrder", atLeastOnce, deadAtLeastOnceOutOfOrder},
	}
}

// reject gets the message at the head of queue source and rejects it.
func reject(ch *Channel) {
	ch.b.t.Helper()
	ch.b.Must(ch.Hold(source).Reject(false))
}

func deadRejected(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	ch.Bind(source, "key", "amq.direct", nil)
	ch.Send("amq.direct", "key", "a")
	reject(ch)
	b.AwaitCount(dead, 1) // 4.3 does not mark a message for which a consumer waits
	got := b.WantArrivals(dead, "a")[0]
	b.WantDeaths(got, death{1, "rejected", source, "amq.direct", []string{"key"}, ""})
	b.WantFirstDeath(got, "rejected", source, "amq.direct")
	Equal(b, "exchange", got.Exchange, "dlx")
	Equal(b, "routing key", got.RoutingKey, "key")
	// From 4.3 on that is a failed delivery of the message, wherever it comes next.
	b.WantRedelivered(got, b.Since(release43))
}

// The headers on the last death are there from 3.13 on.
func deadLast(_ *testing.T, b *Bench) {
	ch := b.Channel()
	chain(ch, "q1", "q2", ch.Queue(dead, nil))
	ch.SendAll("q1", "a")
	got := b.Arrival(dead)
	want := either(b, release313, [3]any{"expired", "q2", ""}, [3]any{nil, nil, nil})
	Equal(b, "last death's reason, queue and exchange",
		[3]any{got.Headers["x-last-death-reason"], got.Headers["x-last-death-queue"], got.Headers["x-last-death-exchange"]}, want)
}

func deadNacked(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	ch.SendAll(source, "a")
	b.Must(ch.Hold(source).Nack(false, false))
	b.WantDeaths(b.Arrival(dead), death{1, "rejected", source, "", []string{source}, ""})
}

func deadNackedMultiple(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	ch.SendAll(source, "a", "b", "c", "d")
	held := ch.HoldAll(source, "a", "b", "c")
	b.Must(held[2].Nack(true, false))
	b.WantArrivals(dead, "a", "b", "c")
	ch.WantBodies(source, "d")
}

func deadExpired(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(ttl(short))
	ch.SendAll(source, "a")
	got := b.Arrival(dead)
	b.WantDeaths(got, death{1, "expired", source, "", []string{source}, ""})
	b.WantFirstDeath(got, "expired", source, "")
}

func deadExpiredByMessage(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	ch.SendMessage("", source, mortal("a", short))
	got := b.Arrival(dead)
	b.WantDeaths(got, death{1, "expired", source, "", []string{source}, shortExpiration})
	Equal(b, "expiration of the dead letter", got.Expiration, "")
}

func deadOverflown(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(maxLength(1))
	ch.SendAll(source, "a", "b", "c")
	for _, got := range b.WantArrivals(dead, "a", "b") {
		b.WantDeaths(got, death{1, "maxlen", source, "", []string{source}, ""})
		b.WantFirstDeath(got, "maxlen", source, "")
	}
	ch.WantBodies(source, "c")
}

func deadContentKept(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	sent := amqp091.Publishing{
		Headers:     amqp091.Table{"text": "v", "number": int32(7), "inner": amqp091.Table{"list": []any{"x", int64(1)}}},
		ContentType: "text/plain", ContentEncoding: "utf-8", DeliveryMode: 2, Priority: 3, CorrelationId: "c", ReplyTo: "r",
		MessageId: "m", Timestamp: time.Unix(1_700_000_000, 0), Type: "t", AppId: "app", Body: []byte("body"),
	}
	ch.SendMessage("", source, sent)
	reject(ch)
	got := b.Arrival(dead)
	for header, value := range sent.Headers {
		Equal(b, "header "+header, fmt.Sprintf("%#v", got.Headers[header]), fmt.Sprintf("%#v", value))
	}
	Equal(b, "properties",
		fmt.Sprint(got.ContentType, got.ContentEncoding, got.DeliveryMode, got.Priority, got.CorrelationId, got.ReplyTo, got.MessageId, got.Timestamp.Unix(), got.Type, got.AppId, string(got.Body)),
		fmt.Sprint(sent.ContentType, sent.ContentEncoding, sent.DeliveryMode, sent.Priority, sent.CorrelationId, sent.ReplyTo, sent.MessageId, sent.Timestamp.Unix(), sent.Type, sent.AppId, string(sent.Body)))
}

func deadNotByRequeue(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	ch.SendAll(source, "a")
	b.Must(ch.Hold(source).Nack(false, true))
	ch.WantBodies(source, "a")
	ch.WantBodies(dead)
}

func deadNotByPurge(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	ch.SendAll(source, "purged")
	_, err := ch.QueuePurge(source, false)
	b.Must(err)
	ch.SendAll(source, "rejected")
	reject(ch)
	b.WantArrivals(dead, "rejected")
}

func deadNotByDelete(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	ch.SendAll(source, "deleted")
	_, err := ch.QueueDelete(source, false, false, false)
	b.Must(err)
	ch.DeadLettering(nil)
	ch.SendAll(source, "rejected")
	reject(ch)
	b.WantArrivals(dead, "rejected")
}

func deadNotByQueueExpiry(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(amqp091.Table{"x-expires": expiry})
	ch.SendAll(source, "expired")
	b.gone(source)
	b.Channel().WantBodies(dead)
}

func deadKeepsKey(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Exchange("dlx", "topic", nil)
	ch.Bind(ch.Queue(dead, nil), "orders.*", "dlx", nil)
	ch.Bind(ch.Queue(source, amqp091.Table{"x-dead-letter-exchange": "dlx"}), "#", "amq.topic", nil)
	ch.Send("amq.topic", "orders.new", "a")
	reject(ch)
	Equal(b, "routing key", b.Arrival(dead).RoutingKey, "orders.new")
}

func deadOtherKey(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Bind(ch.Queue(dead, nil), "corpse", "amq.direct", nil)
	ch.Queue(source, amqp091.Table{"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": "corpse"})
	ch.SendAll(source, "a")
	reject(ch)
	got := b.Arrival(dead)
	Equal(b, "routing key", got.RoutingKey, "corpse")
	b.WantDeaths(got, death{1, "rejected", source, "", []string{source}, ""})
}

func deadToDefaultExchange(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue(dead, nil)
	ch.Queue(source, deadTo(dead))
	ch.SendAll(source, "a")
	reject(ch)
	got := b.Arrival(dead)
	Equal(b, "exchange", got.Exchange, "")
	Equal(b, "routing key", got.RoutingKey, dead)
}

func deadToSeveralQueues(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	ch.Bind(ch.Queue("another", nil), "", "dlx", nil)
	ch.SendAll(source, "a")
	reject(ch)
	for _, queue := range []string{dead, "another"} {
		b.WantDeaths(b.Arrival(queue), death{1, "rejected", source, "", []string{source}, ""})
	}
}

func deadToMissingExchange(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue(source, amqp091.Table{"x-dead-letter-exchange": "nope"})
	ch.SendAll(source, "dropped", "next")
	reject(ch)
	ch.WantBodies(source, "next")
}

func deadToExchangeDeclaredLater(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue(source, amqp091.Table{"x-dead-letter-exchange": "dlx"})
	ch.SendAll(source, "too early", "in time")
	reject(ch)
	ch.WantCount(source, 1)
	ch.DeadLettering(nil)
	reject(ch)
	b.WantArrivals(dead, "in time")
}

func deadToInternalExchange(_ *testing.T, b *Bench) {
	ch := b.Channel()
	b.Must(ch.ExchangeDeclare("inner", "fanout", true, false, true, false, nil))
	ch.Bind(ch.Queue(dead, nil), "", "inner", nil)
	ch.Queue(source, amqp091.Table{"x-dead-letter-exchange": "inner"})
	ch.SendAll(source, "a")
	reject(ch)
	b.WantArrivals(dead, "a")
}

func deadToAlternateExchange(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Bind(ch.Queue(dead, nil), "", "amq.fanout", nil)
	ch.Exchange("dlx", "direct", amqp091.Table{"alternate-exchange": "amq.fanout"})
	ch.Queue(source, amqp091.Table{"x-dead-letter-exchange": "dlx"})
	ch.SendAll(source, "a")
	reject(ch)
	got := b.Arrival(dead)
	Equal(b, "exchange", got.Exchange, "dlx")
	b.WantDeaths(got, death{1, "rejected", source, "", []string{source}, ""})
}

func deadToFullQueue(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue(dead, refusing(1))
	ch.Queue(source, deadTo(dead))
	ch.SendAll(source, "first", "dropped", "third")
	reject(ch)
	reject(ch)
	third := ch.Hold(source)
	b.WantArrivals(dead, "first")
	b.Must(third.Reject(false))
	b.WantArrivals(dead, "third")
}

func deadToQuorumQueue(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue(dead, quorum(nil))
	ch.Queue(source, deadTo(dead))
	ch.SendAll(source, "a", "b")
	reject(ch)
	reject(ch)
	b.WantArrivals(dead, "a", "b")
}

// copied is a message with routing keys besides its own.
func copied(header string, keys ...any) amqp091.Publishing {
	return amqp091.Publishing{Headers: amqp091.Table{header: keys}, Body: []byte("copied")}
}

func deadWithCC(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	ch.SendMessage("", source, copied("CC", "copy", "another"))
	reject(ch)
	got := b.Arrival(dead)
	b.WantDeaths(got, death{1, "rejected", source, "", []string{source, "copy", "another"}, ""})
	Equal(b, "header CC", fmt.Sprint(got.Headers["CC"]), "[copy another]")
}

func deadRoutedByCC(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("copy", nil)
	ch.Bind(ch.Queue(dead, nil), "copy", "amq.direct", nil)
	ch.Queue(source, amqp091.Table{"x-dead-letter-exchange": "amq.direct"})
	ch.SendMessage("", source, copied("CC", "copy"))
	reject(ch)
	Equal(b, "routing key", b.Arrival(dead).RoutingKey, source)
}

// With a key of its own for dead letters a queue forgets the others; from 4.0 on the header is kept nevertheless.
func deadOtherKeyAndCC(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue(dead, nil)
	ch.Queue(source, deadTo(dead))
	ch.Queue("copy", nil)
	ch.SendMessage("", source, copied("CC", "copy"))
	ch.WantBodies("copy", "copied")
	reject(ch)
	got := b.Arrival(dead)
	b.WantDeaths(got, death{1, "rejected", source, "", []string{source, "copy"}, ""})
	Equal(b, "header CC", fmt.Sprint(got.Headers["CC"]), either(b, release40, "[copy]", "<nil>"))
	b.Channel().WantBodies("copy")
}

func deadWithBCC(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	ch.SendMessage("", source, copied("BCC", "blind"))
	reject(ch)
	b.WantDeaths(b.Arrival(dead), death{1, "rejected", source, "", []string{source}, ""})
}

// chain declares queues of which each but the last one sends what dies in it of age to the next.
func chain(ch *Channel, queues ...string) {
	ch.b.t.Helper()
	for i, queue := range queues[:len(queues)-1] {
		ch.Queue(queue, with(ttl(tick), deadTo(queues[i+1])))
	}
}

func deadTwice(_ *testing.T, b *Bench) {
	ch := b.Channel()
	chain(ch, "q1", "q2", ch.Queue(dead, nil))
	ch.SendAll("q1", "a")
	got := b.Arrival(dead)
	b.WantDeaths(got,
		death{1, "expired", "q2", "", []string{"q2"}, ""},
		death{1, "expired", "q1", "", []string{"q1"}, ""})
	b.WantFirstDeath(got, "expired", "q1", "")
}

func deadThrice(_ *testing.T, b *Bench) {
	ch := b.Channel()
	chain(ch, "q1", "q2", "q3", ch.Queue(dead, nil))
	ch.SendAll("q1", "a")
	message := b.Arrival(dead)
	b.WantFirstDeath(message, "expired", "q1", "")
	deaths := b.Deaths(message)
	Equal(b, "number of deaths", len(deaths), 3)
	// Only the newest has its place: RabbitMQ 3.10 turns the older ones round at every death.
	Equal(b, "queue of the newest death", deaths[0].Queue, "q3")
	for _, queue := range []string{"q1", "q2", "q3"} {
		want := death{1, "expired", queue, "", []string{queue}, ""}
		if !slices.ContainsFunc(deaths, func(d death) bool { return reflect.DeepEqual(d, want) }) {
			b.t.Errorf("deaths: got %+v, want one of them to be %+v", deaths, want)
		}
	}
}

func deadCounts(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("work", deadTo("wait"))
	ch.Queue("wait", with(ttl(tick), deadTo("work")))
	deliveries := ch.Deliveries("work")
	ch.SendAll("work", "a")
	for range 3 {
		b.Must(b.WantDelivery(deliveries, "a").Reject(false))
	}
	got := b.WantDelivery(deliveries, "a")
	b.WantDeaths(got,
		death{3, "expired", "wait", "", []string{"wait"}, ""},
		death{3, "rejected", "work", "", []string{"work"}, ""})
	b.WantFirstDeath(got, "rejected", "work", "")
}

func deadMergedKeepsRouting(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Bind(ch.Queue(source, deadTo(source)), "key", "amq.direct", nil)
	deliveries := ch.Deliveries(source)
	ch.SendMessage("amq.direct", "key", mortal("a", long))
	b.Must(b.WantDelivery(deliveries, "a").Reject(false))
	b.Must(b.WantDelivery(deliveries, "a").Reject(false))
	b.WantDeaths(b.WantDelivery(deliveries, "a"), death{2, "rejected", source, "amq.direct", []string{"key"}, "600000"})
}

func deadToItselfByReject(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue(source, deadTo(source))
	deliveries := ch.Deliveries(source)
	ch.SendAll(source, "a")
	for range 3 {
		b.Must(b.WantDelivery(deliveries, "a").Reject(false))
	}
	b.WantDeaths(b.WantDelivery(deliveries, "a"), death{3, "rejected", source, "", []string{source}, ""})
}

func deadToItselfByExpiry(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue(source, deadTo(source))
	ch.SendMessage("", source, mortal("dropped", short))
	ch.SendAll(source, "kept")
	b.AwaitCount(source, 1)
	ch.WantBodies(source, "kept")
}

func deadCycle(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Exchange("back", "fanout", nil)
	ch.Queue("q1", with(ttl(tick), deadTo("q2")))
	ch.Queue("q2", with(ttl(tick), amqp091.Table{"x-dead-letter-exchange": "back"}))
	ch.Bind("q1", "", "back", nil)
	ch.Bind(ch.Queue(dead, nil), "", "back", nil)
	ch.SendAll("q1", "first")
	b.WantDeaths(b.Arrival(dead),
		death{1, "expired", "q2", "", []string{"q2"}, ""},
		death{1, "expired", "q1", "", []string{"q1"}, ""})
	ch.SendAll("q1", "second")
	b.WantArrivals(dead, "second")
}

func deadCycleWithReject(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("wait", with(ttl(tick), deadTo("work")))
	ch.Queue("work", deadTo("wait"))
	deliveries := ch.Deliveries("work")
	ch.SendAll("wait", "a")
	b.Must(b.WantDelivery(deliveries, "a").Reject(false))
	b.WantDeaths(b.WantDelivery(deliveries, "a"),
		death{2, "expired", "wait", "", []string{"wait"}, ""},
		death{1, "rejected", "work", "", []string{"work"}, ""})
}

// An x-death that a client sends is continued before 4.0, and replaced from then on.
func deadForgedHistory(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	ch.SendMessage("", source, amqp091.Publishing{Headers: amqp091.Table{"x-death": []any{amqp091.Table{
		"count": int64(5), "reason": "rejected", "queue": source, "time": time.Now(), "exchange": "made up", "routing-keys": []any{"k"},
	}}}})
	reject(ch)
	got := b.Arrival(dead)
	if b.Since(release40) {
		b.WantDeaths(got, death{1, "rejected", source, "", []string{source}, ""})
		b.WantFirstDeath(got, "rejected", source, "")
		return
	}
	b.WantDeaths(got, death{6, "rejected", source, "made up", []string{"k"}, ""})
	Equal(b, "first death's reason", got.Headers["x-first-death-reason"], nil)
}

func deadHistoryOfWrongType(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	ch.SendMessage("", source, amqp091.Publishing{Headers: amqp091.Table{"x-death": "made up"}})
	reject(ch)
	b.WantDeaths(b.Arrival(dead), death{1, "rejected", source, "", []string{source}, ""})
}

func deadAtLeastOnce(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.DeadLettering(surely(ttl(short)))
	ch.SendAll(source, "a", "b")
	for _, got := range b.WantArrivals(dead, "a", "b") {
		b.WantDeaths(got, death{1, "expired", source, "", []string{source}, ""})
		b.WantFirstDeath(got, "expired", source, "")
	}
}

func deadAtLeastOnceRejected(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.DeadLettering(surely(nil))
	ch.SendAll(source, "a")
	reject(ch)
	b.WantDeaths(b.Arrival(dead), death{1, "rejected", source, "", []string{source}, ""})
}

// A letter that does not arrive is sent again later, and does not hold up those behind it.
func deadAtLeastOnceOutOfOrder(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Exchange("in", "fanout", nil)
	ch.Exchange("letters", "direct", nil)
	ch.Queue(source, surely(amqp091.Table{"x-dead-letter-exchange": "letters"}))
	ch.Queue(dead, nil)
	ch.Bind(source, "", "in", nil)
	ch.Bind(dead, "routable", "letters", nil)
	ch.Send("in", "unroutable", "a")
	ch.Send("in", "routable", "b")
	for range 2 {
		b.Must(ch.Hold(source).Reject(false))
	}
	b.WantDelivery(b.Channel().Deliveries(dead), "b")
}

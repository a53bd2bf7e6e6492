package amqp

import (
	"strconv"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

const (
	queueTTLPage   = "Time-To-Live: Per-Queue Message TTL"
	messageTTLPage = "Time-To-Live: Per-Message TTL in Publishers"
	ttlCaveats     = "Time-To-Live: Caveats"
)

func ttlCases() []Case {
	return []Case{
		{"OfQueue", queueTTLPage, ttlOfQueue},
		{"OfMessage", messageTTLPage, ttlOfMessage},
		{"MessageLower", messageTTLPage, livesShortly(long, short)},
		{"QueueLower", messageTTLPage, livesShortly(short, long)},
		{"DropsWithoutDeadLetterExchange", queueTTLPage, ttlDrops},
		{"OnlyAtTheHead", ttlCaveats, ttlOnlyAtTheHead},
		{"HeadGoesOthersFollow", ttlCaveats, ttlOthersFollow},
		{"ZeroOfQueue", queueTTLPage, ttlZeroOfQueue},
		{"ZeroOfQueueDelivered", queueTTLPage, ttlZeroOfQueueDelivered},
		{"ZeroOfMessage", messageTTLPage, ttlZeroOfMessage},
		{"ZeroOfMessageDelivered", messageTTLPage, ttlZeroOfMessageDelivered},
		{"ZeroWithBusyConsumer", queueTTLPage, ttlZeroWithBusyConsumer},
		{"NotWhileUnacked", queueTTLPage, ttlNotWhileUnacked},
		{"RequeueKeepsExpiry", queueTTLPage, ttlRequeueKeepsExpiry},
		{"EachQueueOnItsOwn", queueTTLPage, ttlEachQueue},
		{"ExpirationIsDelivered", messageTTLPage, ttlExpirationDelivered},
		{"NotForOlderMessages", "Time-To-Live: Per-Queue Message TTL, by policy", ttlNotForOlderMessages},
	}
}

// short and tick are times to live that are over soon, and long is one that no case waits for.
const (
	tick  = 20 * time.Millisecond
	short = 150 * time.Millisecond
	long  = 10 * time.Minute

	shortExpiration = "150" // short, as a message has it
)

// mortal is a message that lives for a time.
func mortal(body string, d time.Duration) amqp091.Publishing {
	return amqp091.Publishing{Body: []byte(body), Expiration: strconv.FormatInt(d.Milliseconds(), 10)}
}

// wantExpiry waits for a message that was sent to queue source at a time to die of its short life, and not before.
func wantExpiry(b *Bench, body string, sent time.Time) amqp091.Delivery {
	b.t.Helper()
	got := b.WantArrivals(dead, body)[0]
	if lived := time.Since(sent); lived < short {
		b.t.Errorf("message %s lived %v, want %v or more", body, lived, short)
	}
	Equal(b, "reason", got.Headers["x-first-death-reason"], any("expired"))
	return got
}

func ttlOfQueue(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(ttl(short))
	sent := time.Now()
	ch.SendAll(source, "a")
	wantExpiry(b, "a", sent)
	ch.WantBodies(source)
}

func ttlOfMessage(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	sent := time.Now()
	ch.SendMessage("", source, mortal("a", short))
	ch.SendAll(source, "immortal")
	wantExpiry(b, "a", sent)
	ch.WantBodies(source, "immortal")
}

// livesShortly is a case in which the lower of two times to live counts.
func livesShortly(ofQueue, ofMessage time.Duration) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		ch := b.Channel()
		ch.DeadLettering(ttl(ofQueue))
		sent := time.Now()
		ch.SendMessage("", source, mortal("a", ofMessage))
		wantExpiry(b, "a", sent)
	}
}

func ttlDrops(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("q", ttl(short))
	ch.SendAll("q", "a", "b")
	b.AwaitCount("q", 0)
}

func ttlOnlyAtTheHead(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	ch.Queue("clock", amqp091.Table{"x-dead-letter-exchange": "dlx"})
	ch.SendAll(source, "immortal")
	ch.SendMessage("", source, mortal("behind", short))
	ch.SendMessage("", "clock", mortal("clock", 2*short))
	b.WantArrivals(dead, "clock")
	ch.HoldAll(source, "immortal")
	b.WantArrivals(dead, "behind")
}

func ttlOthersFollow(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	sent := time.Now()
	ch.SendMessage("", source, mortal("head", short))
	ch.SendMessage("", source, mortal("behind", 1*time.Millisecond))
	ch.SendAll(source, "immortal")
	wantExpiry(b, "head", sent)
	wantExpiry(b, "behind", sent)
	ch.WantBodies(source, "immortal")
}

func ttlZeroOfQueue(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(ttl(0))
	ch.SendAll(source, "a", "b")
	b.WantArrivals(dead, "a", "b")
	ch.WantBodies(source)
}

func ttlZeroOfQueueDelivered(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", ttl(0))
	deliveries := ch.Deliveries("q")
	ch.SendAll("q", "a", "b")
	b.WantDeliveries(deliveries, "a", "b")
}

func ttlZeroOfMessage(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(nil)
	ch.SendMessage("", source, mortal("a", 0))
	b.WantArrivals(dead, "a")
	ch.WantBodies(source)
}

func ttlZeroOfMessageDelivered(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	deliveries := ch.Deliveries("q")
	ch.SendMessage("", "q", mortal("a", 0))
	Equal(b, "expiration", b.WantDelivery(deliveries, "a").Expiration, "0")
}

func ttlZeroWithBusyConsumer(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(1)
	ch.DeadLettering(ttl(0))
	deliveries := ch.Deliveries(source)
	ch.SendAll(source, "delivered", "expired")
	b.WantDelivery(deliveries, "delivered")
	b.WantArrivals(dead, "expired")
}

// heldUntilExpired sends a message that is delivered at once, and waits until another one, which is as old, has expired.
func heldUntilExpired(b *Bench) (*Channel, amqp091.Delivery) {
	b.t.Helper()
	ch := b.Channel().Prefetch(1)
	ch.DeadLettering(ttl(short))
	deliveries := ch.Deliveries(source)
	ch.SendAll(source, "held", "clock")
	held := b.WantDelivery(deliveries, "held")
	b.Must(ch.Cancel(held.ConsumerTag, false))
	b.WantArrivals(dead, "clock")
	return ch, held
}

func ttlNotWhileUnacked(_ *testing.T, b *Bench) {
	ch, held := heldUntilExpired(b)
	b.Must(held.Ack(false))
	ch.WantBodies(source)
	ch.WantBodies(dead)
}

func ttlRequeueKeepsExpiry(_ *testing.T, b *Bench) {
	ch, held := heldUntilExpired(b)
	b.Must(held.Nack(false, true))
	ch.WantBodies(source)
	b.WantDeaths(b.Arrival(dead), death{1, "expired", source, "", []string{source}, ""})
}

func ttlEachQueue(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(ttl(short))
	ch.Bind(source, "", "amq.fanout", nil)
	ch.Bind(ch.Queue("q", ttl(long)), "", "amq.fanout", nil)
	ch.Send("amq.fanout", "", "a")
	b.WantArrivals(dead, "a")
	ch.WantBodies("q", "a")
}

func ttlExpirationDelivered(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", ttl(long))
	ch.SendMessage("", "q", mortal("a", long))
	Equal(b, "expiration", ch.Take("q").Expiration, "600000")
}

func ttlNotForOlderMessages(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.DeadLettering(nil)
	ch.SendAll(source, "old")
	b.SetPolicy("ttl", "^"+source+"$", 0, map[string]any{"message-ttl": short.Milliseconds()})
	ch.SendAll(source, "new", "newer")
	old := ch.Hold(source)
	Equal(b, "message of before the policy", string(old.Body), "old")
	b.WantArrivals(dead, "new", "newer")
	b.Must(old.Nack(false, true))
	ch.WantBodies(source, "old")
}

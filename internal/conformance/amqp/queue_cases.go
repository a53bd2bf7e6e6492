package amqp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/internal/wire"
)

const (
	declareReference = "AMQP 0-9-1 reference: queue.declare"
	queueNamesPage   = "Queues: Names"
	exclusivePage    = "Queues: Exclusive Queues"
	temporaryPage    = "Queues: Temporary Queues"
	expiresPage      = "Time-To-Live and Expiration: Queue TTL"
	queueDeleteRef   = "AMQP 0-9-1 reference: queue.delete"
	purgeReference   = "AMQP 0-9-1 reference: queue.purge"
)

func queueCases() []Case {
	return []Case{
		{"Declare", declareReference, declareQueue},
		{"DeclareAgainCounts", declareReference + ", declare-ok", declareAgainCounts},
		{"DeclareNameOf255Bytes", queueNamesPage, declareQueueLongName},
		{"LongNameInNotFound", queueNamesPage, refusesLongName(404, "NOT_FOUND - no queue '", passiveQueue)},
		{"LongNameInRefusal", queueNamesPage, refusesLongName(406, "PRECONDITION_FAILED - invalid arg 'x-max-length' for queue '", invalidQueue)},
		{"LongNameWithinLimit", queueNamesPage, longNameWithinLimit},
		{"DeclareOddNames", queueNamesPage, declareOddNames},
		{"DeclareDropsNewlines", declareReference + ", name", declareQueueNewlines},
		{"DeclareReservedName", "Queues: Reserved names", declareQueueReserved},
		{"DeclareServerNamed", "Queues: Server-named Queues", declareServerNamed},
		{"RedeclareServerNamed", "Queues: Reserved names", redeclareServerNamed},
		{"LastDeclaredName", declareReference + ", queue-known", lastDeclaredName},
		{"LastDeclaredByPassive", declareReference + ", queue-known", lastDeclaredByPassive},
		{"LastDeclaredPerChannel", declareReference + ", queue-known", lastDeclaredPerChannel},
		{"PassiveCounts", declareReference + ", passive", passiveCounts},
		{"PassiveCountsOnlyReady", declareReference + ", declare-ok message-count", passiveCountsReady},
		{"PassiveComparesNothing", declareReference + ", passive", passiveComparesNothing},
		{"PassiveMissing", declareReference + ", passive", passiveMissing},
		{"Purge", purgeReference, purge},
		{"PurgeKeepsUnacked", purgeReference + ", message state", purgeKeepsUnacked},
		{"PurgeEmpty", purgeReference, purgeEmpty},
		{"PurgeMissing", purgeReference + ", queue-known", purgeMissing},
		{"Delete", queueDeleteRef, deleteQueue},
		{"DeleteMissing", "Specification differences: exchange.delete and queue.delete are idempotent", deleteQueueMissing},
		{"DeleteIfUnusedInUse", queueDeleteRef + ", in-use", deleteQueueInUse},
		{"DeleteIfUnusedFree", queueDeleteRef + ", if-unused", deleteQueueUnused},
		{"DeleteIfEmptyNot", queueDeleteRef + ", not-empty", deleteQueueNotEmpty},
		{"DeleteIfEmptyUnacked", queueDeleteRef + ", if-empty", deleteQueueUnacked},
		{"ExclusiveOwner", exclusivePage, exclusiveOwner},
		{"ExclusiveDeclareElsewhere", exclusivePage, exclusiveElsewhere(func(ch *Channel) error {
			_, err := ch.QueueDeclare("mine", false, false, true, false, nil)
			return err
		})},
		{"ExclusivePassiveElsewhere", exclusivePage, exclusiveElsewhere(func(ch *Channel) error {
			_, err := ch.QueueDeclarePassive("mine", false, false, false, false, nil)
			return err
		})},
		{"ExclusiveConsumeElsewhere", exclusivePage, exclusiveElsewhere(func(ch *Channel) error {
			_, err := ch.Consume("mine", "", false, false, false, false, nil)
			return err
		})},
		{"ExclusiveBindElsewhere", exclusivePage, exclusiveElsewhere(func(ch *Channel) error {
			return ch.QueueBind("mine", "k", "amq.direct", false, nil)
		})},
		{"ExclusivePurgeElsewhere", exclusivePage, exclusiveElsewhere(func(ch *Channel) error {
			_, err := ch.QueuePurge("mine", false)
			return err
		})},
		{"ExclusiveDeleteElsewhere", exclusivePage, exclusiveElsewhere(func(ch *Channel) error {
			_, err := ch.QueueDelete("mine", false, false, false)
			return err
		})},
		{"ExclusivePublishElsewhere", exclusivePage, exclusivePublishElsewhere},
		{"ExclusiveRedeclaredShared", exclusivePage, exclusiveRedeclaredShared},
		{"ExclusiveGoneAfterClose", exclusivePage, exclusiveGoneAfterClose},
		{"ExclusiveGoneAfterCut", exclusivePage, exclusiveGoneAfterCut},
		{"ExclusiveSurvivesChannel", exclusivePage, exclusiveSurvivesChannel},
		{"AutoDeleteAfterCancel", temporaryPage, autoDeleteQueueCancel},
		{"AutoDeleteAfterChannel", temporaryPage, autoDeleteQueueChannel},
		{"AutoDeleteAfterConnection", temporaryPage, autoDeleteQueueConnection},
		{"AutoDeleteNotWithoutConsumer", temporaryPage, autoDeleteNotWithoutConsumer},
		{"ExpiresWhenIdle", expiresPage, expiresWhenIdle},
		{"ExpiresNotWithConsumer", expiresPage, expiresNotWithConsumer},
		{"ExpiresRenewedByDeclare", expiresPage, expiresRenewedBy(useByDeclare)},
		{"ExpiresRenewedByGet", expiresPage, expiresRenewedBy(useByGet)},
		{"ExpiresWithMessages", expiresPage, expiresWithMessages},
	}
}

func declareQueue(_ *testing.T, b *Bench) {
	q, err := b.Channel().QueueDeclare("q", true, false, false, false, nil)
	b.Must(err)
	Equal(b, "declare-ok", q, amqp091.Queue{Name: "q"})
}

func declareAgainCounts(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("q", nil)
	ch.Send("", "q", "one")
	ch.Send("", "q", "two")
	q, err := ch.QueueDeclare("q", true, false, false, false, nil)
	b.Must(err)
	Equal(b, "declare-ok", q, amqp091.Queue{Name: "q", Messages: 2})
}

func declareQueueLongName(_ *testing.T, b *Bench) {
	name := strings.Repeat("q", 255)
	ch := b.Channel()
	Equal(b, "name", ch.Queue(name, nil), name)
	ch.Send("", name, "through")
	Equal(b, "routing key", ch.Take(name).RoutingKey, name)
}

func declareOddNames(_ *testing.T, b *Bench) {
	ch := b.Channel()
	for _, name := range []string{" ", "a b", "/", "..", "ünï/ço∂é", "%2F", "#", "AMQ.upper", "a\tb"} {
		Equal(b, "name", ch.Queue(name, nil), name)
		ch.Send("", name, "to "+name)
		ch.WantBodies(name, "to "+name)
	}
}

func declareQueueNewlines(_ *testing.T, b *Bench) {
	Equal(b, "name", b.Channel().Queue("one\r\ntwo\n", nil), "onetwo")
}

func declareQueueReserved(_ *testing.T, b *Bench) {
	_, err := b.Channel().QueueDeclare("amq.mine", true, false, false, false, nil)
	b.Refused(err, 403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'")
}

func declareServerNamed(t *testing.T, b *Bench) {
	ch := b.Channel()
	one, two := ch.Queue("", nil), ch.Queue("", nil)
	if !strings.HasPrefix(one, "amq.gen-") || one == two {
		t.Errorf("got names %q and %q, want two different ones that begin amq.gen-", one, two)
	}
	ch.Send("", one, "through")
	ch.WantBodies(one, "through")
}

func redeclareServerNamed(_ *testing.T, b *Bench) {
	ch := b.Channel()
	name := ch.Queue("", nil)
	_, err := ch.QueueDeclare(name, true, false, false, false, nil)
	b.Refused(err, 403, "ACCESS_REFUSED - queue name '"+name+"' contains reserved prefix 'amq.*'")
}

func lastDeclaredName(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("first", nil)
	ch.Queue("last", nil)
	ch.Send("", "last", "got")
	ch.Send("", "last", "purged")
	Equal(b, "body", string(ch.Take("").Body), "got")
	n, err := ch.QueuePurge("", false)
	b.Must(err)
	Equal(b, "purged", n, 1)
	deliveries := ch.Deliveries("")
	ch.Send("", "last", "consumed")
	b.WantDelivery(deliveries, "consumed")
	_, err = ch.QueueDelete("", false, false, false)
	b.Must(err)
	b.QueueGone("last")
	b.QueueExists("first")
}

func lastDeclaredByPassive(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("looked at", nil)
	ch.Queue("declared", nil)
	ch.Send("", "looked at", "here")
	ch.WantCount("looked at", 1)
	Equal(b, "body", string(ch.Take("").Body), "here")
}

func lastDeclaredPerChannel(_ *testing.T, b *Bench) {
	conn := b.Connect()
	conn.Channel().Queue("q", nil)
	_, _, err := conn.Channel().Get("", true)
	b.Refused(err, 404, "NOT_FOUND - no previously declared queue")
}

func passiveCounts(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	b.Must(ch.Qos(1, 0, false))
	ch.Deliveries("q")
	ch.Deliveries("q")
	q, err := ch.QueueDeclarePassive("q", true, false, false, false, nil)
	b.Must(err)
	Equal(b, "declare-ok", q, amqp091.Queue{Name: "q", Consumers: 2})
}

func passiveCountsReady(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.Send("", "q", "unacked")
	ch.Send("", "q", "ready")
	_, _, err := ch.Get("q", false)
	b.Must(err)
	ch.WantCount("q", 1)
}

func passiveComparesNothing(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", amqp091.Table{"x-max-length": int32(5)})
	_, err := ch.QueueDeclarePassive("q", false, true, false, false, amqp091.Table{"x-max-length": "nonsense"})
	b.Must(err)
}

func passiveMissing(_ *testing.T, b *Bench) {
	_, err := b.Channel().QueueDeclarePassive("q", true, false, false, false, nil)
	b.Refused(err, 404, "NOT_FOUND - no queue 'q' in vhost '{vhost}'")
}

// filled declares a queue q with messages one, two and three.
func filled(b *Bench) *Channel {
	ch := b.Channel()
	ch.Queue("q", nil)
	for _, body := range []string{"one", "two", "three"} {
		ch.Send("", "q", body)
	}
	return ch
}

func purge(_ *testing.T, b *Bench) {
	ch := filled(b)
	n, err := ch.QueuePurge("q", false)
	b.Must(err)
	Equal(b, "purged", n, 3)
	ch.WantBodies("q")
}

func purgeKeepsUnacked(_ *testing.T, b *Bench) {
	ch := filled(b)
	held, _, err := ch.Get("q", false)
	b.Must(err)
	n, err := ch.QueuePurge("q", false)
	b.Must(err)
	Equal(b, "purged", n, 2)
	b.Must(held.Nack(false, true))
	ch.WantBodies("q", "one")
}

func purgeEmpty(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	n, err := ch.QueuePurge("q", false)
	b.Must(err)
	Equal(b, "purged", n, 0)
}

func purgeMissing(_ *testing.T, b *Bench) {
	_, err := b.Channel().QueuePurge("q", false)
	b.Refused(err, 404, "NOT_FOUND - no queue 'q' in vhost '{vhost}'")
}

func deleteQueue(_ *testing.T, b *Bench) {
	ch := filled(b)
	n, err := ch.QueueDelete("q", false, false, false)
	b.Must(err)
	Equal(b, "messages deleted", n, 3)
	_, err = ch.QueueDeclarePassive("q", true, false, false, false, nil)
	b.Refused(err, 404, "NOT_FOUND - no queue 'q' in vhost '{vhost}'")
}

func deleteQueueMissing(_ *testing.T, b *Bench) {
	n, err := b.Channel().QueueDelete("never declared", true, true, false)
	b.Must(err)
	Equal(b, "messages deleted", n, 0)
}

func deleteQueueInUse(_ *testing.T, b *Bench) {
	conn := b.Connect()
	ch := conn.Channel()
	ch.Queue("q", nil)
	ch.Deliveries("q")
	_, err := conn.Channel().QueueDelete("q", true, false, false)
	b.Refused(err, 406, "PRECONDITION_FAILED - queue 'q' in vhost '{vhost}' in use")
}

func deleteQueueUnused(_ *testing.T, b *Bench) {
	n, err := filled(b).QueueDelete("q", true, false, false)
	b.Must(err)
	Equal(b, "messages deleted", n, 3)
}

func deleteQueueNotEmpty(_ *testing.T, b *Bench) {
	_, err := filled(b).QueueDelete("q", false, true, false)
	b.Refused(err, 406, "PRECONDITION_FAILED - queue 'q' in vhost '{vhost}' not empty")
}

func deleteQueueUnacked(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.Send("", "q", "unacked")
	_, _, err := ch.Get("q", false)
	b.Must(err)
	// Messages that are out for delivery do not count.
	_, err = ch.QueueDelete("q", false, true, false)
	b.Must(err)
}

// locked is what a connection hears that does not own a queue.
const locked = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'mine' in vhost '{vhost}'. It could be originally " +
	"declared on another connection or the exclusive property value does not match that of the original declaration."

// exclusiveQueue declares the exclusive queue mine.
func (c *Conn) exclusiveQueue() {
	c.b.t.Helper()
	_, err := c.Channel().QueueDeclare("mine", false, false, true, false, nil)
	c.b.Must(err)
}

func exclusiveOwner(_ *testing.T, b *Bench) {
	conn := b.Connect()
	conn.exclusiveQueue()
	ch := conn.Channel()
	_, err := ch.QueueDeclare("mine", false, false, true, false, nil)
	b.Must(err)
	ch.Send("", "mine", "through")
	ch.WantBodies("mine", "through")
}

func exclusiveElsewhere(use func(ch *Channel) error) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		b.Connect().exclusiveQueue()
		b.Refused(use(b.Channel()), 405, locked)
	}
}

func exclusivePublishElsewhere(_ *testing.T, b *Bench) {
	owner := b.Connect()
	owner.exclusiveQueue()
	b.Channel().Confirming().Send("", "mine", "from elsewhere")
	owner.Channel().WantBodies("mine", "from elsewhere")
}

func exclusiveRedeclaredShared(_ *testing.T, b *Bench) {
	owner := b.Connect()
	owner.exclusiveQueue()
	_, err := owner.Channel().QueueDeclare("mine", false, false, false, false, nil)
	b.Refused(err, 405, locked)
}

func exclusiveGoneAfterClose(_ *testing.T, b *Bench) {
	owner := b.Connect()
	owner.exclusiveQueue()
	b.Must(owner.Close())
	// They are gone when close-ok comes.
	_, err := b.Channel().QueueDeclarePassive("mine", false, false, false, false, nil)
	b.Refused(err, 404, "NOT_FOUND - no queue 'mine' in vhost '{vhost}'")
}

func exclusiveGoneAfterCut(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Send(1, &wire.QueueDeclare{Queue: "mine", Exclusive: true})
	Expect[*wire.QueueDeclareOK](r, 1)
	b.Must(r.conn.Close())
	b.QueueGone("mine")
}

func exclusiveSurvivesChannel(_ *testing.T, b *Bench) {
	owner := b.Connect()
	ch := owner.Channel()
	_, err := ch.QueueDeclare("mine", true, false, true, false, nil)
	b.Must(err)
	b.Must(ch.Close())
	owner.Channel().WantCount("mine", 0)
}

// autoDeleteQueue declares an auto-delete queue q, and consumes from it under the tag c.
func autoDeleteQueue(b *Bench) (*Conn, *Channel) {
	conn := b.Connect()
	ch := conn.Channel()
	_, err := ch.QueueDeclare("q", true, true, false, false, nil)
	b.Must(err)
	_, err = ch.Consume("q", "c", false, false, false, false, nil)
	b.Must(err)
	return conn, ch
}

func autoDeleteQueueCancel(_ *testing.T, b *Bench) {
	_, ch := autoDeleteQueue(b)
	_, err := ch.Consume("q", "second", false, false, false, false, nil)
	b.Must(err)
	b.Must(ch.Cancel("second", false))
	b.QueueExists("q")
	b.Must(ch.Cancel("c", false))
	b.QueueGone("q")
}

func autoDeleteQueueChannel(_ *testing.T, b *Bench) {
	_, ch := autoDeleteQueue(b)
	b.Must(ch.Close())
	b.QueueGone("q")
}

func autoDeleteQueueConnection(_ *testing.T, b *Bench) {
	conn, _ := autoDeleteQueue(b)
	b.Must(conn.Close())
	b.QueueGone("q")
}

func autoDeleteNotWithoutConsumer(_ *testing.T, b *Bench) {
	ch := b.Channel()
	_, err := ch.QueueDeclare("q", true, true, false, false, nil)
	b.Must(err)
	ch.Send("", "q", "got")
	ch.WantBodies("q", "got")
	b.Must(ch.Close())
	b.QueueExists("q")
}

// expiry is after how many milliseconds the queues of these cases expire.
const expiry = int32(400)

func expiresWhenIdle(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", amqp091.Table{"x-expires": expiry})
	b.gone("q")
}

// gone waits until a queue does not exist any more, without using it: a client that asks for a queue
// renews its lease.
func (b *Bench) gone(queue string) {
	b.t.Helper()
	b.goneWhile(queue, func() {})
}

// goneWhile is gone, and does something else again and again until then.
func (b *Bench) goneWhile(queue string, something func()) {
	b.t.Helper()
	watcher := b.Channel()
	returns := watcher.NotifyReturn(make(chan amqp091.Return, 1))
	b.Eventually("queue "+queue+" is gone", func() bool {
		something()
		b.Must(watcher.Publish("", queue, true, false, amqp091.Publishing{}))
		watcher.Sync()
		return len(returns) > 0
	})
}

func expiresNotWithConsumer(_ *testing.T, b *Bench) {
	ch, deliveries := b.consumeExpiring("used")
	ch.Queue("idle", amqp091.Table{"x-expires": expiry})
	b.gone("idle")
	ch.Send("", "used", "still there")
	b.WantDelivery(deliveries, "still there")
	b.Must(ch.Close())
	b.gone("used")
}

// consumeExpiring declares a queue and consumes it before it has expired, which a slow machine may not do at its first try.
func (b *Bench) consumeExpiring(queue string) (*Channel, <-chan amqp091.Delivery) {
	b.t.Helper()
	for expiry := expiry; expiry < longestExpiry; expiry *= 2 {
		ch := b.Channel()
		ch.Queue(queue, amqp091.Table{"x-expires": expiry})
		deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
		if notFound(err) {
			continue
		}
		b.Must(err)
		return ch, deliveries
	}
	b.t.Fatalf("inconclusive: the machine is too slow to use a queue within %d ms", longestExpiry)
	panic("unreachable")
}

// longestExpiry is up to where cases try again with queues that live longer.
const longestExpiry = int32(limit/time.Millisecond) / 2

// useByDeclare declares a queue with one message once more, and reports whether it is still that one.
func useByDeclare(ch *Channel, queue string, expiry int32) (alive bool) {
	ch.b.t.Helper()
	q, err := ch.QueueDeclare(queue, true, false, false, false, amqp091.Table{"x-expires": expiry})
	ch.b.Must(err)
	return q.Messages == 1
}

// useByGet looks at the message of a queue, and reports whether it is still there.
func useByGet(ch *Channel, queue string, _ int32) (alive bool) {
	ch.b.t.Helper()
	d, ok, err := ch.Get(queue, false)
	if notFound(err) {
		return false
	}
	ch.b.Must(err)
	if ok {
		ch.b.Must(d.Nack(false, true))
	}
	return ok
}

// expiresRenewedBy uses one queue until another one, which is as old, has expired. On a machine that is too slow to use it often enough it
// tries again with queues that live longer.
func expiresRenewedBy(use func(ch *Channel, queue string, expiry int32) (alive bool)) func(*testing.T, *Bench) {
	return func(t *testing.T, b *Bench) {
		for expiry := expiry; expiry < longestExpiry; expiry *= 2 {
			ch := b.Channel().Confirming()
			used, idle := fmt.Sprint("used ", expiry), fmt.Sprint("idle ", expiry)
			ch.Queue(idle, amqp091.Table{"x-expires": expiry})
			before := time.Now() // no later than the queue was last used
			ch.Queue(used, amqp091.Table{"x-expires": expiry})
			ch.Send("", used, "m")
			alive, quick := true, true
			again := func() {
				if !alive || !quick {
					return
				}
				began := time.Now()
				alive = use(ch, used, expiry)
				quick = time.Since(before) < time.Duration(expiry)*time.Millisecond*3/4
				before = began
			}
			b.goneWhile(idle, again)
			again()
			if quick {
				if !alive {
					t.Errorf("queue %q has expired although it was used", used)
				}
				return
			}
		}
		t.Error("inconclusive: the machine is too slow to use a queue again and again before it expires")
	}
}

func expiresWithMessages(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", amqp091.Table{"x-expires": expiry})
	ch.Send("", "q", "lost with it")
	b.gone("q")
	ch.Queue("q", nil)
	ch.WantBodies("q")
}

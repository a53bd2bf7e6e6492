package layouts

import (
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
)

// What happens from RabbitMQ 4 on instead of what the cases among the exceptions show.

const (
	unread  = "4"   // from here on a client's x-death is not read
	flagged = "4.3" // from here on dead letters are marked as redelivered, and a quorum queue does not count what comes back
)

// forever is more attempts than any program would make whose count works.
const forever = 12

func pubSubUnreadCases() []Case {
	return []Case{
		{"UnreadRehopCountsItsOwn", pubSubRehopCountsItsOwn},
		{"UnreadSeedRetriesForever", pubSubSeedForever},
		{"UnreadByQueueRehopCountsItsOwn", byQueueRehopCountsItsOwn},
		{"UnreadByQueueFleetRetriesForever", byQueueFleetForever},
	}
}

func tiersUnreadCases() []Case {
	return []Case{
		{"UnreadRehopCountsItsOwn", tiersRehopCountsItsOwn},
		{"UnreadSeedRetriesForever", tiersSeedForever},
	}
}

func sneakersUnreadCases() []Case {
	return []Case{{"UnreadSeedCountsItsOwn", sneakersSeedCountsItsOwn}}
}

func sneakersFlaggedCases() []Case {
	return []Case{{"MarkedRejectsAreCountedInPart", sneakersRejectsInPart}}
}

func envelopeFlaggedCases() []Case {
	return []Case{{"NacksAreNotCounted", envelopeNacksAreFree}}
}

// wantForever has a worker fail a message more often than it would if it counted: it reads the same count each time.
func wantForever(b *Bench, worker *Consumer, count func(amqp091.Delivery) int64, first int64) {
	b.t.Helper()
	for i := range forever {
		want := int64(1)
		if i == 0 {
			want = first
		}
		equal(b, "count that the fleet's worker reads", count(worker.Next()), want)
	}
}

// rehop sees the last of the fleet's two failures, and from then on counts its own: the message has one attempt more than it should.
func pubSubRehopCountsItsOwn(b *Bench) { pubSubRehopCounts(b, 2) }

// The seed's worker reads a count of one, whoever has failed the message, how often, and for how long it waited.
func pubSubSeedForever(b *Bench) {
	l, fleet := pubSub(b)
	client := b.Client(Publishes("master", l))
	s := pubSubSubscription(l, pubSubQueue, nil)
	s.Retry = rehop.Steps(b.Wait(time.Second, 100*time.Millisecond), b.Wait(time.Minute, 150*time.Millisecond), time.Hour)
	client.Declare(s)
	client.Publish(userCreated("1"))
	client.FailAndLeave(s, 2)
	worker := fleet.work(pubSubQueue, 0, always)
	wantForever(b, worker, retryCount, 1)
	worker.Stop()
	fleet.WantEmpty(pubSubQueue + "@failed")
}

func byQueueRehopCountsItsOwn(b *Bench) { byQueueRehopCounts(b, 2) }

func byQueueFleetForever(b *Bench) {
	byQueue(b, func(l layout.PubSub, fleet pubSubNewerFleet, queue string) {
		client := b.Client(Publishes("master", l))
		fleet.declare(queue, "user.#")
		client.Publish(userCreated("1"))
		client.FailAndLeave(pubSubSubscription(l, queue, nil), 2)
		worker := fleet.work(queue, 0, always)
		wantForever(b, worker, retryCount, 1)
		worker.Stop()
		fleet.WantEmpty(queue + "@failed")
		fleet.Delete(queue)
	})
}

// rehop sees the last of the two waits of the fleet's program, and from then on counts its own.
func tiersRehopCountsItsOwn(b *Bench) { tiersRehopCounts(b, 2) }

func tiersSeedForever(b *Bench) {
	l, fleet := tiered(b)
	client, waits := b.Client(), []time.Duration{fleet.tiers[0], fleet.tiers[2], fleet.tiers[1]}
	client.Declare(push(l, nil, waits...))
	client.Publish(userMessage("1"))
	client.FailAndLeave(push(l, nil, waits...), 2)
	sender := fleet.send("push", 0, waits...)
	wantForever(b, sender, fleet.deaths, 1)
	sender.Stop()
	fleet.WantEmpty("push.failed")
}

// The seed's worker rejects, which the broker counts, so it gives up. It does not see what rehop has failed.
func sneakersSeedCountsItsOwn(b *Bench) {
	l, fleet := sneakers(b)
	client := b.Client()
	client.Declare(mail(l, nil))
	client.Publish(mailMessage("1"))
	client.FailAndLeave(mail(l, nil), 2)
	worker := fleet.work(mailQueue, 0, always)
	for count := range int64(6) {
		equal(b, "count that the worker reads", failureCount(worker.Next(), mailQueue), count)
	}
	fleet.WantDepth(mailQueue+"-error", 1)
	fleet.WantEmpty(mailQueues...)
}

// Of what rehop has rejected, the seed's worker sees what came after rehop published the message anew. It gives up by the broker's count anyway.
func sneakersRejectsInPart(b *Bench) {
	l, fleet := sneakers(b)
	l.Reject = true
	client := b.Client()
	client.Declare(mail(l, nil))
	client.Publish(mailMessage("1"))
	client.FailAndLeave(mail(l, nil), 3)
	worker := fleet.work(mailQueue, 0, always)
	first := failureCount(worker.Next(), mailQueue)
	if first > 3 {
		b.t.Errorf("count that the worker reads first: got %d, want at most the 3 failures", first)
	}
	for count := first + 1; count <= 5; count++ {
		equal(b, "count that the worker reads", failureCount(worker.Next(), mailQueue), count)
	}
	b.Admin(l).WantFailed(mailQueue, 1)
	fleet.WantDepth(mailQueue+"-error", 1)
	fleet.WantEmpty(mailQueues...)
}

// A message that a program gives back without an end meets no delivery limit, which is 8.
func envelopeNacksAreFree(b *Bench) {
	l, fleet := enveloped(b)
	fleet.declare()
	b.Client().Declare(quorumOrders(l, nil))
	fleet.Send("", "order.quorum.q", persistent(`{"order_id":7}`))
	poisoned := fleet.Consume("order.quorum.q", 0, func(_ *amqp091.Channel, d amqp091.Delivery) error { return d.Nack(false, true) })
	for range 3 * forever {
		poisoned.Next()
	}
	poisoned.Stop()
	fleet.WantEmpty(orderDead)
	fleet.WantDepth("order.quorum.q", 1)
}

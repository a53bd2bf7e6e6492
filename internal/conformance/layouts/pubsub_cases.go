package layouts

import (
	"errors"
	"sync"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/layout"
)

func pubSubCases() []Case {
	return []Case{
		{"RehopDeclaresFirst", pubSubRehopFirst},
		{"SeedDeclaresFirst", pubSubSeedFirst},
		{"TopicRouting", pubSubTopics},
		{"WorkersCompete", pubSubWorkersCompete},
		{"RetriesThreeTimes", pubSubRetries},
		{"SeedRetriesFourTimes", pubSubSeedRetries},
		{"FailureStaysInItsQueue", pubSubFailureStays},
		{"SeedMultipliesRetries", pubSubSeedMultiplies},
		{"StraysAreAcked", pubSubStrays},
		{"FailuresElsewhereDoNotCount", pubSubElsewhere},
		{"RehopCountsOn", pubSubRehopCountsOn},
		{"SeedCountsOn", pubSubSeedCountsOn},
		{"OtherWaitsAreCountedToo", pubSubOtherWaits},
		{"RetryAfterHidesTheCountOnce", pubSubRetryAfter},
		{"UnroutedIsReturned", pubSubUnrouted},
		{"PermanentFailsAtOnce", pubSubPermanent},
		{"FailedMoveIsConfirmed", pubSubMoveConfirmed},
		{"SeedLosesWhatHasNoQueue", pubSubSeedLoses},
		{"SeedAutoAckLoses", pubSubAutoAckLoses},
		{"ReplayToItsQueueAlone", pubSubReplay},
		{"ReplayOfWhatTheSeedFailed", pubSubReplaySeeds},
		{"CopiesAreNotReplayed", pubSubCopies},
		{"SeedReplaysWhatRehopFailed", pubSubSeedReplays},
		{"SeedReplayReachesAll", pubSubSeedReplayReachesAll},
	}
}

const pubSubQueue = "ucenter@user"

// pubSub is the layout and a service of the fleet.
func pubSub(b *Bench) (layout.PubSub, pubSubFleet) {
	b.t.Helper()
	delay := b.Wait(30*time.Second, 250*time.Millisecond)
	return layout.PubSub{Delay: delay, Form: layout.PubSubByKey}, pubSubFleet{Program: b.Program(), delay: delay}
}

// pubSubSubscription is one for all keys of users.
func pubSubSubscription(l layout.PubSub, queue string, h rehop.Handler) rehop.Subscriber {
	return rehop.Subscriber{Queue: queue, Exchange: "master", Keys: []string{"user.#"}, Layout: l, Handler: h}
}

func userCreated(body string) rehop.Message {
	return rehop.Message{Exchange: "master", Key: "user.created", Body: []byte(body)}
}

func pubSubRehopFirst(b *Bench) {
	b.Client().Declare(pubSubSubscription(layout.PubSub{Form: layout.PubSubByKey}, pubSubQueue, nil))
	fleet := pubSubFleet{Program: b.Program(), delay: 30 * time.Second}
	fleet.WantExchanges("master", "master.retry", "master.failed")
	fleet.WantQueues(pubSubQueue, pubSubQueue+"@retry", pubSubQueue+"@failed")
	fleet.declare(pubSubQueue, "user.#")
	code := fleet.Refused(func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclare(pubSubQueue+"@retry", true, false, false, false, amqp091.Table{"x-dead-letter-exchange": "master", "x-message-ttl": 29_000})
		return err
	})
	equal(b, "code for a queue that differs", code, 406)
}

func pubSubSeedFirst(b *Bench) {
	pubSubFleet{Program: b.Program(), delay: 30 * time.Second}.declare(pubSubQueue, "user.#")
	client, desk := b.Client(Publishes("master", layout.PubSub{})), b.Desk(succeeds)
	client.Subscribe(pubSubSubscription(layout.PubSub{}, pubSubQueue, desk))
	client.Publish(userCreated("1"))
	desk.WantBodies("1")
}

// A subscription takes its own keys, with the wildcards of a topic exchange, whoever publishes.
func pubSubTopics(b *Bench) {
	l, fleet := pubSub(b)
	client, users, all := b.Client(), b.Desk(succeeds), b.Desk(succeeds)
	client.Subscribe(pubSubSubscription(l, pubSubQueue, users))
	client.Subscribe(rehop.Subscriber{Queue: "audit@all", Layout: l, Handler: all})
	fleet.declare("ucenter@enterprise", "enterprise.*")
	enterprise := fleet.work("ucenter@enterprise", 0, never)
	fleet.Send("master", "user.created", persistent("seed's"))
	client.Publish(rehop.Message{Exchange: "master", Key: "user.updated.name", Body: []byte("rehop's")}, rehop.Message{Exchange: "master", Key: "enterprise.created", Body: []byte("other")})
	users.WantBodies("seed's", "rehop's")
	all.WantBodies("seed's", "rehop's", "other")
	equal(b, "message of the other subscription", string(enterprise.Next().Body), "other")
	users.WantNone()
}

// Workers of rehop and of the fleet share a queue: while one is busy the other gets what comes.
func pubSubWorkersCompete(b *Bench) {
	l, fleet := pubSub(b)
	client, busy := b.Client(), make(chan struct{})
	release := sync.OnceFunc(func() { close(busy) })
	defer release()
	desk := b.Desk(func(d *rehop.Delivery) error {
		if string(d.Body) == "long" {
			<-busy
		}
		return nil
	})
	s := pubSubSubscription(l, pubSubQueue, desk)
	s.Prefetch = 1
	client.Subscribe(s)
	client.Publish(userCreated("warm-up")) // a subscription begins with one message by itself
	desk.WantBodies("warm-up")
	fleet.WantConsumers(pubSubQueue, 1)
	client.Publish(userCreated("long"))
	desk.WantBodies("long")
	worker := fleet.work(pubSubQueue, 0, never)
	for _, body := range []string{"1", "2", "3"} {
		client.Publish(userCreated(body))
		equal(b, "message of the worker that is not busy", string(worker.Next().Body), body)
	}
	release()
	desk.WantNone()
}

func pubSubRetries(b *Bench) {
	l, fleet := pubSub(b)
	client, desk := b.Client(), b.Desk(fails)
	client.Subscribe(pubSubSubscription(l, pubSubQueue, desk))
	client.Publish(userCreated("1"))
	before := desk.NextAttempt(1)
	for attempt := 2; attempt <= 4; attempt++ {
		s := desk.NextAttempt(attempt)
		waited(b, "wait before an attempt", s.At.Sub(before.At), fleet.delay)
		equal(b, "exchange and key that the handler sees", s.Exchange+" "+s.Key, "master user.created")
		before = s
	}
	failed := b.Admin(l).WantFailed(pubSubQueue, 1)[0]
	equal(b, "attempts of the failed message", failed.Attempts, 4)
	equal(b, "error of the failed message", failed.Error, errFailed.Error())
	fleet.WantBodies(pubSubQueue+"@failed", "1")
	fleet.WantEmpty(pubSubQueue, pubSubQueue+"@retry")
	desk.WantNone()
}

// The seed's text promises three retries; its code compares with > 3 and so retries four times.
func pubSubSeedRetries(b *Bench) {
	_, fleet := pubSub(b)
	fleet.declare(pubSubQueue, "user.#")
	worker := fleet.work(pubSubQueue, 0, always)
	fleet.Send("master", "user.created", persistent("1"))
	for count := range int64(5) {
		equal(b, "count that the seed's worker reads", retryCount(worker.Next()), count)
	}
	fleet.WantBodies(pubSubQueue+"@failed", "1")
	fleet.WantEmpty(pubSubQueue, pubSubQueue+"@retry")
}

// pubSubThree are three subscriptions of the same key.
var pubSubThree = [3]string{"ucenter@user", "points@user", "mail@user"}

// Of three subscribers one fails: the others hear nothing of it, neither of the retries nor of the end.
func pubSubFailureStays(b *Bench) {
	l, fleet := pubSub(b)
	client := b.Client()
	var desks [3]*Desk
	for i, queue := range pubSubThree {
		desks[i] = b.Desk(func(d *rehop.Delivery) error {
			if i == 0 && string(d.Body) == "1" {
				return errFailed
			}
			return nil
		})
		client.Subscribe(pubSubSubscription(l, queue, desks[i]))
	}
	client.Publish(userCreated("1"))
	for attempt := 1; attempt <= 4; attempt++ {
		desks[0].NextAttempt(attempt)
	}
	fleet.WantDepth(pubSubThree[0]+"@failed", 1)
	client.Publish(userCreated("last")) // what came before it was seen before it
	desks[0].WantBodies("last")
	desks[1].WantBodies("1", "last")
	desks[2].WantBodies("1", "last")
	for _, queue := range pubSubThree {
		fleet.WantEmpty(queue+"@retry", queue)
	}
	fleet.WantEmpty(pubSubThree[1]+"@failed", pubSubThree[2]+"@failed")
}

// rehop has failed a message in one queue, and a worker of the seed fails it there once more, keeping all headers: in another queue, to which that
// brings a copy, it counts as failed once, by the fleet, and not as often as rehop has failed it elsewhere.
func pubSubElsewhere(b *Bench) {
	l, fleet := pubSub(b)
	client, failing := b.Client(), b.Desk(fails)
	sub := client.Subscribe(pubSubSubscription(l, pubSubThree[0], failing))
	client.Publish(userCreated("1"))
	for attempt := range 3 {
		failing.NextAttempt(attempt + 1)
	}
	b.Must(sub.Drain(b.Context()))
	other := b.Desk(succeeds)
	client.Subscribe(pubSubSubscription(l, pubSubThree[1], other))
	fleet.work(pubSubThree[0], 1, always)
	other.NextAttempt(2)
}

// The same with the seed's own workers: a retry goes to the retry queues of all three, and from each of those to all three.
func pubSubSeedMultiplies(b *Bench) {
	_, fleet := pubSub(b)
	var workers [3]*Consumer
	for i, queue := range pubSubThree {
		fleet.declare(queue, "user.#")
		failing := never
		if i == 0 {
			failing = firstTime
		}
		workers[i] = fleet.work(queue, 0, failing)
	}
	fleet.Send("master", "user.created", persistent("1"))
	for i, w := range workers {
		for range 1 + len(pubSubThree) {
			w.Next()
		}
		fleet.WantEmpty(pubSubThree[i], pubSubThree[i]+"@retry")
	}
}

// What a worker of the seed fails in one queue comes to the others three times over. A rehop subscriber acks those copies that come from
// the retry queues of others. The one from its own cannot be distinguished from a message that the fleet failed in this queue.
func pubSubStrays(b *Bench) {
	l, fleet := pubSub(b)
	fleet.declare(pubSubThree[0], "user.#")
	// Not the last one: its retry would come to rehop's queues, too, at some time.
	worker := fleet.work(pubSubThree[0], 0, func(d amqp091.Delivery) bool { return firstTime(d) && string(d.Body) == "1" })
	client, desks := b.Client(), [2]*Desk{b.Desk(succeeds), b.Desk(succeeds)}
	for i, desk := range desks {
		client.Subscribe(pubSubSubscription(l, pubSubThree[i+1], desk))
	}
	fleet.Send("master", "user.created", persistent("1"))
	for range 4 {
		worker.Next()
	}
	client.Publish(userCreated("last"))
	for _, desk := range desks {
		desk.NextAttempt(1)
		desk.NextAttempt(2)
		desk.WantBodies("last")
		desk.WantNone()
	}
}

// A message that the seed's worker has failed twice comes to rehop as its third attempt.
func pubSubRehopCountsOn(b *Bench) { pubSubRehopCounts(b, 3) }

// pubSubRehopCounts has the seed's worker fail a message twice, and then rehop until its own count ends.
func pubSubRehopCounts(b *Bench, first int) {
	l, fleet := pubSub(b)
	fleet.declare(pubSubQueue, "user.#")
	worker := fleet.work(pubSubQueue, 2, always)
	fleet.Send("master", "user.created", persistent("1"))
	worker.Next()
	worker.Next()
	client, desk := b.Client(), b.Desk(fails)
	client.Subscribe(pubSubSubscription(l, pubSubQueue, desk))
	for attempt := first; attempt <= 4; attempt++ {
		equal(b, "key that the handler sees", desk.NextAttempt(attempt).Key, "user.created")
	}
	fleet.WantBodies(pubSubQueue+"@failed", "1")
	fleet.WantEmpty(pubSubQueue, pubSubQueue+"@retry")
	desk.WantNone()
}

// A message that rehop has failed twice has the count two for the seed's worker, which fails it until its own count ends.
func pubSubSeedCountsOn(b *Bench) {
	l, fleet := pubSub(b)
	client := b.Client(Publishes("master", l))
	client.Declare(pubSubSubscription(l, pubSubQueue, nil))
	client.Publish(userCreated("1"))
	client.FailAndLeave(pubSubSubscription(l, pubSubQueue, nil), 2)
	worker := fleet.work(pubSubQueue, 0, always)
	for count := int64(2); count <= 4; count++ {
		equal(b, "count that the seed's worker reads", retryCount(worker.Next()), count)
	}
	fleet.WantBodies(pubSubQueue+"@failed", "1")
}

// Waits of different lengths are counted as well: each of them ends in another queue of rehop's.
func pubSubOtherWaits(b *Bench) {
	l, fleet := pubSub(b)
	client := b.Client(Publishes("master", l))
	s := pubSubSubscription(l, pubSubQueue, nil)
	s.Retry = rehop.Steps(b.Wait(time.Second, 100*time.Millisecond), b.Wait(time.Minute, 150*time.Millisecond), b.Wait(time.Hour, 200*time.Millisecond), time.Hour)
	client.Declare(s)
	client.Publish(userCreated("1"))
	client.FailAndLeave(s, 3)
	worker := fleet.work(pubSubQueue, 0, never)
	equal(b, "count that the seed's worker reads", retryCount(worker.Next()), 3)
}

// A wait that is in no schedule passes several queues, so the newest entry that the seed's worker looks at counts one. Its own failure brings the
// true count to the top again: it costs an attempt, no more.
func pubSubRetryAfter(b *Bench) {
	l, fleet := pubSub(b)
	client, wait := b.Client(Publishes("master", l)), b.Wait(7*time.Second, 700*time.Millisecond)
	client.Declare(pubSubSubscription(l, pubSubQueue, nil))
	client.Publish(userCreated("1"))
	desk := b.Desk(func(*rehop.Delivery) error { return rehop.RetryAfter(wait, errFailed) })
	sub := client.Subscribe(pubSubSubscription(l, pubSubQueue, desk))
	desk.NextAttempt(1)
	desk.NextAttempt(2)
	b.Must(sub.Drain(b.Context()))
	worker := fleet.work(pubSubQueue, 0, always)
	var counts []int64
	for range 3 {
		counts = append(counts, retryCount(worker.Next()))
	}
	equals(b, "counts that the seed's worker reads", counts, []int64{1, 3, 4})
}

// Nobody subscribes to a key: the publisher gets an error, unlike the seed's.
func pubSubUnrouted(b *Bench) {
	l, fleet := pubSub(b)
	client := b.Client(Publishes("master", l))
	if err := client.Client.Publish(b.Context(), userCreated("1")); !errors.Is(err, rehop.ErrUnroutable) {
		b.t.Errorf("publish to nobody: got %v, want ErrUnroutable", err)
	}
	if !fleet.Confirmed("master", "user.created", persistent("2")) {
		b.t.Error("the seed's message to nobody: got a nack, want an ack")
	}
	client.Declare(pubSubSubscription(l, pubSubQueue, nil))
	client.Publish(userCreated("3"))
	fleet.WantBodies(pubSubQueue, "3")
}

func pubSubPermanent(b *Bench) {
	l, fleet := pubSub(b)
	client, desk := b.Client(), b.Desk(func(*rehop.Delivery) error { return rehop.Permanent(errFailed) })
	client.Subscribe(pubSubSubscription(l, pubSubQueue, desk))
	client.Publish(userCreated("1"))
	desk.NextAttempt(1)
	fleet.WantBodies(pubSubQueue+"@failed", "1")
	desk.WantNone()
}

// The failed queue was deleted: rehop has the broker's word before it acks, so it notices, makes the queue again and moves the message.
func pubSubMoveConfirmed(b *Bench) {
	l, fleet := pubSub(b)
	client, began, gone := b.Client(), make(chan struct{}), make(chan struct{})
	s := pubSubSubscription(l, pubSubQueue, waitsThenFails(began, gone))
	s.Retry = rehop.NoRetry()
	client.Subscribe(s)
	client.Publish(userCreated("1"))
	receive(b, began, soon, "the handler has begun")
	fleet.Delete(pubSubQueue + "@failed")
	close(gone)
	b.Eventually(soon, "the failed queue is there again", func() bool { return fleet.Has(pubSubQueue + "@failed") })
	fleet.WantBodies(pubSubQueue+"@failed", "1")
	fleet.WantEmpty(pubSubQueue)
}

// The same with the seed's worker: the message is nowhere.
func pubSubSeedLoses(b *Bench) {
	_, fleet := pubSub(b)
	fleet.declare(pubSubQueue, "user.#")
	fleet.Delete(pubSubQueue + "@retry")
	worker := fleet.work(pubSubQueue, 0, always)
	fleet.Send("master", "user.created", persistent("1"))
	worker.Next()
	worker.Stop()
	fleet.WantEmpty(pubSubQueue, pubSubQueue+"@failed")
}

// The seed's Java consumer lets the broker forget a message when it is sent: a process that dies takes it along. rehop acks what is done.
func pubSubAutoAckLoses(b *Bench) {
	l, fleet := pubSub(b)
	fleet.declare(pubSubQueue, "user.#")
	began := make(chan struct{})
	dying := fleet.consume(pubSubQueue, 0, true, func(*amqp091.Channel, amqp091.Delivery) error {
		close(began)
		return amqp091.ErrClosed // the process dies
	})
	fleet.Send("master", "user.created", persistent("1"))
	receive(b, began, soon, "the consumer has the message")
	dying.Stop()
	fleet.WantEmpty(pubSubQueue, pubSubQueue+"@retry", pubSubQueue+"@failed")

	client := b.Client(Publishes("master", l))
	desk := b.Desk(func(d *rehop.Delivery) error {
		if !d.Redelivered {
			client.cut()
		}
		return nil
	})
	client.Subscribe(pubSubSubscription(l, pubSubQueue, desk))
	client.Publish(userCreated("2"))
	desk.WantBodies("2", "2")
}

// A replay goes to the queue that failed the message, with its count reset, and to no other.
func pubSubReplay(b *Bench) {
	l, fleet := pubSub(b)
	client, repaired := b.Client(), make(chan struct{})
	desk := b.Desk(func(*rehop.Delivery) error {
		select {
		case <-repaired:
			return nil
		default:
			return errFailed
		}
	})
	s := pubSubSubscription(l, pubSubThree[0], desk)
	s.Retry = rehop.NoRetry()
	client.Subscribe(s)
	other := b.Desk(succeeds)
	client.Subscribe(pubSubSubscription(l, pubSubThree[1], other))
	client.Publish(userCreated("1"))
	desk.NextAttempt(1)
	other.WantBodies("1")
	a := b.Admin(l)
	failed := a.WantFailed(pubSubThree[0], 1)[0]
	equal(b, "origin of the failed message", failed.Queue+" "+failed.Exchange+" "+failed.Key, pubSubThree[0]+" master user.created")
	close(repaired)
	a.Replay(pubSubThree[0], 1)
	replayed := desk.NextAttempt(1)
	equal(b, "replays that the handler sees", replayed.Replays, 1)
	equal(b, "exchange and key that the handler sees", replayed.Exchange+" "+replayed.Key, "master user.created")
	fleet.WantEmpty(pubSubThree[0]+"@failed", pubSubThree[0])
	client.Publish(userCreated("last"))
	other.WantBodies("last")
	desk.WantBodies("last")
}

// What the seed's worker gave up is in the failed queues of all subscribers. A replay takes it to the queue of each failed queue alone.
func pubSubReplaySeeds(b *Bench) {
	l, fleet := pubSub(b)
	for _, queue := range pubSubThree[:2] {
		fleet.declare(queue, "user.#")
	}
	fleet.Send("master.failed", "user.created", persistent("1"))
	fleet.WantDepth(pubSubThree[0]+"@failed", 1)
	fleet.WantDepth(pubSubThree[1]+"@failed", 1)
	a := b.Admin(l)
	failed := a.WantFailed(pubSubThree[0], 1)[0]
	equal(b, "queue and key of what the seed failed", failed.Queue+" "+failed.Key, pubSubThree[0]+" user.created")
	a.Replay(pubSubThree[0], 1)
	replayed := fleet.Take(pubSubThree[0])
	equal(b, "count of the replayed message", retryCount(replayed), 0)
	fleet.WantEmpty(pubSubThree[0]+"@failed", pubSubThree[0], pubSubThree[1])
	fleet.WantDepth(pubSubThree[1]+"@failed", 1)
}

// What the seed's worker in PHP gave up has its record, which names its queue: the copies in the failed queues of others are not replayed,
// and can be discarded.
func pubSubCopies(b *Bench) {
	l, fleet := pubSub(b)
	for _, queue := range pubSubThree[:2] {
		fleet.declare(queue, "user.#")
	}
	last := persistent("1") // as a worker gives it up, which RabbitMQ 4 would not let count
	last.Headers = amqp091.Table{"x-death": []any{amqp091.Table{"queue": pubSubThree[0] + "@retry", "reason": "expired", "count": int64(4)}}}
	fleet.Send("master.failed", "user.created", last)
	fleet.WantDepth(pubSubThree[0]+"@failed", 1)
	fleet.WantDepth(pubSubThree[1]+"@failed", 1)
	a := b.Admin(l)
	a.Replay(pubSubThree[1], 0)
	a.Replay(pubSubThree[0], 1)
	fleet.WantBodies(pubSubThree[0], "1")
	equal(b, "whose the copy is", a.WantFailed(pubSubThree[1], 1)[0].Queue, pubSubThree[0])
	_, err := a.Discard(b.Context(), pubSubThree[1], admin.Options{})
	b.Must(err)
	fleet.WantEmpty(pubSubThree[1] + "@failed")
}

// The seed's own replay of a message that rehop failed starts anew: with its headers cleared nothing is counted, on either side.
func pubSubSeedReplays(b *Bench) {
	l, fleet := pubSub(b)
	client, desk := b.Client(), b.Desk(fails)
	s := pubSubSubscription(l, pubSubQueue, desk)
	s.Retry = rehop.Steps(l.Delay)
	client.Subscribe(s)
	client.Publish(userCreated("1"))
	desk.NextAttempt(1)
	desk.NextAttempt(2)
	fleet.WantDepth(pubSubQueue+"@failed", 1)
	replayer := fleet.replay(pubSubQueue)
	replayed := replayer.Next()
	replayer.Stop()
	equal(b, "key with which the seed's replay finds the message", replayed.RoutingKey, "user.created")
	desk.NextAttempt(1)
	desk.NextAttempt(2)
	fleet.WantDepth(pubSubQueue+"@failed", 1)
}

// The seed's replay goes through the main exchange, so subscribers who had succeeded get the message again; it is new to them.
func pubSubSeedReplayReachesAll(b *Bench) {
	l, fleet := pubSub(b)
	client, desks := b.Client(), [2]*Desk{b.Desk(succeeds), b.Desk(succeeds)}
	for i, desk := range desks {
		client.Subscribe(pubSubSubscription(l, pubSubThree[i], desk))
	}
	failed := persistent("1")
	failed.Headers = amqp091.Table{"x-death": []any{amqp091.Table{"queue": pubSubThree[0] + "@retry", "reason": "expired", "count": int64(4)}}}
	fleet.Send("master.failed", "user.created", failed)
	replayer := fleet.replay(pubSubThree[0])
	replayer.Next()
	for _, desk := range desks {
		desk.NextAttempt(1)
	}
}

package layouts

import (
	"fmt"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
)

func pubSubByQueueCases() []Case {
	return []Case{
		{"ByQueueRehopDeclaresFirst", byQueueRehopFirst},
		{"ByQueueFleetDeclaresFirst", byQueueFleetFirst},
		{"WhatTheBrokerHasDecides", pubSubEitherForm},
		{"ByQueueRehopCountsOn", byQueueRehopCountsOn},
		{"ByQueueFleetCountsOn", byQueueFleetCountsOn},
		{"ByQueueStraysAreAcked", byQueueStrays},
		{"ByQueueReplay", byQueueReplay},
		{"ByQueueReplayAfterReplay", byQueueReplayTwice},
		{"ByQueueFleetReplaysWhatRehopFailed", byQueueFleetReplays},
		{"AttemptsAreNeverFewer", pubSubMoreAttempts},
	}
}

// byQueue calls for the fleet in PHP and in Java, with queues of their own.
func byQueue(b *Bench, run func(l layout.PubSub, fleet pubSubNewerFleet, queue string)) {
	b.t.Helper()
	delay := b.Wait(30*time.Second, 250*time.Millisecond)
	for _, java := range []bool{false, true} {
		run(layout.PubSub{Delay: delay}, pubSubNewerFleet{Program: b.Program(), delay: delay, java: java}, fmt.Sprintf("java %v@user", java))
	}
}

func byQueueRehopFirst(b *Bench) {
	byQueue(b, func(l layout.PubSub, fleet pubSubNewerFleet, queue string) {
		b.Client().Declare(pubSubSubscription(l, queue, nil))
		fleet.WantExchanges("master", "master.retry", "master.failed")
		fleet.WantQueues(queue, queue+"@retry", queue+"@failed")
		fleet.declare(queue, "user.#")
	})
}

func byQueueFleetFirst(b *Bench) {
	byQueue(b, func(l layout.PubSub, fleet pubSubNewerFleet, queue string) {
		fleet.declare(queue, "user.#")
		client, desk := b.Client(), b.Desk(succeeds)
		sub := client.Subscribe(pubSubSubscription(l, queue, desk))
		client.Publish(userCreated("1"))
		desk.WantBodies("1")
		b.Must(sub.Drain(b.Context()))
	})
}

// A subscription without a form uses the one that exists: to bind a retry queue of the older form by the queue's name, or one of the newer form
// by its keys, would lead messages astray.
func pubSubEitherForm(b *Bench) {
	delay := b.Wait(30*time.Second, 250*time.Millisecond)
	older, newer := pubSubFleet{Program: b.Program(), delay: delay}, pubSubNewerFleet{Program: b.Program(), delay: delay}
	older.declare("older@user", "user.#")
	newer.declare("newer@user", "user.#")
	client := b.Client()
	for _, queue := range []string{"older@user", "newer@user", "fresh@user"} {
		client.Declare(pubSubSubscription(layout.PubSub{Delay: delay}, queue, nil))
	}
	older.declare("older@user", "user.#")
	newer.declare("newer@user", "user.#")
	newer.declare("fresh@user", "user.#")
	// The older form leads by keys, the newer ones by names.
	older.Send("master.failed", "user.created", persistent("by key"))
	newer.Send("master.failed", "newer@user", persistent("by name"))
	older.WantBodies("older@user@failed", "by key")
	older.WantBodies("newer@user@failed", "by name")
	older.WantEmpty("fresh@user@failed")
	older.Send("master", "older@user", persistent("to a name"))
	older.Send("master", "newer@user", persistent("to a name"))
	older.WantBodies("newer@user", "to a name")
	older.WantEmpty("older@user")
	// A form that the settings name is not given up.
	_, err := client.Client.Subscribe(b.Context(), pubSubSubscription(layout.PubSub{Delay: delay, Form: layout.PubSubByQueue}, "older@user", b.Desk(succeeds)))
	if err == nil {
		b.t.Error("a form that the broker does not have: got no error, want one")
	}
}

func byQueueRehopCountsOn(b *Bench) { byQueueRehopCounts(b, 3) }

// byQueueRehopCounts is pubSubRehopCounts for this form.
func byQueueRehopCounts(b *Bench, first int) {
	byQueue(b, func(l layout.PubSub, fleet pubSubNewerFleet, queue string) {
		fleet.declare(queue, "user.#")
		worker := fleet.work(queue, 2, always)
		fleet.Send("master", "user.created", persistent("1"))
		worker.Next()
		worker.Next()
		desk := b.Desk(fails)
		sub := b.Client().Subscribe(pubSubSubscription(l, queue, desk))
		for attempt := first; attempt <= 4; attempt++ {
			s := desk.NextAttempt(attempt)
			equal(b, "exchange and key that the handler sees", s.Exchange+" "+s.Key, "master user.created")
		}
		b.Must(sub.Drain(b.Context()))
		fleet.WantBodies(queue+"@failed", "1")
		fleet.WantEmpty(queue, queue+"@retry")
		fleet.Delete(queue)
	})
}

func byQueueFleetCountsOn(b *Bench) {
	byQueue(b, func(l layout.PubSub, fleet pubSubNewerFleet, queue string) {
		client := b.Client(Publishes("master", l))
		fleet.declare(queue, "user.#")
		client.Publish(userCreated("1"))
		client.FailAndLeave(pubSubSubscription(l, queue, nil), 2)
		worker := fleet.work(queue, 0, always)
		for count := int64(2); count <= 4; count++ {
			d := worker.Next()
			equal(b, "count that the fleet's worker reads", retryCount(d), count)
			equal(b, "key that the fleet's worker reads", publishedWith(d), "user.created")
		}
		fleet.WantBodies(queue+"@failed", "1")
		worker.Stop()
		fleet.Delete(queue)
	})
}

// What the fleet fails comes back by the name of its queue, so also to whoever has subscribed to everything. rehop acks those copies.
func byQueueStrays(b *Bench) {
	byQueue(b, func(l layout.PubSub, fleet pubSubNewerFleet, queue string) {
		fleet.declare(queue, "user.#")
		client, desk := b.Client(), b.Desk(succeeds)
		sub := client.Subscribe(rehop.Subscriber{Queue: "audit " + queue, Exchange: "master", Keys: []string{"#"}, Layout: l, Handler: desk})
		failures := 0
		worker := fleet.work(queue, 0, func(d amqp091.Delivery) bool {
			fails := string(d.Body) == "1" && failures < 3 // RabbitMQ 4 does not count for it
			failures++
			return fails
		})
		fleet.Send("master", "user.created", persistent("1"))
		for range 4 {
			worker.Next()
		}
		client.Publish(userCreated("last"))
		desk.NextAttempt(1)
		desk.WantBodies("last")
		b.Must(sub.Drain(b.Context()))
		desk.WantNone()
		worker.Next()
		worker.Stop()
		fleet.WantEmpty(queue, queue+"@retry", "audit "+queue)
		fleet.Delete(queue)
	})
}

// A replay takes what the fleet gave up to its queue, with the exchange and the key with which it was published.
func byQueueReplay(b *Bench) {
	byQueue(b, func(l layout.PubSub, fleet pubSubNewerFleet, queue string) {
		fleet.declare(queue, "user.#")
		worker := fleet.work(queue, 0, always)
		last := persistent("1") // RabbitMQ 4 would not let the fleet count
		last.Headers = amqp091.Table{"x-orig-routing-key": "user.created", "x-death": []any{amqp091.Table{"queue": queue + "@retry", "reason": "expired", "count": int64(4)}}}
		fleet.Send("master", queue, last)
		worker.Next()
		worker.Stop()
		if fleet.inspect(queue+"@failed").Messages == 0 { // there it would be tried again
			fleet.Send(fleet.failedExchange(), queue, amqp091.Publishing{Headers: amqp091.Table{"x-orig-routing-key": "user.created"}, Body: []byte("1")})
			fleet.WantDepth(queue+"@retry", 0)
			fleet.Take(queue)
		}
		a := b.Admin(l)
		failed := a.WantFailed(queue, 1)[0]
		equal(b, "origin of the failed message", failed.Queue+" "+failed.Exchange+" "+failed.Key+" "+string(failed.Kind), queue+" master user.created error")
		a.Replay(queue, 1)
		desk := b.Desk(succeeds)
		sub := b.Client().Subscribe(pubSubSubscription(l, queue, desk))
		s := desk.NextAttempt(1)
		equal(b, "exchange and key that the handler sees", s.Exchange+" "+s.Key, "master user.created")
		b.Must(sub.Drain(b.Context()))
		fleet.WantEmpty(queue, queue+"@failed")
		fleet.Delete(queue)
	})
}

// rehop replays a message that it had failed, and the fleet fails it again: what is known of the old failure is not the reason of the new one.
func byQueueReplayTwice(b *Bench) {
	byQueue(b, func(l layout.PubSub, fleet pubSubNewerFleet, queue string) {
		client, desk := b.Client(), b.Desk(func(*rehop.Delivery) error { return rehop.Permanent(errFailed) })
		sub := client.Subscribe(pubSubSubscription(l, queue, desk))
		fleet.declare(queue, "user.#")
		client.Publish(userCreated("1"))
		desk.NextAttempt(1)
		b.Must(sub.Drain(b.Context()))
		a := b.Admin(l)
		equal(b, "error that rehop noted", a.WantFailed(queue, 1)[0].Error, errFailed.Error())
		a.Replay(queue, 1)
		d := fleet.Take(queue)
		equal(b, "count that the fleet's worker reads", retryCount(d), 0)
		fleet.Send(fleet.failedExchange(), queue, again(d)) // as it does after its last attempt
		failed := a.WantFailed(queue, 1)[0]
		equal(b, "kind and error of the second failure", string(failed.Kind)+" "+failed.Error, "error ")
		fleet.Take(queue + "@failed")
		fleet.Delete(queue)
	})
}

func byQueueFleetReplays(b *Bench) {
	byQueue(b, func(l layout.PubSub, fleet pubSubNewerFleet, queue string) {
		client, desk := b.Client(), b.Desk(fails)
		s := pubSubSubscription(l, queue, desk)
		s.Retry = rehop.Steps(l.Delay)
		sub := client.Subscribe(s)
		client.Publish(userCreated("1"))
		desk.NextAttempt(1)
		desk.NextAttempt(2)
		fleet.WantDepth(queue+"@failed", 1)
		replayer := fleet.replay(queue)
		replayer.Next()
		replayer.Stop()
		again := desk.NextAttempt(1)
		equal(b, "exchange and key that the handler sees", again.Exchange+" "+again.Key, "master user.created")
		desk.NextAttempt(2)
		b.Must(sub.Drain(b.Context()))
		fleet.WantDepth(queue+"@failed", 1)
		fleet.Delete(queue)
	})
}

// The fleet tries a message once more than rehop does. A handler that gets it then sees that this is the last attempt, and not that it is attempt
// five of four.
func pubSubMoreAttempts(b *Bench) {
	byQueue(b, func(l layout.PubSub, fleet pubSubNewerFleet, queue string) {
		fleet.declare(queue, "user.#")
		four := persistent("1")
		four.Headers = amqp091.Table{"rehop-queue": queue, "rehop-exchange": "master", "rehop-key": "user.created", "rehop-attempt": int32(4)}
		fleet.Send("", queue, four)
		desk := b.Desk(fails)
		sub := b.Client().Subscribe(pubSubSubscription(l, queue, desk))
		s := desk.NextAttempt(5)
		equal(b, "attempts that there are", s.MaxAttempts, 5)
		b.Must(sub.Drain(b.Context()))
		equal(b, "attempts of the failed message", b.Admin(l).WantFailed(queue, 1)[0].Attempts, 5)
		fleet.Delete(queue)
	})
}

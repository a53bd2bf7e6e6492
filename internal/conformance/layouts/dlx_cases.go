package layouts

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/layout"
)

func dlxCases() []Case {
	return []Case{
		{"RehopDeclaresFirst", dlxRehopFirst},
		{"SeedDeclaresFirst", dlxSeedFirst},
		{"OneExchangePerAggregate", dlxRouting},
		{"DurableAllTheWay", dlxDurable},
		{"UnroutedIsKept", dlxUnrouted},
		{"ExpiresAfterADay", dlxExpires},
		{"RejectPublish", dlxRejectPublish},
		{"RejectPublishOfOneAmongSeveral", dlxRejectPublishOfOne},
		{"RequeuedOnceThenDead", dlxRequeuedOnce},
		{"PermanentIsDeadAtOnce", dlxPermanent},
		{"SeedRequeuesOnceThenDead", dlxSeedRequeuesOnce},
		{"SeedSeesThatRehopFailed", dlxSeedSeesFailure},
		{"RehopSeesThatSeedFailed", dlxRehopSeesFailure},
		{"OwnScheduleWaits", dlxOwnSchedule},
		{"RetryAtOnceEnds", dlxRetryAtOnce},
		{"FullQueueHoldsUpNobody", dlxFullQueue},
		{"DeadLettersKeepTheirKey", dlxKeepsKey},
		{"SeedDeadLettersKeepTheirKey", dlxSeedKeepsKey},
		{"PrefetchPerConsumer", dlxPrefetch},
		{"CrashLoopEnds", dlxCrashLoop},
		{"CrashLoopOfSingleActiveEnds", dlxCrashLoopOfSingleActive},
		{"CrashOfProcessesEnds", dlxCrashOfProcesses},
		{"SeedCrashLoopNeverEnds", dlxSeedCrashLoop},
		{"ReplayOfItsOwnOnly", dlxReplayOwn},
		{"ReplayOfUnrouted", dlxReplayUnrouted},
		{"MovedBackByHand", dlxMovedBack},
	}
}

const day = 24 * time.Hour

// summary is a subscription of all that happens to orders.
func summary(h rehop.Handler) rehop.Subscriber {
	return rehop.Subscriber{Queue: orderSummary, Exchange: "order", Keys: []string{"order.#"}, Layout: layout.DLX{}, Handler: h}
}

// notification is a subscription of new orders.
func notification(h rehop.Handler) rehop.Subscriber {
	return rehop.Subscriber{Queue: orderNotification, Exchange: "order", Keys: []string{"order.created"}, Layout: layout.DLX{}, Handler: h}
}

func orderMessage(key, body string) rehop.Message {
	return rehop.Message{ID: "id of " + body, Exchange: "order", Key: key, Body: []byte(body), ContentType: "application/json"}
}

func orderCreated(body string) rehop.Message { return orderMessage("order.created", body) }

func dlxRehopFirst(b *Bench) {
	client := b.Client()
	client.Declare(summary(nil))
	client.Declare(notification(nil))
	fleet := dlxFleet{b.Program(), day}
	fleet.WantExchanges("order", "dlx")
	fleet.WantQueues(orderSummary, orderNotification, "dlq")
	fleet.declare()
	code := fleet.Refused(func(ch *amqp091.Channel) error {
		return ch.ExchangeDeclare("order", "topic", true, false, false, false, nil)
	})
	equal(b, "code for an exchange that differs", code, 406)
}

func dlxSeedFirst(b *Bench) {
	dlxFleet{b.Program(), day}.declare()
	client, desks := b.Client(Publishes("order", layout.DLX{})), [2]*Desk{b.Desk(succeeds), b.Desk(succeeds)}
	client.Subscribe(summary(desks[0]))
	client.Subscribe(notification(desks[1]))
	client.Publish(orderCreated("1"))
	desks[0].WantBodies("1")
	desks[1].WantBodies("1")
}

// The two messages of the seed's example: one reaches both queues, the other one of them.
func dlxRouting(b *Bench) {
	client, all, created := b.Client(), b.Desk(succeeds), b.Desk(succeeds)
	client.Subscribe(summary(all))
	client.Subscribe(notification(created))
	client.Publish(orderMessage("order.updated", "update order data"), orderCreated("create order data"))
	all.WantBodies("create order data", "update order data")
	created.WantBodies("create order data")
	b.Program().WantEmpty("dlq")
}

// Exchange, queue and message are durable, and so is what a failure makes of the message.
func dlxDurable(b *Bench) {
	client, desk, p := b.Client(), b.Desk(fails), b.Program()
	client.Declare(summary(nil))
	for what, declare := range map[string]func(*amqp091.Channel) error{
		"exchange order": func(ch *amqp091.Channel) error {
			return ch.ExchangeDeclare("order", "topic", false, false, false, false, amqp091.Table{"alternate-exchange": "dlx"})
		},
		"exchange dlx": func(ch *amqp091.Channel) error {
			return ch.ExchangeDeclare("dlx", "topic", false, false, false, false, nil)
		},
		"queue dlq": func(ch *amqp091.Channel) error {
			_, err := ch.QueueDeclare("dlq", false, false, false, false, amqp091.Table{"x-queue-mode": "lazy"})
			return err
		},
	} {
		equal(b, "code for the "+what+" if it is not durable", p.Refused(declare), 406)
	}
	client.Publish(orderCreated("1"))
	equal(b, "delivery mode of a message", p.Take(orderSummary).DeliveryMode, amqp091.Persistent)
	client.Subscribe(summary(desk))
	client.Publish(orderCreated("2"))
	desk.NextAttempt(1)
	desk.NextAttempt(2)
	equal(b, "delivery mode of a dead message", p.Take("dlq").DeliveryMode, amqp091.Persistent)
}

// A message for which no queue is bound is confirmed, and is in the dead-letter queue.
func dlxUnrouted(b *Bench) {
	client, p := b.Client(Publishes("order", layout.DLX{})), b.Program()
	client.Publish(orderMessage("order.deleted", "1"))
	if !p.Confirmed("order", "order.deleted", persistent("2")) {
		b.t.Error("the seed's message: got a nack, want an ack")
	}
	a := b.Admin(layout.DLX{})
	for _, m := range a.WantFailed("dlq", 2) {
		equal(b, "queue, kind, exchange and key", m.Queue+" "+string(m.Kind)+" "+m.Exchange+" "+m.Key, " unrouted order order.deleted")
	}
	p.WantBodies("dlq", "1", "2")
}

func dlxExpires(b *Bench) {
	ttl := b.Wait(day, 300*time.Millisecond)
	client, p, s := b.Client(), b.Program(), summary(nil)
	if !b.Virtual {
		s.MessageTTL = ttl
	}
	client.Declare(s)
	sent := time.Now()
	client.Publish(orderCreated("1"))
	d := p.Take("dlq")
	waited(b, "life of the message", time.Since(sent), ttl)
	equal(b, "reason", deathReason(d), "expired")
	equal(b, "key", d.RoutingKey, "order.created")
	p.WantEmpty(orderSummary)
}

// full is a subscription whose queue has room for one message and refuses others.
func full(h rehop.Handler) rehop.Subscriber {
	s := summary(h)
	s.MaxLength, s.Overflow = 1, "reject-publish"
	return s
}

func dlxRejectPublish(b *Bench) {
	client, p := b.Client(), b.Program()
	client.Declare(full(nil))
	client.Publish(orderCreated("1"))
	if err := client.Client.Publish(b.Context(), orderCreated("2")); !errors.Is(err, rehop.ErrRefused) {
		b.t.Errorf("publish to a full queue: got %v, want ErrRefused", err)
	}
	if p.Confirmed("order", "order.created", persistent("3")) {
		b.t.Error("the seed's message to a full queue: got an ack, want a nack")
	}
	p.WantBodies(orderSummary, "1")
	client.Publish(orderCreated("4"))
	p.WantBodies(orderSummary, "4")
	p.WantEmpty("dlq")
}

// One of two queues refuses: the publisher hears no, though the other has taken the message, which is there twice when it is sent again.
func dlxRejectPublishOfOne(b *Bench) {
	client, p := b.Client(), b.Program()
	client.Declare(full(nil))
	client.Declare(notification(nil))
	client.Publish(orderCreated("1"))
	for range 2 {
		if err := client.Client.Publish(b.Context(), orderCreated("2")); !errors.Is(err, rehop.ErrRefused) {
			b.t.Errorf("publish to two queues of which one is full: got %v, want ErrRefused", err)
		}
	}
	p.WantBodies(orderSummary, "1")
	var ids []string
	for range 3 {
		ids = append(ids, p.Take(orderNotification).MessageId)
	}
	equals(b, "ids in the queue that has room", ids, []string{"id of 1", "id of 2", "id of 2"})
	client.Publish(orderCreated("3"))
	p.WantBodies(orderSummary, "3")
}

func dlxRequeuedOnce(b *Bench) {
	client, desk, p := b.Client(), b.Desk(fails), b.Program()
	client.Subscribe(summary(desk))
	sent := time.Now()
	client.Publish(orderCreated("1"))
	desk.NextAttempt(1)
	second := desk.NextAttempt(2)
	equal(b, "key that the handler sees", second.Exchange+" "+second.Key, "order order.created")
	if b.Virtual && second.At.Sub(sent) > time.Second {
		b.t.Errorf("second attempt: got it after %v, want it at once", second.At.Sub(sent))
	}
	failed := b.Admin(layout.DLX{}).WantFailed(orderSummary, 1)[0]
	equal(b, "attempts, kind and error", strconv.Itoa(failed.Attempts)+" "+string(failed.Kind)+" "+failed.Error, "2 error "+errFailed.Error())
	d := p.Take("dlq")
	equal(b, "reason, as the broker writes it", deathReason(d), "rejected")
	equal(b, "key in the dead-letter queue", d.RoutingKey, "order.created")
	p.WantEmpty(orderSummary, "dlq")
	desk.WantNone()
}

func dlxPermanent(b *Bench) {
	client, desk, p := b.Client(), b.Desk(func(*rehop.Delivery) error { return rehop.Permanent(errFailed) }), b.Program()
	client.Subscribe(summary(desk))
	client.Publish(orderCreated("1"))
	desk.NextAttempt(1)
	p.WantBodies("dlq", "1")
	desk.WantNone()
}

func dlxSeedRequeuesOnce(b *Bench) {
	fleet := dlxFleet{b.Program(), day}
	fleet.declare()
	receiver := fleet.receive(orderSummary, 0, always)
	fleet.Send("order", "order.updated", persistent("1"))
	equal(b, "first delivery is marked as repeated", receiver.Next().Redelivered, false)
	equal(b, "second delivery is marked as repeated", receiver.Next().Redelivered, true)
	d := fleet.Take("dlq")
	equal(b, "reason", deathReason(d), "rejected")
	fleet.WantEmpty(orderSummary)
}

// rehop fails a message once and leaves: to the seed's receiver it is one that was delivered before.
func dlxSeedSeesFailure(b *Bench) {
	fleet, client := dlxFleet{b.Program(), day}, b.Client()
	fleet.declare()
	fleet.Send("order", "order.updated", persistent("1"))
	client.FailAndLeave(summary(nil), 1)
	receiver := fleet.receive(orderSummary, 0, always)
	equal(b, "delivery is marked as repeated", receiver.Next().Redelivered, true)
	equal(b, "key in the dead-letter queue", fleet.Take("dlq").RoutingKey, "order.updated")
	fleet.WantEmpty(orderSummary)
}

// The seed's receiver has requeued a message: to rehop it is the second and last attempt.
func dlxRehopSeesFailure(b *Bench) {
	fleet, client, desk := dlxFleet{b.Program(), day}, b.Client(), b.Desk(fails)
	fleet.declare()
	receiver := fleet.receive(orderSummary, 1, always)
	fleet.Send("order", "order.updated", persistent("1"))
	receiver.Next()
	client.Subscribe(summary(desk))
	desk.NextAttempt(2)
	d := fleet.Take("dlq")
	equal(b, "key in the dead-letter queue", d.RoutingKey, "order.updated")
	fleet.WantEmpty(orderSummary)
	desk.WantNone()
}

// A schedule of the subscription's own takes the place of the one requeue.
func dlxOwnSchedule(b *Bench) {
	client, desk, p := b.Client(), b.Desk(fails), b.Program()
	s := summary(desk)
	waits := []time.Duration{b.Wait(10*time.Second, 100*time.Millisecond), b.Wait(time.Hour, 200*time.Millisecond)}
	s.Retry = rehop.Steps(waits...)
	client.Subscribe(s)
	client.Publish(orderCreated("1"))
	before := desk.NextAttempt(1)
	for i, wait := range waits {
		s := desk.NextAttempt(i + 2)
		waited(b, "wait before an attempt", s.At.Sub(before.At), wait)
		before = s
	}
	p.WantBodies("dlq", "1")
}

// A handler that asks for another try at once, each time, has the tries of its schedule and no more.
func dlxRetryAtOnce(b *Bench) {
	client, desk, p := b.Client(), b.Desk(func(*rehop.Delivery) error { return rehop.RetryAfter(0, errFailed) }), b.Program()
	s := summary(desk)
	s.Retry = rehop.Steps(time.Second, time.Second, time.Second)
	client.Subscribe(s)
	client.Publish(orderCreated("1"))
	for attempt := range 4 {
		desk.NextAttempt(attempt + 1)
	}
	p.WantBodies("dlq", "1")
	desk.WantNone()
}

// Messages are to return to a queue that refuses them, more than the broker has under way at once: those of other queues that wait for as
// long return on time. They return when there is room; RabbitMQ takes three minutes to try again.
func dlxFullQueue(b *Bench) {
	const many = 40
	client, p, wait := b.Client(), b.Program(), b.Wait(10*time.Second, 3*time.Second)
	failing := b.Desk(fails)
	s := full(failing)
	s.MaxLength, s.Concurrency, s.Retry = many, 8, rehop.Steps(wait, wait)
	sub := client.Subscribe(s)
	client.PublishMany("waiting", many)
	for range many {
		failing.NextAttempt(1)
	}
	b.Must(sub.Drain(b.Context()))
	client.PublishMany("filling", many)
	desk := b.Desk(failsUntil(2))
	other := notification(desk)
	other.Retry = rehop.Steps(wait)
	client.Subscribe(other)
	client.Publish(rehop.Message{Key: orderNotification, Body: []byte("other")})
	first := desk.NextAttempt(1)
	waited(b, "wait while there are messages for a full queue", desk.NextAttempt(2).At.Sub(first.At), wait)
	for i := range many {
		equal(b, "message that fills the queue", string(p.Take(orderSummary).Body), "filling "+strconv.Itoa(i))
	}
	if b.Virtual {
		for range many {
			p.Take(orderSummary)
		}
	}
	p.WantEmpty("dlq")
}

// Further queues at the dead-letter exchange take what dies by its key, as the seed suggests.
func dlxKeepsKey(b *Bench) {
	client, desk, p := b.Client(), b.Desk(fails), b.Program()
	client.Subscribe(summary(desk))
	p.Queue("dead-orders", nil)
	p.Bind("dead-orders", "order.created", "dlx")
	client.Publish(orderCreated("1"), orderMessage("order.updated", "2"))
	p.WantBodies("dead-orders", "1")
	p.WantBodies("dlq", "1", "2")
}

// rehop has sent a message round, because it was delivered before, and stops: the message keeps its key when the seed's receiver
// dead-letters it.
func dlxSeedKeepsKey(b *Bench) {
	fleet, client, began := dlxFleet{b.Program(), day}, b.Client(), make(chan struct{})
	fleet.declare()
	fleet.Send("order", "order.updated", persistent("1"))
	s := summary(rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
		if d.Attempt == 1 {
			return errFailed
		}
		close(began)
		<-ctx.Done()
		return ctx.Err()
	}))
	sub := client.Subscribe(s)
	receive(b, began, soon, "the second attempt has begun")
	b.Must(sub.Stop())
	fleet.receive(orderSummary, 0, always)
	equal(b, "key in the dead-letter queue", fleet.Take("dlq").RoutingKey, "order.updated")
}

// Each consumer has a window of its own.
func dlxPrefetch(b *Bench) {
	client, p, end := b.Client(), b.Program(), make(chan struct{})
	release := sync.OnceFunc(func() { close(end) })
	defer release()
	var desks [2]*Desk
	for i := range desks {
		desks[i] = b.Desk(func(d *rehop.Delivery) error {
			<-end
			return nil
		})
	}
	for _, desk := range desks {
		s := summary(desk)
		s.Prefetch = 2
		client.Subscribe(s)
	}
	client.Publish(orderCreated("warm-up"), orderCreated("warm-up")) // a subscription begins with one message by itself
	desks[0].Next()
	desks[1].Next()
	for i := range 8 {
		client.Publish(orderCreated(strconv.Itoa(i)))
	}
	p.WantDepth(orderSummary, 8-2*2)
	client.Publish(orderCreated("one more"))
	p.WantDepth(orderSummary, 8-2*2+1)
	release()
	p.WantEmpty(orderSummary)
}

const crashLimit = 4

// wantCrashLoopEnds waits until a message that kills its consumers is in the failed queue.
func wantCrashLoopEnds(b *Bench, desk *Desk) {
	b.t.Helper()
	a, p := b.Admin(layout.DLX{}), b.Program()
	// A lost connection can double a message that was being sent round, and another copy can reach the failed queue meanwhile.
	var rest []admin.Message
	b.Eventually(soon, "nothing is left of it but what has failed", func() bool {
		n := p.inspect("dlq").Messages
		if n == 0 || p.inspect(orderSummary).Messages > 0 {
			return false
		}
		var err error
		rest, err = a.Failed(b.Context(), orderSummary, n+1, admin.Filter{})
		return err == nil && len(rest) == n
	})
	for _, m := range rest {
		equal(b, "id and kind", m.ID+", "+string(m.Kind), "id of 1, crash")
	}
	if runs := len(desk.seen); runs < crashLimit || runs == endlessRuns {
		b.t.Errorf("runs of the handler: got %d, want some more than %d", runs, crashLimit)
	}
}

// endlessRuns is when a handler gives up killing its consumer.
const endlessRuns = 100

// A message that ends every connection on which it is handled goes to the failed queue.
func dlxCrashLoop(b *Bench) { crashLoop(b, false) }

// So does one whose consumer cannot change to handling one message at a time, by which other programs distinguish a crash from a failure.
func dlxCrashLoopOfSingleActive(b *Bench) { crashLoop(b, true) }

func crashLoop(b *Bench, singleActive bool) {
	client := b.Client()
	var desk *Desk
	desk = b.Desk(func(*rehop.Delivery) error {
		if len(desk.seen) < endlessRuns {
			client.cut()
		}
		return nil
	})
	s := summary(desk)
	s.CrashLimit, s.SingleActiveConsumer = crashLimit, singleActive
	client.Subscribe(s)
	client.Publish(orderCreated("1"))
	wantCrashLoopEnds(b, desk)
}

// A message that kills every process which handles it goes to the failed queue.
func dlxCrashOfProcesses(b *Bench) {
	b.Client().Declare(summary(nil))
	var mu sync.Mutex
	var process *Client
	desk := b.Desk(func(*rehop.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		process.pull() // for good
		return nil
	})
	p := b.Program()
	p.Send("order", "order.updated", amqp091.Publishing{DeliveryMode: amqp091.Persistent, MessageId: "id of 1"})
	for p.inspect("dlq").Messages == 0 && len(desk.seen) < endlessRuns {
		runs := len(desk.seen)
		mu.Lock()
		process = b.Client()
		mu.Unlock()
		s := summary(desk)
		s.CrashLimit = crashLimit
		process.Subscribe(s)
		b.Eventually(soon, "the process dies, or the message has failed", func() bool {
			return len(desk.seen) > runs || p.inspect("dlq").Messages > 0
		})
		b.Must(process.Close(b.Context()))
		p.WantConsumers(orderSummary, 0)
	}
	wantCrashLoopEnds(b, desk)
}

// With the seed's receiver it circulates forever: the receiver dies before it can look at the mark.
func dlxSeedCrashLoop(b *Bench) {
	fleet := dlxFleet{b.Program(), day}
	fleet.declare()
	fleet.Send("order", "order.updated", persistent("1"))
	for range 30 {
		held := make(chan struct{}, 1)
		dying := fleet.Consume(orderSummary, 0, func(*amqp091.Channel, amqp091.Delivery) error {
			held <- struct{}{}
			return amqp091.ErrClosed
		})
		receive(b, held, soon, "the receiver has the message")
		dying.Stop()
	}
	fleet.WantDepth(orderSummary, 1)
	fleet.WantEmpty("dlq")
}

// All queues share the dead-letter queue. A replay of one takes its own messages, whoever dead-lettered them, to that queue alone.
func dlxReplayOwn(b *Bench) {
	fleet, client, repaired := dlxFleet{b.Program(), day}, b.Client(), make(chan struct{})
	fleet.declare()
	desk := b.Desk(func(*rehop.Delivery) error {
		select {
		case <-repaired:
			return nil
		default:
			return rehop.Permanent(errFailed)
		}
	})
	client.Subscribe(summary(desk))
	receiver := fleet.receive(orderNotification, 0, always)
	client.Publish(orderCreated("1"))
	desk.WantBodies("1")
	receiver.Next()
	receiver.Next()
	receiver.Stop()
	fleet.WantDepth("dlq", 2)
	a := b.Admin(layout.DLX{})
	failed := a.WantFailed(orderNotification, 1)[0]
	equal(b, "queue, exchange and key of what the seed dead-lettered", failed.Queue+" "+failed.Exchange+" "+failed.Key, orderNotification+" order order.created")
	close(repaired)
	a.Replay(orderSummary, 1)
	desk.NextAttempt(1)
	fleet.WantDepth("dlq", 1)
	fleet.WantEmpty(orderNotification)
	a.Replay(orderNotification, 1)
	d := fleet.Take(orderNotification)
	equal(b, "replayed message is marked as repeated", d.Redelivered, false)
	fleet.WantEmpty("dlq", orderSummary)
	desk.WantNone()
}

// What no queue was bound for is published to its exchange again, and stays if there still is none.
func dlxReplayUnrouted(b *Bench) {
	client, p, a := b.Client(Publishes("order", layout.DLX{})), b.Program(), b.Admin(layout.DLX{})
	client.Publish(orderCreated("1"))
	p.WantDepth("dlq", 1)
	desk := b.Desk(succeeds)
	client.Subscribe(summary(desk))
	a.Replay("dlq", 1)
	s := desk.NextAttempt(1)
	equal(b, "exchange and key that the handler sees", s.Exchange+" "+s.Key, "order order.created")
	p.WantEmpty("dlq")
}

// An operator moves failed messages to their exchange with all their headers, as a shovel does: they start again.
func dlxMovedBack(b *Bench) {
	client, desk, p := b.Client(), b.Desk(fails), b.Program()
	client.Subscribe(summary(desk))
	client.Publish(orderCreated("1"))
	for range 2 {
		desk.NextAttempt(1)
		desk.NextAttempt(2)
		d := p.Take("dlq")
		p.Send("order", d.RoutingKey, again(d))
	}
	desk.NextAttempt(1)
}

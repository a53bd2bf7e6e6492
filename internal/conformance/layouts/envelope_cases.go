package layouts

import (
	"strconv"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
)

func envelopeCases() []Case {
	return []Case{
		{"RehopDeclaresFirst", envelopeRehopFirst},
		{"SeedDeclaresFirst", envelopeSeedFirst},
		{"QuorumDeclaredByBoth", envelopeQuorumDeclared},
		{"RetryCountInTheBody", envelopeRetryCount},
		{"TemporaryErrorsEndInRetryLimit", envelopeRetryLimit},
		{"PermanentErrorsAreBusinessRejected", envelopePermanent},
		{"SeedRetriesFiveTimes", envelopeSeedRetries},
		{"RehopCountsOn", envelopeRehopCountsOn},
		{"SeedCountsOn", envelopeSeedCountsOn},
		{"BodyIsOtherwiseIntact", envelopeBodyIntact},
		{"BodiesThatAreNotObjects", envelopeNotObjects},
		{"PropertiesAreKept", envelopeProperties},
		{"SeedDropsProperties", envelopeSeedDropsProperties},
		{"RetryReachesItsQueueAlone", envelopeAlone},
		{"SeedRetryReachesAll", envelopeSeedReachesAll},
		{"StraysAreAcked", envelopeStrays},
		{"MessageIDIsRequired", envelopeRequiresID},
		{"SeedLoopsWithoutID", envelopeSeedLoopsWithoutID},
		{"DuplicatesAreDelivered", envelopeDuplicates},
		{"RejectionsAreCounted", envelopeRejections},
		{"SeedRejectsForEver", envelopeSeedRejects},
		{"DeliveryLimit", envelopeDeliveryLimit},
		{"QuorumRetries", envelopeQuorumRetries},
		{"FailedMoveIsConfirmed", envelopeMoveConfirmed},
		{"SeedLosesWhatHasNoQueue", envelopeSeedLoses},
		{"Replay", envelopeReplay},
		{"ReplayOfWhatTheSeedFailed", envelopeReplaySeed},
	}
}

// enveloped is the layout and a service of the fleet.
func enveloped(b *Bench) (layout.Envelope, envelopeFleet) {
	b.t.Helper()
	delay := b.Wait(15*time.Second, 200*time.Millisecond)
	return layout.Envelope{Delay: delay}, envelopeFleet{b.Program(), delay}
}

func orders(l layout.Envelope, h rehop.Handler) rehop.Subscriber {
	return rehop.Subscriber{Queue: orderMain, Layout: l, Handler: h}
}

func newOrder(body string) rehop.Message {
	return rehop.Message{ID: "order-7", Exchange: "order.main.x", Key: "order.created", Body: []byte(body), ContentType: "application/json"}
}

// wantDead takes the failed message, and checks its body.
func wantDead(fleet envelopeFleet, body string) amqp091.Delivery {
	fleet.b.t.Helper()
	d := fleet.Take(orderDead)
	equal(fleet.b, "body of the dead message", string(d.Body), body)
	fleet.WantEmpty(orderMain, orderRetry, orderDead)
	return d
}

func envelopeRehopFirst(b *Bench) {
	b.Client().Declare(orders(layout.Envelope{}, nil))
	fleet := envelopeFleet{b.Program(), 15 * time.Second}
	fleet.WantExchanges("order.main.x", "order.retry.x", "order.dead.x")
	fleet.WantQueues(orderMain, orderRetry, orderDead)
	fleet.declare()
	code := fleet.Refused(func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclare(orderMain, true, false, false, false, nil)
		return err
	})
	equal(b, "code for a queue that differs", code, 406)
}

func envelopeSeedFirst(b *Bench) {
	envelopeFleet{b.Program(), 15 * time.Second}.declare()
	client, desk := b.Client(Publishes("order.main.x", layout.Envelope{})), b.Desk(succeeds)
	client.Subscribe(orders(layout.Envelope{}, desk))
	client.Publish(newOrder(`{}`))
	desk.WantBodies(`{}`)
}

// quorumOrders is a subscription of the seed's quorum queue.
func quorumOrders(l layout.Envelope, h rehop.Handler) rehop.Subscriber {
	l.Name = "order"
	return rehop.Subscriber{Queue: "order.quorum.q", QueueType: layout.Quorum, Layout: l, Handler: h}
}

func envelopeQuorumDeclared(b *Bench) {
	l, fleet := enveloped(b)
	fleet.declare()
	client := b.Client()
	client.Declare(quorumOrders(l, nil))
	fleet.declareQuorum()
	fleet.Delete("order.quorum.q")
	fleet.declareQuorum()
	client.Declare(quorumOrders(l, nil))
}

func envelopeRetryCount(b *Bench) {
	l, fleet := enveloped(b)
	client, desk := b.Client(), b.Desk(failsUntil(3))
	client.Subscribe(orders(l, desk))
	client.Publish(newOrder(`{"order_id":7}`))
	first := desk.NextAttempt(1)
	for i, body := range []string{`{"order_id":7,"retry_count":1}`, `{"order_id":7,"retry_count":2}`} {
		s := desk.NextAttempt(i + 2)
		equal(b, "body", string(s.Body), body)
		waited(b, "wait before an attempt", s.At.Sub(first.At), fleet.delay)
		first = s
	}
	fleet.WantEmpty(orderMain, orderRetry, orderDead)
}

func envelopeRetryLimit(b *Bench) {
	l, fleet := enveloped(b)
	client, desk := b.Client(), b.Desk(fails)
	client.Subscribe(orders(l, desk))
	client.Publish(newOrder(`{"order_id":7}`))
	for attempt := 1; attempt <= maxRetry+1; attempt++ {
		desk.NextAttempt(attempt)
	}
	wantDead(fleet, `{"order_id":7,"retry_count":5,"dead_reason":"retry_limit"}`)
	desk.WantNone()
}

func envelopePermanent(b *Bench) {
	l, fleet := enveloped(b)
	client, desk := b.Client(), b.Desk(func(*rehop.Delivery) error { return rehop.Permanent(errFailed) })
	client.Subscribe(orders(l, desk))
	client.Publish(newOrder(`{"order_id":7}`))
	desk.NextAttempt(1)
	wantDead(fleet, `{"order_id":7,"dead_reason":"business_rejected"}`)
	desk.WantNone()
}

func envelopeSeedRetries(b *Bench) {
	_, fleet := enveloped(b)
	fleet.declare()
	worker := fleet.handle(0, temporarily)
	fleet.Send("order.main.x", "order.created", persistent(`{"order_id":7}`))
	for range maxRetry + 1 {
		worker.Next()
	}
	wantDead(fleet, `{"dead_reason":"retry_limit","order_id":7,"retry_count":5}`)
}

// The seed's program has failed an order four times: rehop's is the fifth attempt.
func envelopeRehopCountsOn(b *Bench) {
	l, fleet := enveloped(b)
	fleet.declare()
	worker := fleet.handle(4, temporarily)
	fleet.Send("order.main.x", "order.created", persistent(`{"order_id":7}`))
	for range 4 {
		worker.Next()
	}
	client, desk := b.Client(), b.Desk(fails)
	client.Subscribe(orders(l, desk))
	desk.NextAttempt(5)
	desk.NextAttempt(6)
	wantDead(fleet, `{"order_id":7,"retry_count":5,"dead_reason":"retry_limit"}`)
	desk.WantNone()
}

func envelopeSeedCountsOn(b *Bench) {
	l, fleet := enveloped(b)
	client := b.Client()
	client.Declare(orders(l, nil))
	client.Publish(newOrder(`{"order_id":7}`))
	client.FailAndLeave(orders(l, nil), 4)
	worker := fleet.handle(0, temporarily)
	for n := 4; n <= maxRetry; n++ {
		p, err := readPayload(worker.Next())
		b.Must(err)
		equal(b, "retry_count that the seed's program reads", p.retries(), n)
	}
	wantDead(fleet, `{"dead_reason":"retry_limit","order_id":7,"retry_count":5}`)
}

// Only the record changes: numbers that fit no machine word, the order of members, texts and nested values stay as they were written.
func envelopeBodyIntact(b *Bench) {
	l, fleet := enveloped(b)
	client, desk := b.Client(), b.Desk(failsUntil(2))
	s := orders(l, desk)
	client.Subscribe(s)
	const head, tail = `{"z":12345678901234567890123,"price":2.50,"note":"订单 \u00e4 </b>","retry_count":`, `,"a":{"y":1,"x":[1.0,null]}`
	client.Publish(newOrder(head + "0" + tail + "}"))
	desk.NextAttempt(1)
	equal(b, "body of the second attempt", string(desk.NextAttempt(2).Body), head+"1"+tail+"}")
	b.Must(client.Close(b.Context()))
	client = b.Client()
	s.Handler = b.Desk(func(*rehop.Delivery) error { return rehop.Permanent(errFailed) })
	client.Subscribe(s)
	client.Publish(newOrder(head + "3" + tail + "}"))
	wantDead(fleet, head+"3"+tail+`,"dead_reason":"business_rejected"}`)
}

// A body without room for the record is retried, counted and moved to the failed queue unchanged.
func envelopeNotObjects(b *Bench) {
	l, fleet := enveloped(b)
	l.Retries = 1
	client, desk := b.Client(), b.Desk(fails)
	client.Subscribe(orders(l, desk))
	for _, body := range []string{"", "no JSON", `[{"retry_count":9}]`, `{"retry_count":9`, "\x00\xff", `"text"`, `7`} {
		client.Publish(newOrder(body))
		for attempt := 1; attempt <= 2; attempt++ {
			equal(b, "body", string(desk.NextAttempt(attempt).Body), body)
		}
		wantDead(fleet, body)
	}
	for _, count := range []string{`null`, `"3"`, `-4`, `{}`} { // nothing that counts
		body := `{"retry_count":` + count + `}`
		client.Publish(newOrder(body))
		desk.NextAttempt(1)
		equal(b, "body of the second attempt", string(desk.NextAttempt(2).Body), `{"retry_count":1}`)
		wantDead(fleet, `{"retry_count":1,"dead_reason":"retry_limit"}`)
	}
}

// withProperties is an order with all properties that a message can have.
func withProperties() rehop.Message {
	m := newOrder(`{}`)
	m.CorrelationID, m.ReplyTo, m.Type, m.AppID, m.Priority = "correlation", "replies", "order", "shop", 4
	m.Headers = map[string]any{"tenant": "seven"}
	return m
}

func properties(d amqp091.Delivery) string {
	tenant, _ := d.Headers["tenant"].(string)
	return strings.Join([]string{d.MessageId, d.CorrelationId, d.ReplyTo, d.Type, d.AppId, strconv.Itoa(int(d.Priority)), tenant, d.ContentType}, " ")
}

const allProperties = "order-7 correlation replies order shop 4 seven application/json"

func envelopeProperties(b *Bench) {
	l, fleet := enveloped(b)
	client := b.Client()
	client.Declare(orders(l, nil))
	client.Publish(withProperties())
	client.FailAndLeave(orders(l, nil), 2)
	equal(b, "properties of a message that was retried", properties(fleet.Take(orderMain)), allProperties)
	client.Publish(withProperties())
	s := orders(l, b.Desk(fails))
	s.Retry = rehop.NoRetry()
	client.Subscribe(s)
	equal(b, "properties of a dead message", properties(fleet.Take(orderDead)), allProperties)
}

func envelopeSeedDropsProperties(b *Bench) {
	l, fleet := enveloped(b)
	client := b.Client()
	client.Declare(orders(l, nil))
	worker := fleet.handle(1, temporarily)
	client.Publish(withProperties())
	equal(b, "properties before", properties(worker.Next()), allProperties)
	equal(b, "properties after", properties(fleet.Take(orderMain)), "     0  application/json")
}

// Another queue takes new orders too: it hears of an order once, however often the first one fails it.
func envelopeAlone(b *Bench) {
	l, fleet := enveloped(b)
	client, desk := b.Client(), b.Desk(failsUntil(3))
	client.Subscribe(orders(l, desk))
	fleet.Queue("audit", nil)
	fleet.Bind("audit", "order.created", "order.main.x")
	client.Publish(newOrder(`{}`))
	for attempt := 1; attempt <= 3; attempt++ {
		desk.NextAttempt(attempt)
	}
	fleet.WantEmpty(orderMain, orderRetry, orderDead)
	fleet.WantBodies("audit", `{}`)
}

func envelopeSeedReachesAll(b *Bench) {
	_, fleet := enveloped(b)
	fleet.declare()
	fleet.Queue("audit", nil)
	fleet.Bind("audit", "order.created", "order.main.x")
	worker := fleet.handle(0, func(d amqp091.Delivery) outcome {
		if p, err := readPayload(d); err == nil && p.retries() < 2 {
			return temporaryError
		}
		return processed
	})
	fleet.Send("order.main.x", "order.created", persistent(`{}`))
	for range 3 {
		worker.Next()
	}
	fleet.WantBodies("audit", `{}`, `{"retry_count":1}`, `{"retry_count":2}`)
}

// A rehop subscriber of the same key acks the copies that the retries of the seed's program bring it.
func envelopeStrays(b *Bench) {
	l, fleet := enveloped(b)
	fleet.declare()
	worker := fleet.handle(0, temporarily)
	client, desk := b.Client(), b.Desk(succeeds)
	client.Subscribe(rehop.Subscriber{Queue: "audit.main.q", Exchange: "order.main.x", Keys: []string{"order.created"}, Layout: l, Handler: desk})
	fleet.Send("order.main.x", "order.created", persistent(`{}`))
	for range maxRetry + 1 {
		worker.Next()
	}
	worker.Stop()
	client.Publish(newOrder(`{"last":true}`))
	desk.WantBodies(`{}`, `{"last":true}`)
}

// Without an id a message is not handled at all, and goes to the failed queue.
func envelopeRequiresID(b *Bench) {
	l, fleet := enveloped(b)
	l.RequireID = true
	client, desk := b.Client(), b.Desk(succeeds)
	client.Subscribe(orders(l, desk))
	fleet.Send("order.main.x", "order.created", persistent(`{"order_id":7}`))
	wantDead(fleet, `{"order_id":7,"dead_reason":"no_message_id"}`)
	desk.WantNone()
	client.Publish(newOrder(`{}`))
	desk.WantBodies(`{}`)
}

// The seed requires an id and drops it when it retries; what it rejects circulates forever.
func envelopeSeedLoopsWithoutID(b *Bench) {
	_, fleet := enveloped(b)
	fleet.declare()
	first := fleet.handle(1, temporarily)
	m := persistent(`{"order_id":7}`)
	m.MessageId = "order-7"
	fleet.Send("order.main.x", "order.created", m)
	first.Next()
	checking := fleet.reject(0, hasNoID)
	for n := range int64(2 * maxRetry) {
		d := checking.Next()
		equal(b, "id", d.MessageId, "")
		equal(b, "times that it was rejected", failureCount(d, orderMain), n)
	}
	fleet.WantEmpty(orderDead)
}

// That a message comes twice is for the inbox to notice: the layout hands over both.
func envelopeDuplicates(b *Bench) {
	l, _ := enveloped(b)
	client, desk := b.Client(), b.Desk(succeeds)
	client.Subscribe(orders(l, desk))
	client.Publish(newOrder(`{}`), newOrder(`{}`))
	equal(b, "ids", desk.Next().ID+" "+desk.Next().ID, "order-7 order-7")
}

// What others reject is counted, and ends.
func envelopeRejections(b *Bench) {
	l, fleet := enveloped(b)
	fleet.declare()
	rejecting := fleet.reject(3, always)
	fleet.Send("order.main.x", "order.created", persistent(`{"retry_count":1}`))
	for range 3 {
		rejecting.Next()
	}
	client, desk := b.Client(), b.Desk(fails)
	client.Subscribe(orders(l, desk))
	s := desk.NextAttempt(5)
	equal(b, "body before rehop has failed it", string(s.Body), `{"retry_count":1}`)
	desk.NextAttempt(6)
	wantDead(fleet, `{"retry_count":5,"dead_reason":"retry_limit"}`)
}

func envelopeSeedRejects(b *Bench) {
	_, fleet := enveloped(b)
	fleet.declare()
	rejecting := fleet.reject(0, always)
	fleet.Send("order.main.x", "order.created", persistent(`{}`))
	for range 3 * maxRetry {
		rejecting.Next()
	}
	fleet.WantEmpty(orderDead)
}

// A quorum queue counts what returns to it, and moves it to the failed queue after the eighth time.
func envelopeDeliveryLimit(b *Bench) {
	l, fleet := enveloped(b)
	fleet.declare()
	client := b.Client()
	client.Declare(quorumOrders(l, nil))
	fleet.Send("", "order.quorum.q", persistent(`{"order_id":7}`))
	poisoned := fleet.Consume("order.quorum.q", 0, func(_ *amqp091.Channel, d amqp091.Delivery) error { return d.Nack(false, true) })
	for range 9 {
		poisoned.Next()
	}
	l.Name = "order"
	failed := b.Admin(l).WantFailed("order.quorum.q", 1)[0]
	equal(b, "kind of failure", failed.Kind, "dead")
	d := fleet.Take(orderDead)
	equal(b, "reason and body", deathReason(d)+" "+string(d.Body), `delivery_limit {"order_id":7}`)
	equal(b, "deliveries after the ninth", len(poisoned.seen), 0)
	fleet.WantEmpty("order.quorum.q")
}

func envelopeQuorumRetries(b *Bench) {
	l, fleet := enveloped(b)
	client, desk := b.Client(), b.Desk(fails)
	client.Subscribe(quorumOrders(l, desk))
	client.Publish(newOrder(`{}`))
	for attempt := 1; attempt <= maxRetry+1; attempt++ {
		desk.NextAttempt(attempt)
	}
	d := fleet.Take(orderDead)
	equal(b, "body of the dead message", string(d.Body), `{"retry_count":5,"dead_reason":"retry_limit"}`)
	fleet.WantEmpty("order.quorum.q", orderRetry, orderDead)
}

func envelopeMoveConfirmed(b *Bench) {
	l, fleet := enveloped(b)
	client, began, gone := b.Client(), make(chan struct{}), make(chan struct{})
	s := orders(l, waitsThenFails(began, gone))
	s.Retry = rehop.NoRetry()
	client.Subscribe(s)
	client.Publish(newOrder(`{}`))
	receive(b, began, soon, "the handler has begun")
	fleet.Delete(orderDead)
	close(gone)
	b.Eventually(soon, "the dead queue is there again", func() bool { return fleet.Has(orderDead) })
	wantDead(fleet, `{"dead_reason":"retry_limit"}`)
}

func envelopeSeedLoses(b *Bench) {
	_, fleet := enveloped(b)
	fleet.declare()
	fleet.Delete(orderDead)
	worker := fleet.handle(0, func(amqp091.Delivery) outcome { return permanentError })
	fleet.Send("order.main.x", "order.created", persistent(`{}`))
	worker.Next()
	worker.Stop()
	fleet.WantEmpty(orderMain, orderRetry)
}

// A replay starts anew, so it takes the record out of the body.
func envelopeReplay(b *Bench) {
	l, fleet := enveloped(b)
	l.Retries = 1
	client, desk := b.Client(), b.Desk(fails)
	client.Subscribe(orders(l, desk))
	client.Publish(newOrder(`{"order_id":7}`))
	desk.NextAttempt(1)
	desk.NextAttempt(2)
	a := b.Admin(l)
	failed := a.WantFailed(orderMain, 1)[0]
	equal(b, "attempts and origin", strconv.Itoa(failed.Attempts)+" "+failed.Exchange+" "+failed.Key, "2 order.main.x order.created")
	a.Replay(orderMain, 1)
	equal(b, "body of the replayed message", string(desk.NextAttempt(1).Body), `{"order_id":7}`)
	desk.NextAttempt(2)
	fleet.WantDepth(orderDead, 1)
}

func envelopeReplaySeed(b *Bench) {
	l, fleet := enveloped(b)
	fleet.declare()
	worker := fleet.handle(0, func(amqp091.Delivery) outcome { return permanentError })
	fleet.Send("order.main.x", "order.created", persistent(`{"order_id":7,"retry_count":2}`))
	worker.Next()
	worker.Stop()
	a := b.Admin(l)
	failed := a.WantFailed(orderMain, 1)[0]
	equal(b, "attempts, kind and reason", strconv.Itoa(failed.Attempts)+" "+string(failed.Kind)+" "+failed.Error, "3 permanent business_rejected")
	a.Replay(orderMain, 1)
	equal(b, "body of the replayed message", string(fleet.Take(orderMain).Body), `{"order_id":7}`)
	fleet.WantEmpty(orderDead)
}

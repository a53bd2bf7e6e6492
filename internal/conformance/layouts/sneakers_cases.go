package layouts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
)

func sneakersCases() []Case {
	return []Case{
		{"RehopDeclaresFirst", sneakersRehopFirst},
		{"SeedDeclaresFirst", sneakersSeedFirst},
		{"QuorumQueues", sneakersQuorum},
		{"QuorumQueuesRehopDeclaresFirst", sneakersQuorumRehopFirst},
		{"NamesOfOnesOwn", sneakersOwnNames},
		{"RetriesFiveTimes", sneakersRetries},
		{"RejectIsCountedByTheBroker", sneakersReject},
		{"SeedRetriesFiveTimes", sneakersSeedRetries},
		{"ErrorHeader", sneakersErrorHeader},
		{"ErrorDocument", sneakersErrorDocument},
		{"OwnQueueCountsOnly", sneakersOwnQueueCounts},
		{"SteppedDelays", sneakersSteps},
		{"RetryReachesItsQueueAlone", sneakersAlone},
		{"RehopCountsOn", sneakersRehopCountsOn},
		{"SeedCountsOn", sneakersSeedCountsOn},
		{"SeedCountsOnAfterRejects", sneakersSeedCountsRejects},
		{"FailedMoveIsConfirmed", sneakersMoveConfirmed},
		{"SeedLosesWhatHasNoQueue", sneakersSeedLoses},
		{"ReplayOutOfTheDocument", sneakersReplay},
		{"ReplayOfSeedDocument", sneakersReplaySeed},
		{"ReplayOfSeedHeader", sneakersReplaySeedHeader},
		{"ReplayOfSeedHeaders", sneakersReplaySeedTwice},
		{"PutBackByHand", sneakersPutBack},
		{"KilledWorkerLosesNothing", sneakersKilled},
	}
}

const mailQueue = "mail"

// sneakers is the layout and a worker of the fleet.
func sneakers(b *Bench) (layout.Sneakers, sneakersFleet) {
	b.t.Helper()
	delay := b.Wait(time.Minute, 250*time.Millisecond)
	return layout.Sneakers{Delay: delay}, sneakersFleet{Program: b.Program(), timeout: delay, retries: 5}
}

func mail(l layout.Sneakers, h rehop.Handler) rehop.Subscriber {
	return rehop.Subscriber{Queue: mailQueue, Exchange: "sneakers", ExchangeType: "direct", Layout: l, Handler: h}
}

func mailMessage(body string) rehop.Message {
	return rehop.Message{ID: "id of " + body, Exchange: "sneakers", Key: mailQueue, Body: []byte(body), ContentType: "text/plain",
		CorrelationID: "correlation", Headers: map[string]any{"tenant": "seven"}}
}

// mailQueues are those in which nothing may be left.
var mailQueues = []string{mailQueue, mailQueue + "-retry"}

func sneakersRehopFirst(b *Bench) {
	b.Client().Declare(mail(layout.Sneakers{}, nil))
	fleet := sneakersFleet{Program: b.Program(), timeout: time.Minute}
	fleet.WantExchanges("sneakers", mailQueue+"-retry", mailQueue+"-error", mailQueue+"-retry-requeue")
	fleet.WantQueues(mailQueue, mailQueue+"-retry", mailQueue+"-error")
	fleet.declare(mailQueue)
	code := fleet.Refused(func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclare(mailQueue, true, false, false, false, nil)
		return err
	})
	equal(b, "code for a queue that differs", code, 406)
}

func sneakersSeedFirst(b *Bench) {
	sneakersFleet{Program: b.Program(), timeout: time.Minute}.declare(mailQueue)
	client, desk := b.Client(Publishes("sneakers", layout.Sneakers{})), b.Desk(succeeds)
	s := mail(layout.Sneakers{}, desk)
	s.Exchange, s.ExchangeType = "", "" // those of the layout
	client.Subscribe(s)
	client.Publish(mailMessage("1"))
	desk.WantBodies("1")
}

// The worker's queue is a quorum queue: the retry and the error queue are, too, with Kicks 3.3 and later, and are not with others. What the broker has
// decides.
func sneakersQuorum(b *Bench) {
	l, fleet := sneakers(b)
	fleet.quorum, fleet.inHeader = true, true
	client := b.Client(Publishes("sneakers", l))
	for i, inherits := range []bool{true, false} {
		fleet.inherits = inherits
		queue := fmt.Sprintf("%s %d", mailQueue, i)
		s := mail(l, nil)
		s.Queue, s.QueueType, s.Keys = queue, layout.Quorum, []string{queue}
		s.Layout = layout.Sneakers{Delay: l.Delay, Reject: true}
		fleet.declare(queue)
		client.Declare(s)
		passive := s
		passive.QueueType, passive.ExistingQueue, passive.Layout = "", true, l
		client.Declare(passive)
		fleet.declare(queue)
		m := mailMessage("1")
		m.Key = queue
		client.Publish(m)
		client.FailAndLeave(s, 4) // more often than makes a message suspect that has come back without an answer
		worker := fleet.work(queue, 0, always)
		for count := int64(4); count <= 5; count++ {
			equal(b, "count that the worker reads", failureCount(worker.Next(), queue), count)
		}
		worker.Stop()
		a := b.Admin(l)
		equal(b, "attempts of the failed message", a.WantFailed(queue, 1)[0].Attempts, 6)
		a.Replay(queue, 1)
		equal(b, "id of the replayed message", fleet.Take(queue).MessageId, "id of 1")
	}
}

func sneakersQuorumRehopFirst(b *Bench) {
	s := mail(layout.Sneakers{}, nil)
	s.QueueType = layout.Quorum
	b.Client().Declare(s)
	sneakersFleet{Program: b.Program(), timeout: time.Minute, quorum: true, inherits: true}.declare(mailQueue)
	s = mail(layout.Sneakers{RetryArgs: map[string]any{}}, nil)
	s.Queue, s.QueueType = "older", layout.Quorum
	b.Client().Declare(s)
	sneakersFleet{Program: b.Program(), timeout: time.Minute, quorum: true}.declare("older")
}

// The handler's options for names: the fleet and rehop meet under those too. The queue is one whose count of rejected messages lasts on all releases.
func sneakersOwnNames(b *Bench) {
	l, fleet := sneakers(b)
	l.RetryName, l.ErrorName, l.RequeueName, l.Reject = "later", "broken", "again", true
	fleet.named, fleet.quorum = sneakersNames{"later", "broken", "again"}, true
	fleet.declare(mailQueue)
	s := mail(l, nil)
	s.QueueType = layout.Quorum
	client := b.Client()
	client.Declare(s)
	fleet.declare(mailQueue)
	client.Publish(mailMessage("1"))
	client.FailAndLeave(s, 2)
	worker := fleet.work(mailQueue, 0, always)
	for count := int64(2); count <= 5; count++ {
		equal(b, "count that the worker reads", failureCount(worker.Next(), mailQueue), count)
	}
	b.Admin(l).WantFailed(mailQueue, 1)
	fleet.WantEmpty(mailQueue, "later")
	fleet.WantDepth("broken", 1)
}

// wantFiveRetries is six attempts and then the error queue.
func wantFiveRetries(b *Bench, l layout.Sneakers, fleet sneakersFleet) {
	b.t.Helper()
	client, desk := b.Client(), b.Desk(fails)
	client.Subscribe(mail(l, desk))
	client.Publish(mailMessage("1"))
	before := desk.NextAttempt(1)
	for attempt := 2; attempt <= 6; attempt++ {
		s := desk.NextAttempt(attempt)
		waited(b, "wait before an attempt", s.At.Sub(before.At), fleet.timeout)
		equal(b, "exchange and key that the handler sees", s.Exchange+" "+s.Key, "sneakers "+mailQueue)
		before = s
	}
	failed := b.Admin(l).WantFailed(mailQueue, 1)[0]
	equal(b, "attempts and body", strconv.Itoa(failed.Attempts)+" "+string(failed.Body), "6 1")
	fleet.WantEmpty(mailQueues...)
	fleet.WantDepth(mailQueue+"-error", 1)
	desk.WantNone()
}

func sneakersRetries(b *Bench) {
	l, fleet := sneakers(b)
	wantFiveRetries(b, l, fleet)
}

// In the seed's own way, by rejecting, it is the broker that counts.
func sneakersReject(b *Bench) {
	l, fleet := sneakers(b)
	l.Reject = true
	client := b.Client()
	client.Declare(mail(l, nil))
	client.Publish(mailMessage("0"))
	client.FailAndLeave(mail(l, nil), 1)
	d := fleet.Take(mailQueue)
	equal(b, "deaths in the queue", failureCount(d, mailQueue), 1)
	equal(b, "deaths in the retry queue", failureCount(d, mailQueue+"-retry"), 1)
	_, written := d.Headers["rehop-attempt"]
	equal(b, "rehop has written its own record", written, false)
	wantFiveRetries(b, l, fleet)
}

func sneakersSeedRetries(b *Bench) {
	_, fleet := sneakers(b)
	fleet.declare(mailQueue)
	worker := fleet.work(mailQueue, 0, always)
	fleet.Send("sneakers", mailQueue, persistent("1"))
	for count := range int64(6) {
		equal(b, "count that the worker reads", failureCount(worker.Next(), mailQueue), count)
	}
	fleet.WantDepth(mailQueue+"-error", 1)
	fleet.WantEmpty(mailQueues...)
}

// The error queue has what Sneakers would have written, so its tools can read it: the unchanged message, and the reason in a header.
func sneakersErrorHeader(b *Bench) {
	l, fleet := sneakers(b)
	client := b.Client()
	s := mail(l, b.Desk(fails))
	s.Retry = rehop.NoRetry()
	client.Subscribe(s)
	client.Publish(mailMessage("1"))
	d := fleet.Take(mailQueue + "-error")
	equal(b, "exchange, key, content type and body", d.Exchange+" "+d.RoutingKey+" "+d.ContentType+" "+string(d.Body), "mail-error mail text/plain 1")
	var info struct {
		Error       string         `json:"error"`
		NumAttempts int            `json:"num_attempts"`
		FailedAt    time.Time      `json:"failed_at"`
		Properties  map[string]any `json:"properties"`
	}
	text, _ := d.Headers["retry_info"].(string)
	b.Must(json.Unmarshal([]byte(text), &info))
	equal(b, "error and attempts", fmt.Sprintf("%s %d", info.Error, info.NumAttempts), fmt.Sprintf("%v 1", errFailed))
	equal(b, "id in the properties", fmt.Sprint(info.Properties["message_id"]), "id of 1")
}

// The same for a fleet of Sneakers up to 2.11, which has the message in a document.
func sneakersErrorDocument(b *Bench) {
	l, fleet := sneakers(b)
	l.Document = true
	client, began := b.Client(), time.Now()
	s := mail(l, b.Desk(fails))
	s.Retry = rehop.NoRetry()
	client.Subscribe(s)
	body := "binary \x00\xff and long: " + strings.Repeat("0123456789", 20)
	m := mailMessage("1")
	m.Body, m.Priority = []byte(body), 3
	client.Publish(m)
	d := fleet.Take(mailQueue + "-error")
	equal(b, "exchange, key and content type", d.Exchange+" "+d.RoutingKey+" "+d.ContentType, "mail-error mail application/json")
	var doc struct {
		Error        string `json:"error"`
		NumAttempts  int    `json:"num_attempts"`
		FailedAt     string `json:"failed_at"`
		Payload      string `json:"payload"`
		Properties   string `json:"properties"`
		ErrorClass   string `json:"error_class"`
		ErrorMessage string `json:"error_message"`
	}
	b.Must(json.Unmarshal(d.Body, &doc))
	equal(b, "error, attempts and message", fmt.Sprintf("%s %d %s", doc.Error, doc.NumAttempts, doc.ErrorMessage), fmt.Sprintf("%v 1 %v", errFailed, errFailed))
	if doc.ErrorClass == "" {
		b.t.Error("error_class: got none, want one")
	}
	at, err := time.Parse(time.RFC3339, doc.FailedAt)
	b.Must(err)
	if at.Before(began.Truncate(time.Second)) {
		b.t.Errorf("failed_at: got %v, want %v or later", at, began)
	}
	payload, err := decode64(doc.Payload)
	b.Must(err)
	equal(b, "payload", payload, body)
	equal(b, "payload as Ruby writes it", doc.Payload, encode64([]byte(body)))
	text, err := decode64(doc.Properties)
	b.Must(err)
	var properties struct {
		ContentType   string         `json:"content_type"`
		MessageID     string         `json:"message_id"`
		CorrelationID string         `json:"correlation_id"`
		DeliveryMode  int            `json:"delivery_mode"`
		Priority      int            `json:"priority"`
		Headers       map[string]any `json:"headers"`
	}
	b.Must(json.Unmarshal([]byte(text), &properties))
	equal(b, "properties", fmt.Sprintf("%+v", properties), "{ContentType:text/plain MessageID:id of 1 CorrelationID:correlation DeliveryMode:2 Priority:3 Headers:map[tenant:seven]}")
}

// A message that died in other queues before has not failed in this one.
func sneakersOwnQueueCounts(b *Bench) {
	l, fleet := sneakers(b)
	client, desk := b.Client(), b.Desk(failsUntil(2))
	client.Subscribe(mail(l, desk))
	fleet.Queue("before", amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": mailQueue, "x-message-ttl": int32(10)})
	fleet.Send("", "before", persistent("1"))
	desk.NextAttempt(1)
	desk.NextAttempt(2)
}

// What Sneakers cannot do, by the description in the seed.
func sneakersSteps(b *Bench) {
	l, fleet := sneakers(b)
	waits := []time.Duration{10 * time.Second, 100 * time.Second, time.Hour, 2 * time.Hour, 10 * time.Hour}
	if !b.Virtual {
		waits = []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond, 400 * time.Millisecond}
	}
	client, desk := b.Client(), b.Desk(fails)
	s := mail(l, desk)
	s.Retry = rehop.Steps(waits...)
	client.Subscribe(s)
	client.Publish(mailMessage("1"))
	before := desk.NextAttempt(1)
	for i, wait := range waits {
		s := desk.NextAttempt(i + 2)
		waited(b, "wait before attempt "+strconv.Itoa(i+2), s.At.Sub(before.At), wait)
		before = s
	}
	fleet.WantDepth(mailQueue+"-error", 1)
	fleet.WantEmpty(mailQueues...)
}

// Two queues with one key: what one fails comes back to it alone, in both ways.
func sneakersAlone(b *Bench) {
	l, fleet := sneakers(b)
	client, other := b.Client(), b.Desk(succeeds)
	second := mail(l, other)
	second.Queue, second.Keys = "archive", []string{mailQueue}
	client.Subscribe(second)
	for _, reject := range []bool{false, true} {
		l.Reject = reject
		desk := b.Desk(failsUntil(3))
		sub := client.Subscribe(mail(l, desk))
		client.Publish(mailMessage("1"))
		for attempt := 1; attempt <= 3; attempt++ {
			desk.NextAttempt(attempt)
		}
		b.Must(sub.Drain(b.Context()))
		other.WantBodies("1")
	}
	fleet.WantEmpty(mailQueue, "archive", mailQueue+"-error", "archive-error")
	client.Publish(mailMessage("last"))
	other.WantBodies("last")
	fleet.Take(mailQueue)
}

func sneakersRehopCountsOn(b *Bench) {
	l, fleet := sneakers(b)
	fleet.declare(mailQueue)
	worker := fleet.work(mailQueue, 3, always)
	fleet.Send("sneakers", mailQueue, persistent("1"))
	for range 3 {
		worker.Next()
	}
	client, desk := b.Client(), b.Desk(fails)
	client.Subscribe(mail(l, desk))
	equal(b, "exchange that the handler sees", desk.NextAttempt(4).Exchange, "sneakers")
	desk.NextAttempt(5)
	desk.NextAttempt(6)
	equal(b, "attempts of the failed message", b.Admin(l).WantFailed(mailQueue, 1)[0].Attempts, 6)
	fleet.WantEmpty(mailQueues...)
	desk.WantNone()
}

// sneakersHandsOver has rehop fail a message twice; a worker of the fleet then fails it until the fleet's count ends.
func sneakersHandsOver(b *Bench, l layout.Sneakers, fleet sneakersFleet) {
	b.t.Helper()
	client := b.Client()
	client.Declare(mail(l, nil))
	client.Publish(mailMessage("1"))
	client.FailAndLeave(mail(l, nil), 2)
	worker := fleet.work(mailQueue, 0, always)
	for count := int64(2); count <= 5; count++ {
		d := worker.Next()
		equal(b, "count that the worker reads", failureCount(d, mailQueue), count)
		equal(b, "key that the worker sees", d.RoutingKey, mailQueue)
	}
	fleet.WantDepth(mailQueue+"-error", 1)
	fleet.WantEmpty(mailQueues...)
}

func sneakersSeedCountsOn(b *Bench) {
	l, fleet := sneakers(b)
	sneakersHandsOver(b, l, fleet)
}

func sneakersSeedCountsRejects(b *Bench) {
	l, fleet := sneakers(b)
	l.Reject = true
	sneakersHandsOver(b, l, fleet)
}

func sneakersMoveConfirmed(b *Bench) {
	l, fleet := sneakers(b)
	client, began, gone := b.Client(), make(chan struct{}), make(chan struct{})
	s := mail(l, waitsThenFails(began, gone))
	s.Retry = rehop.NoRetry()
	client.Subscribe(s)
	client.Publish(mailMessage("1"))
	receive(b, began, soon, "the handler has begun")
	fleet.Delete(mailQueue + "-error")
	close(gone)
	b.Eventually(soon, "the error queue is there again", func() bool { return fleet.Has(mailQueue + "-error") })
	fleet.WantDepth(mailQueue+"-error", 1)
	fleet.WantEmpty(mailQueue)
}

// The same with the seed's worker: the message is nowhere.
func sneakersSeedLoses(b *Bench) {
	_, fleet := sneakers(b)
	fleet.retries = 0
	fleet.declare(mailQueue)
	fleet.Delete(mailQueue + "-error")
	worker := fleet.work(mailQueue, 0, always)
	fleet.Send("sneakers", mailQueue, persistent("1"))
	worker.Next()
	worker.Stop()
	fleet.WantEmpty(mailQueues...)
}

// wantReplayed replays the failed messages and checks that they are unchanged.
func wantReplayed(b *Bench, l layout.Sneakers, fleet sneakersFleet, headers map[string]any) {
	b.t.Helper()
	a := b.Admin(l)
	failed := a.WantFailed(mailQueue, 1)[0]
	equal(b, "body, id and attempts of what has failed", string(failed.Body)+", "+failed.ID+", "+strconv.Itoa(failed.Attempts), "1, id of 1, 6")
	if failed.Error == "" || failed.FailedAt.IsZero() {
		b.t.Errorf("failed message: got error %q and time %v, want both", failed.Error, failed.FailedAt)
	}
	a.Replay(mailQueue, 1)
	client, desk := b.Client(), b.Desk(succeeds)
	client.Subscribe(mail(l, desk))
	s := desk.NextAttempt(1)
	equal(b, "body, id and content type", string(s.Body)+", "+s.ID+", "+s.ContentType, "1, id of 1, text/plain")
	equal(b, "headers", fmt.Sprint(s.Headers), fmt.Sprint(headers))
	fleet.WantEmpty(append(slices.Clone(mailQueues), mailQueue+"-error")...)
}

func sneakersReplay(b *Bench) {
	l, fleet := sneakers(b)
	client, desk := b.Client(), b.Desk(fails)
	sub := client.Subscribe(mail(l, desk))
	client.Publish(mailMessage("1"))
	for attempt := 1; attempt <= 6; attempt++ {
		desk.NextAttempt(attempt)
	}
	b.Must(sub.Drain(b.Context()))
	wantReplayed(b, l, fleet, map[string]any{"tenant": "seven"})
}

// seedFails has a worker of the fleet fail a message for good.
func seedFails(b *Bench, fleet sneakersFleet) {
	b.t.Helper()
	fleet.declare(mailQueue)
	worker := fleet.work(mailQueue, 0, always)
	m := persistent("1")
	m.MessageId, m.ContentType, m.Headers = "id of 1", "text/plain", amqp091.Table{"tenant": "seven"}
	fleet.Send("sneakers", mailQueue, m)
	for range 6 {
		worker.Next()
	}
	worker.Stop()
}

func sneakersReplaySeed(b *Bench) {
	l, fleet := sneakers(b)
	seedFails(b, fleet)
	wantReplayed(b, l, fleet, map[string]any{"tenant": "seven"})
}

func sneakersReplaySeedHeader(b *Bench) {
	l, fleet := sneakers(b)
	fleet.inHeader = true
	seedFails(b, fleet)
	wantReplayed(b, l, fleet, map[string]any{"tenant": "seven"})
}

// A message that was put back with its record on it has failed twice: the record is then a list of two kinds of things, and only the oldest
// knows the message's properties.
func sneakersReplaySeedTwice(b *Bench) {
	l, fleet := sneakers(b)
	fleet.inHeader = true
	seedFails(b, fleet)
	fleet.putBack(mailQueue)
	worker := fleet.work(mailQueue, 0, always)
	for range 6 {
		worker.Next()
	}
	worker.Stop()
	wantReplayed(b, l, fleet, map[string]any{"tenant": "seven"})
}

// What rehop has failed can be put back by a shovel: the worker of the fleet gets the message as it was.
func sneakersPutBack(b *Bench) {
	l, fleet := sneakers(b)
	fleet.inHeader = true
	client, desk := b.Client(), b.Desk(fails)
	s := mail(l, desk)
	s.Retry = rehop.NoRetry()
	sub := client.Subscribe(s)
	client.Publish(mailMessage("1"))
	desk.NextAttempt(1)
	b.Must(sub.Drain(b.Context()))
	fleet.putBack(mailQueue)
	worker := fleet.work(mailQueue, 0, always)
	for count := range int64(6) {
		d := worker.Next()
		equal(b, "body, id and count", fmt.Sprint(string(d.Body), ", ", d.MessageId, ", ", failureCount(d, mailQueue)), fmt.Sprint("1, id of 1, ", count))
	}
	worker.Stop()
	wantReplayed(b, l, fleet, map[string]any{"tenant": "seven"})
}

// A worker dies with an unacked message: another gets it, of rehop or of the fleet.
func sneakersKilled(b *Bench) {
	l, fleet := sneakers(b)
	client, held := b.Client(), make(chan struct{})
	client.Declare(mail(l, nil))
	dying := fleet.Consume(mailQueue, 0, func(*amqp091.Channel, amqp091.Delivery) error {
		close(held)
		return amqp091.ErrClosed
	})
	client.Publish(mailMessage("1"))
	receive(b, held, soon, "the worker has the message")
	dying.Stop()
	desk := b.Desk(func(d *rehop.Delivery) error {
		client.cut()
		return nil
	})
	sub := client.Subscribe(mail(l, desk))
	desk.NextAttempt(1)
	b.Must(sub.Stop())
	worker := fleet.work(mailQueue, 0, never)
	equal(b, "message that another worker gets", string(worker.Next().Body), "1")
}

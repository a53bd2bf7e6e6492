package amqp

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/internal/wire"
)

const delayedRetryPage = "Quorum Queues: Delayed Retry"

// Delayed retry came with 4.3.
func delayedRetryCases() []part {
	return []part{
		{since(release43), delayingCases()},
		{before(release43), []Case{{"AcceptedBefore", delayedRetryPage, retryAcceptedBefore}}},
		{releases{}, []Case{{"ClassicQueue", delayedRetryPage, retryClassicQueue}}},
	}
}

func delayingCases() []Case {
	cases := []Case{
		{"AfterTheDelay", delayedRetryPage, retryAfterDelay},
		{"OthersMeanwhile", delayedRetryPage, retryOthersMeanwhile},
		{"NotReady", delayedRetryPage, retryNotReady},
		{"First", delayedRetryPage, retryFirst},
		{"FirstBeforePriorities", delayedRetryPage, retryFirstBeforePriorities},
		{"GrowsWithFailures", delayedRetryPage, retriesTogether(retry("all", short, long), rejects, "b", "a")},
		{"DoesNotGrowByNack", delayedRetryPage, retriesTogether(retry("all", short, long), nacks, "a", "b")},
		{"DoesNotGrowWithoutMaximum", delayedRetryPage, retriesTogether(retry("all", short, 0), rejects, "a", "b")},
		{"MaximumBelowMinimum", delayedRetryPage, retriesSoon(retry("all", long, short), nil)},
		{"DeliveryLimitFirst", delayedRetryPage, retryDeliveryLimit},
		{"DoesNotExpireMeanwhile", delayedRetryPage, retryDoesNotExpire},
		{"ExpiresAfterwards", delayedRetryPage, retryExpiresAfterwards},
		{"CountsForLength", delayedRetryPage, retryCountsForLength},
		{"CountsForRefusal", delayedRetryPage, retryCountsForRefusal},
		{"Purged", delayedRetryPage, retryPurged},
		{"Deleted", delayedRetryPage, retryDeleted},
		{"OfPolicy", delayedRetryPage, retriesLater(nil, retryPolicy("all", long, 0), rejects)},
		{"PolicyDecidesType", delayedRetryPage, retriesLater(retry("failed", long, 0), retryPolicy("returned", long, 0), nacks)},
		{"PolicyDisables", delayedRetryPage, retriesSoon(retry("all", long, 0), map[string]any{"delayed-retry-type": "disabled"})},
		{"LowerMinimumOfPolicy", delayedRetryPage, retriesSoon(retry("all", long, long), retryPolicy("all", short, 0))},
		{"LowerMinimumOfArgument", delayedRetryPage, retriesSoon(retry("all", short, 0), retryPolicy("all", long, 0))},
		{"LowerMaximumOfPolicy", delayedRetryPage, retriesSoon(retry("all", long, long), map[string]any{"delayed-retry-max": short.Milliseconds()})},
		{"PolicyForLaterReturns", delayedRetryPage, retryPolicyRemoved},
		{"WithoutMinimum", delayedRetryPage, retriesSoon(amqp091.Table{"x-delayed-retry-type": "all"}, nil)},
		{"WithoutType", delayedRetryPage, retriesSoon(amqp091.Table{"x-delayed-retry-min": long.Milliseconds()}, nil)},
		{"UnknownType", delayedRetryPage, retriesSoon(retry("some", long, 0), nil)},
		{"TypeIsNoText", delayedRetryPage, retriesSoon(with(retry("all", long, 0), amqp091.Table{"x-delayed-retry-type": int32(1)}), nil)},
		{"MinimumZero", delayedRetryPage, retriesSoon(with(retry("all", long, long), amqp091.Table{"x-delayed-retry-min": int32(0)}), nil)},
		{"MinimumNegative", delayedRetryPage, retriesSoon(with(retry("all", long, long), amqp091.Table{"x-delayed-retry-min": int32(-1)}), nil)},
		{"MinimumIsText", delayedRetryPage, retriesSoon(with(retry("all", long, long), amqp091.Table{"x-delayed-retry-min": "600000"}), nil)},
		{"MaximumZero", delayedRetryPage, retriesLater(with(retry("all", long, 0), amqp091.Table{"x-delayed-retry-max": int32(0)}), nil, rejects)},
		{"MaximumIsText", delayedRetryPage, retriesLater(with(retry("all", long, 0), amqp091.Table{"x-delayed-retry-max": "1"}), nil, rejects)},
	}
	for _, name := range slices.Sorted(maps.Keys(comebacks)) {
		c := comebacks[name]
		all := retriesLater(retry("all", long, 0), nil, c.hold)
		failed, returned := retriesLater(retry("failed", long, 0), nil, c.hold), retriesAtOnce(retry("returned", long, 0), c.hold)
		if !c.failed {
			failed, returned = retriesAtOnce(retry("failed", long, 0), c.hold), retriesLater(retry("returned", long, 0), nil, c.hold)
		}
		cases = append(cases, Case{"AllBy" + name, delayedRetryPage, all}, Case{"FailedBy" + name, delayedRetryPage, failed},
			Case{"ReturnedBy" + name, delayedRetryPage, returned})
	}
	return cases
}

// retry are the arguments of a quorum queue that delays what comes back. No maximum is given if it is 0.
func retry(typ string, least, most time.Duration) amqp091.Table {
	args := amqp091.Table{"x-delayed-retry-type": typ, "x-delayed-retry-min": least.Milliseconds()}
	if most > 0 {
		args["x-delayed-retry-max"] = most.Milliseconds()
	}
	return args
}

// retryPolicy is the same as a policy's definition.
func retryPolicy(typ string, least, most time.Duration) map[string]any {
	definition := map[string]any{"delayed-retry-type": typ, "delayed-retry-min": least.Milliseconds()}
	if most > 0 {
		definition["delayed-retry-max"] = most.Milliseconds()
	}
	return definition
}

// A hold takes the message at the head of queue q, and returns how it comes back.
type hold func(*Bench) (giveBack func())

// comebacks are the ways of a message back to its queue, and whether its delivery has failed then.
var comebacks = map[string]struct {
	failed bool
	hold   hold
}{
	"Reject":          {true, rejects},
	"ChannelClose":    {true, closesChannel},
	"ConnectionCut":   {true, cutsConnection},
	"Nack":            {false, nacks},
	"Recover":         {false, recovers},
	"ConsumerTimeout": {false, timesOutHolding},
}

func rejects(b *Bench) func() {
	held := b.Channel().Hold("q")
	return func() { b.Must(held.Reject(true)) }
}

func nacks(b *Bench) func() {
	held := b.Channel().Hold("q")
	return func() { b.Must(held.Nack(false, true)) }
}

func recovers(b *Bench) func() {
	ch := b.Channel()
	ch.Hold("q")
	return func() { b.Must(ch.Recover(true)) }
}

func closesChannel(b *Bench) func() {
	ch := b.Channel()
	ch.Hold("q")
	return func() { b.Must(ch.Close()) }
}

func cutsConnection(b *Bench) func() {
	r := b.RawChannel()
	r.Send(1, &wire.BasicGet{Queue: "q"})
	Expect[*wire.BasicGetOK](r, 1)
	return func() { b.Must(r.conn.Close()) }
}

func timesOutHolding(b *Bench) func() {
	ch := b.Channel().Prefetch(1)
	cancelled := ch.NotifyCancel(make(chan string, 1))
	Receive(b, ch.Consumer("q", "slow", consumerTimeout(shortTimeout)), "a message to hold")
	return func() { Equal(b, "consumer cancelled", Receive(b, cancelled, "a cancel"), "slow") }
}

// comeBack has message a come back to queue q, where a consumer waits for it.
func comeBack(b *Bench, args amqp091.Table, policy map[string]any, hold hold) (waiting <-chan amqp091.Delivery) {
	b.t.Helper()
	if policy != nil {
		b.SetPolicy("retry", "^q$", 0, policy)
	}
	quorumQueue(b, args).SendAll("q", "a")
	giveBack := hold(b)
	waiting = b.Channel().Deliveries("q")
	giveBack()
	return waiting
}

// wantDelayed waits until queue q has one message which comes later. A consumer waits there, and would have got it else.
func wantDelayed(b *Bench) {
	b.t.Helper()
	ch := b.Channel()
	b.Eventually("a delayed message is in the queue", func() bool {
		n, err := ch.QueuePurge("q", false)
		b.Must(err)
		return n == 1
	})
}

// retriesLater is a case in which a message does not come again for longer than the case takes.
func retriesLater(args amqp091.Table, policy map[string]any, hold hold) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		comeBack(b, args, policy, hold)
		wantDelayed(b)
	}
}

// retriesAtOnce is a case in which a message comes again though the queue's delay is longer than the case takes.
func retriesAtOnce(args amqp091.Table, hold hold) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		b.WantDelivery(comeBack(b, args, nil, hold), "a")
	}
}

// retriesSoon is retriesAtOnce for rejected messages of a queue that may also have a policy, and a short delay.
func retriesSoon(args amqp091.Table, policy map[string]any) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		b.WantDelivery(comeBack(b, args, policy, rejects), "a")
	}
}

func retryAfterDelay(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, retry("all", short, long))
	deliveries := ch.Deliveries("q")
	ch.SendAll("q", "a")
	got := b.WantDelivery(deliveries, "a")
	for failures := 1; failures <= 3; failures++ {
		rejected := time.Now()
		b.Must(got.Reject(true))
		got = b.WantDelivery(deliveries, "a")
		wantReturns(b, got, failures, failures)
		// RabbitMQ counts in milliseconds.
		if took, want := time.Since(rejected), time.Duration(failures)*short-time.Millisecond; took < want {
			b.t.Errorf("failure %d: the message came again after %s, want %s at least", failures, took, want)
		}
	}
}

// Messages behind a delayed one do not wait for it, and its consumer has room for them.
func retryOthersMeanwhile(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, retry("all", long, 0)).Prefetch(1)
	ch.SendAll("q", "a", "b", "c")
	deliveries := ch.Deliveries("q")
	b.Must(b.WantDelivery(deliveries, "a").Reject(true))
	b.Must(b.WantDelivery(deliveries, "b").Nack(false, true))
	b.Must(b.WantDelivery(deliveries, "c").Ack(false))
}

// oneDelayed is a queue in which message a is delayed and others are ready.
func oneDelayed(b *Bench, args amqp091.Table, others ...string) *Channel {
	b.t.Helper()
	ch := quorumQueue(b, args)
	ch.SendAll("q", "a")
	b.Must(ch.Hold("q").Reject(true))
	ch.SendAll("q", others...) // which the queue confirms after it has got the other back
	return ch
}

func retryNotReady(_ *testing.T, b *Bench) {
	ch := oneDelayed(b, retry("all", long, 0), "b", "c")
	ch.WantCount("q", 2)
	Equal(b, "messages left after a get", ch.Hold("q").MessageCount, 1)
	ch.WantBodies("q", "c")
}

func retryFirst(_ *testing.T, b *Bench) {
	oneDelayed(b, retry("all", short, 0), "b", "c")
	b.AwaitCount("q", 3)
	b.WantArrivals("q", "a", "b", "c")
}

func retryFirstBeforePriorities(_ *testing.T, b *Bench) {
	ch := oneDelayed(b, retry("all", short, 0))
	sendPriorities(ch, "q", "9", "31")
	b.AwaitCount("q", 3)
	b.WantArrivals("q", "a", "31", "9")
}

// retriesTogether is a case in which messages a and b come back at the same moment, in this order, and a has come back before. If their delays are the
// same they keep their order.
func retriesTogether(args amqp091.Table, before hold, want ...string) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		ch := quorumQueue(b, args)
		ch.SendAll("q", "a")
		giveBack := before(b)
		consumer := b.Channel()
		deliveries := consumer.Deliveries("q")
		giveBack()
		b.WantDelivery(deliveries, "a")
		ch.SendAll("q", "b")
		b.WantDelivery(deliveries, "b")
		b.Must(consumer.Close())
		b.WantArrivals("q", want...)
	}
}

// A message that has used up its deliveries does not wait for its end.
func retryDeliveryLimit(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.DeadLettering(with(deliveryLimit(1), retry("all", short, 0)))
	ch.SendAll(source, "a")
	exhaust(b, ch.Deliveries(source), "a", 1)
	b.WantDeaths(b.Arrival(dead), death{1, "delivery_limit", source, "", []string{source}, ""})

	ch = quorumQueue(b, with(with(deliveryLimit(0), deadTo(dead)), retry("all", long, 0)))
	ch.SendAll("q", "b")
	b.Must(ch.Hold("q").Reject(true))
	b.WantArrivals(dead, "b")
}

func retryDoesNotExpire(_ *testing.T, b *Bench) {
	b.Channel().Queue(dead, nil)
	ch := quorumQueue(b, with(with(ttl(short), deadTo(dead)), retry("all", long, 0)))
	deliveries := ch.Prefetch(1).Consumer("q", "one", nil)
	ch.SendAll("q", "a")
	held := b.WantDelivery(deliveries, "a")
	b.Must(ch.Cancel("one", false))
	b.Must(held.Reject(true))
	ch.SendAll("q", "expires later")
	b.WantArrivals(dead, "expires later")
	wantDelayed(b)
}

// Nobody gets a message whose time was over before its delay.
func retryExpiresAfterwards(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.DeadLettering(quorum(with(ttl(short), retry("all", 2*short, 0))))
	deliveries := ch.Deliveries(source)
	ch.SendAll(source, "a")
	b.Must(b.WantDelivery(deliveries, "a").Reject(true))
	b.WantDeaths(b.Arrival(dead), death{1, "expired", source, "", []string{source}, ""})
}

// A delayed message takes up room: the one that is ready has to leave.
func retryCountsForLength(_ *testing.T, b *Bench) {
	b.Channel().Queue(dead, nil)
	ch := quorumQueue(b, with(with(maxLength(1), deadTo(dead)), retry("all", long, 0)))
	ch.SendAll("q", "a")
	held := ch.Hold("q")
	ch.SendAll("q", "b")
	b.Must(held.Reject(true))
	b.WantDeaths(b.Arrival(dead), death{1, "maxlen", "q", "", []string{"q"}, ""})
	wantDelayed(b)
}

func retryCountsForRefusal(_ *testing.T, b *Bench) {
	ch := oneDelayed(b, with(refusing(1), retry("all", long, 0)), "one too many")
	ch.WantNack("", "q", "refused")
	ch.WantCount("q", 1)
}

func retryPurged(_ *testing.T, b *Bench) {
	ch := oneDelayed(b, retry("all", short, 0), "b")
	purged, err := ch.QueuePurge("q", false)
	b.Must(err)
	Equal(b, "purged", purged, 2)
	// It does not come after its delay either.
	ch.SendAll("q", "c")
	b.Must(ch.Hold("q").Reject(true))
	b.WantArrivals("q", "c")
	b.AwaitCount("q", 0)
}

// The answer has what was ready.
func retryDeleted(_ *testing.T, b *Bench) {
	ch := oneDelayed(b, retry("all", long, 0), "b")
	deleted, err := ch.QueueDelete("q", false, false, false)
	b.Must(err)
	Equal(b, "messages deleted", deleted, 1)
}

// A policy that ends leaves the delay of those that have come back before.
func retryPolicyRemoved(_ *testing.T, b *Bench) {
	b.SetPolicy("retry", "^q$", 0, retryPolicy("all", long, 0))
	ch := oneDelayed(b, nil, "b")
	b.Target.DeletePolicy(b.t, b.Name, "retry")
	deliveries := ch.Deliveries("q")
	b.Must(b.WantDelivery(deliveries, "b").Reject(true))
	b.WantDelivery(deliveries, "b")
	wantDelayed(b)
}

func retryClassicQueue(_ *testing.T, b *Bench) {
	for key, value := range retry("all", long, long) {
		_, err := b.Channel().QueueDeclare("q", true, false, false, false, amqp091.Table{key: value})
		if !b.Since(release43) {
			b.Must(err)
			continue
		}
		b.Refused(err, 406, fmt.Sprintf("PRECONDITION_FAILED - invalid arg '%s' for queue 'q' in vhost '{vhost}' of queue type rabbit_classic_queue", key))
	}
}

// Releases that do not know the arguments accept them.
func retryAcceptedBefore(_ *testing.T, b *Bench) {
	b.WantDelivery(comeBack(b, retry("all", long, long), nil, rejects), "a")
}

package amqp

import (
	"fmt"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

const timeoutPage = "Quorum Queues: Consumer Timeouts"

// Until 4.2 a channel looks only once a minute at what its client holds, which is too long for a case.
func timeoutCases() []part {
	return []part{
		{since(release43), timingOutCases()},
		{releases{}, []Case{{"Accepted", timeoutPage, timeoutAccepted}}},
	}
}

func timingOutCases() []Case {
	return []Case{
		{"OfConsumer", timeoutPage, timesOut(nil, consumerTimeout(shortTimeout), nil)},
		{"OfQueue", timeoutPage, timesOut(consumerTimeout(shortTimeout), nil, nil)},
		{"OfPolicy", timeoutPage, timesOut(nil, nil, map[string]any{"consumer-timeout": shortTimeout.Milliseconds()})},
		{"OfQueueBelowPolicy", timeoutPage, timesOut(consumerTimeout(shortTimeout), nil, map[string]any{"consumer-timeout": time.Hour.Milliseconds()})},
		{"OfPolicyBelowQueue", timeoutPage, timesOut(consumerTimeout(time.Hour), nil, map[string]any{"consumer-timeout": shortTimeout.Milliseconds()})},
		{"OfConsumerBeforeQueue", timeoutPage, timesOut(consumerTimeout(time.Hour), consumerTimeout(shortTimeout), nil)},
		{"OfGet", timeoutPage, timesOutAfterGet},
		{"AfterCancel", timeoutPage, timesOutAfterCancel},
		{"KeepsWhatIsNotDue", timeoutPage, timeoutKeepsOthers},
		{"SingleActiveConsumer", timeoutPage, timeoutOfSingleActive},
		{"ClosedAfterwards", timeoutPage, timeoutThenClosed},
	}
}

const shortTimeout = time.Second

func consumerTimeout(d time.Duration) amqp091.Table {
	return amqp091.Table{"x-consumer-timeout": d.Milliseconds()}
}

// overdue consumes from queue q under the tag "slow", and returns with the messages that this consumer had when the broker cancelled it.
func overdue(b *Bench, args amqp091.Table, bodies ...string) (*Channel, []amqp091.Delivery) {
	ch := b.Channel()
	cancelled := ch.NotifyCancel(make(chan string, 1))
	held := b.WantDeliveries(ch.Consumer("q", "slow", args), bodies...)
	Equal(b, "consumer cancelled", Receive(b, cancelled, "a cancel"), "slow")
	return ch, held
}

func timesOut(queue, consumer amqp091.Table, policy map[string]any) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		if policy != nil {
			b.SetPolicy("timeout", "^q$", 0, policy)
		}
		quorumQueue(b, queue).SendAll("q", "a", "b")
		ch, held := overdue(b, consumer, "a", "b")
		for _, got := range b.WantArrivals("q", "a", "b") {
			b.WantRedelivered(got, true)
			wantReturns(b, got, 1, 0)
		}
		// The answers come too late, and mean nothing.
		b.Must(held[1].Ack(false))
		b.Must(held[0].Nack(false, true))
		ch.Sync()
		b.AwaitCount("q", 0)
	}
}

func timesOutAfterGet(_ *testing.T, b *Bench) {
	quorumQueue(b, consumerTimeout(shortTimeout)).SendAll("q", "a")
	ch := b.Channel()
	ch.Hold("q")
	ch.wantTimedOut()
	b.WantArrivals("q", "a")
}

// wantTimedOut waits for the end of a channel whose client cannot be notified of a timeout by the end of a consumer.
func (ch *Channel) wantTimedOut() {
	ch.b.t.Helper()
	ch.WantClosed(406, "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: -1 ms. "+
		"This timeout value can be configured, see consumers doc guide to learn more")
}

// A consumer that has ended still holds what it has not answered.
func timesOutAfterCancel(_ *testing.T, b *Bench) {
	quorumQueue(b, nil).SendAll("q", "a")
	ch := b.Channel()
	b.WantDelivery(ch.Consumer("q", "slow", consumerTimeout(shortTimeout)), "a")
	b.Must(ch.Cancel("slow", false))
	ch.wantTimedOut()
	b.WantArrivals("q", "a")
}

// Two consumers of one channel have timeouts of their own.
func timeoutKeepsOthers(_ *testing.T, b *Bench) {
	quorumQueue(b, nil).SendAll("q", "a", "b")
	ch := b.Channel().Prefetch(1)
	cancelled := ch.NotifyCancel(make(chan string, 2))
	slow := b.WantDelivery(ch.Consumer("q", "slow", consumerTimeout(shortTimeout)), "a")
	others := ch.Consumer("q", "other", consumerTimeout(time.Hour))
	other := b.WantDelivery(others, "b")
	Equal(b, "consumer cancelled", Receive(b, cancelled, "a cancel"), "slow")
	b.Must(other.Ack(false))
	b.Must(b.WantDelivery(others, "a").Ack(false))
	b.Must(slow.Ack(false))
	ch.Sync()
	b.AwaitCount("q", 0)
}

// Only what is due returns, and the next consumer is active at once: it gets later messages before those that the first one
// still has.
func timeoutOfSingleActive(_ *testing.T, b *Bench) {
	// A machine that stands still for a second lets both messages become due together.
	const tries = 5
	for n := range tries {
		if b.timeoutOfTheFirst(fmt.Sprint("q", n)) {
			return
		}
	}
	b.t.Errorf("in %d tries, messages returned together although one of them was not due", tries)
}

// timeoutOfTheFirst has one of two messages of a single active consumer become due. False: both were, or the first one before the second
// was there.
func (b *Bench) timeoutOfTheFirst(queue string) bool {
	b.t.Helper()
	const timeout = 2 * shortTimeout
	publisher := b.Channel().Confirming()
	publisher.Queue(queue, quorum(amqp091.Table{"x-single-active-consumer": true}))
	ch := b.Channel()
	cancelled := ch.NotifyCancel(make(chan string, 1))
	slow := ch.Consumer(queue, "slow", consumerTimeout(timeout))
	next := b.Channel().Consumer(queue, "next", nil)
	publisher.SendAll(queue, "a")
	first := b.WantDelivery(slow, "a")
	<-time.After(timeout / 2)
	publisher.SendAll(queue, "b")
	Equal(b, "consumer cancelled", Receive(b, cancelled, "a cancel"), "slow")
	b.WantRedelivered(b.WantDelivery(next, "a"), true)
	publisher.SendAll(queue, "c")
	got := Receive(b, next, "a message")
	if string(got.Body) != "c" {
		return false
	}
	b.WantDelivery(slow, "b")
	b.WantRedelivered(b.WantDelivery(next, "b"), true)
	b.Must(first.Ack(false)) // too late
	ch.Sync()
	return true
}

// What was given back is not given back once more when the channel ends.
func timeoutThenClosed(_ *testing.T, b *Bench) {
	quorumQueue(b, nil).SendAll("q", "a")
	ch, _ := overdue(b, consumerTimeout(shortTimeout), "a")
	b.WantArrivals("q", "a")
	b.Must(ch.Close())
	b.AwaitCount("q", 0)
}

// Releases that do not know the argument of a consumer accept it, too.
func timeoutAccepted(_ *testing.T, b *Bench) {
	quorumQueue(b, nil).SendAll("q", "a")
	b.Must(b.WantDelivery(b.Channel().Consumer("q", "", consumerTimeout(time.Hour)), "a").Ack(false))
}

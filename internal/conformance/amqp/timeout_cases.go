package amqp

import (
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

const timeoutPage = "Quorum Queues: Consumer Timeouts"

// Until 4.2 a channel looks only once a minute at what its client holds, which is too long for a case.
func timeoutCases() []Case {
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
		{"AcceptedBefore", timeoutPage, timeoutAccepted},
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
		if !b.Since(release43) {
			return
		}
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
	if !b.Since(release43) {
		return
	}
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
	if !b.Since(release43) {
		return
	}
	quorumQueue(b, nil).SendAll("q", "a")
	ch := b.Channel()
	b.WantDelivery(ch.Consumer("q", "slow", consumerTimeout(shortTimeout)), "a")
	b.Must(ch.Cancel("slow", false))
	ch.wantTimedOut()
	b.WantArrivals("q", "a")
}

// Two consumers of one channel have timeouts of their own.
func timeoutKeepsOthers(_ *testing.T, b *Bench) {
	if !b.Since(release43) {
		return
	}
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

func timeoutOfSingleActive(_ *testing.T, b *Bench) {
	if !b.Since(release43) {
		return
	}
	quorumQueue(b, amqp091.Table{"x-single-active-consumer": true}).SendAll("q", "a")
	ch := b.Channel()
	cancelled := ch.NotifyCancel(make(chan string, 1))
	slow := ch.Consumer("q", "slow", consumerTimeout(shortTimeout))
	next := b.Channel().Consumer("q", "next", nil)
	held := b.WantDelivery(slow, "a")
	Equal(b, "consumer cancelled", Receive(b, cancelled, "a cancel"), "slow")
	b.Must(b.WantDelivery(next, "a").Ack(false))
	b.Must(held.Ack(false))
	ch.Sync()
	b.AwaitCount("q", 0)
}

// What was given back is not given back once more when the channel ends.
func timeoutThenClosed(_ *testing.T, b *Bench) {
	if !b.Since(release43) {
		return
	}
	quorumQueue(b, nil).SendAll("q", "a")
	ch, _ := overdue(b, consumerTimeout(shortTimeout), "a")
	b.WantArrivals("q", "a")
	b.Must(ch.Close())
	b.AwaitCount("q", 0)
}

// Releases that do not know the argument of a consumer accept it.
func timeoutAccepted(_ *testing.T, b *Bench) {
	quorumQueue(b, nil).SendAll("q", "a")
	b.Must(b.WantDelivery(b.Channel().Consumer("q", "", consumerTimeout(time.Hour)), "a").Ack(false))
}

package amqp

import (
	"strings"
	"testing"
)

const singleActivePage = "Consumers: Single Active Consumer"

// A single active consumer keeps the order of a queue, as long as whoever takes over gets what the last one has not
// acked before everything else.
func singleActiveCases() []Case {
	var cases []Case
	for _, c := range []struct {
		name string
		run  func(*singleActiveBench)
	}{
		{"TakeoverInOrder", takeoverInOrder}, {"TakeoverWithGaps", takeoverWithGaps}, {"TakeoverAfterLostConnection", takeoverAfterCut},
		{"TakeoverByTheOldest", takeoverByOldest}, {"TakeoverByPriority", takeoverByPriority}, {"TakeoverByPrefetch", takeoverByPrefetch},
		{"TakeoverWithoutPrefetch", takeoverWithoutPrefetch}, {"SmallerPrefetch", smallerPrefetch}, {"Requeue", requeued},
		{"CancelLetsStandbyIn", cancelLetsStandbyIn}, {"CountOfConsumers", countOfSingleActive},
	} {
		for _, isQuorum := range []bool{false, true} {
			name, args := c.name, singleActive()
			if isQuorum {
				name, args = name+"InQuorumQueue", quorum(args)
			}
			cases = append(cases, Case{name, singleActivePage, func(_ *testing.T, b *Bench) {
				b.Channel().Queue("q", args)
				c.run(&singleActiveBench{b, isQuorum})
			}})
		}
	}
	return cases
}

// singleActiveBench has a queue q with a single active consumer.
type singleActiveBench struct {
	*Bench
	quorum bool
}

// open opens a channel with a connection of its own, which limits the unacked messages of its consumers. 0: it does not.
func (b *singleActiveBench) open(prefetch int) *Channel {
	return b.Connect().Channel().Confirming().Prefetch(prefetch)
}

// modern reports whether the queue is a quorum queue of RabbitMQ 4.0 or later.
func (b *singleActiveBench) modern() bool { return b.quorum && b.Since(release40) }

// letters are the bodies a, b, c and so on.
func letters(n int) []string { return strings.Split("abcdefghijklmnop"[:n], "") }

func takeoverInOrder(b *singleActiveBench) {
	first, second := b.open(4), b.open(4)
	fromFirst, fromSecond := first.Deliveries("q"), second.Deliveries("q")
	first.SendAll("q", letters(8)...)
	b.WantDeliveries(fromFirst, "a", "b", "c", "d")
	b.Must(first.Close())
	got := b.WantDeliveries(fromSecond, "a", "b", "c", "d")
	b.Must(got[3].Ack(true))
	b.WantDeliveries(fromSecond, "e", "f", "g", "h")
}

func takeoverWithGaps(b *singleActiveBench) {
	first, second := b.open(4), b.open(4)
	fromFirst, fromSecond := first.Deliveries("q"), second.Deliveries("q")
	first.SendAll("q", letters(8)...)
	got := b.WantDeliveries(fromFirst, "a", "b", "c", "d")
	b.Must(got[1].Ack(false))
	b.Must(got[2].Ack(false))
	b.WantDeliveries(fromFirst, "e", "f")
	b.Must(first.Close())
	b.WantDeliveries(fromSecond, "a", "d", "e", "f")
}

func takeoverAfterCut(b *singleActiveBench) {
	conn := b.Connect()
	first, second := conn.Channel().Confirming().Prefetch(4), b.open(4)
	fromFirst, fromSecond := first.Deliveries("q"), second.Deliveries("q")
	first.SendAll("q", letters(8)...)
	b.WantDeliveries(fromFirst, "a", "b", "c", "d")
	b.Must(conn.Close())
	b.WantDeliveries(fromSecond, "a", "b", "c", "d")
}

func takeoverByOldest(b *singleActiveBench) {
	first, second, third := b.open(1), b.open(1), b.open(1)
	fromFirst, fromSecond, fromThird := first.Deliveries("q"), second.Deliveries("q"), third.Deliveries("q")
	first.SendAll("q", "a", "b")
	b.WantDelivery(fromFirst, "a")
	b.Must(first.Close())
	b.WantDelivery(fromSecond, "a")
	b.Must(second.Close())
	b.WantDelivery(fromThird, "a")
}

// takesOver has the first consumer end while two others wait, and checks which of them takes over.
func (b *singleActiveBench) takesOver(first, second, third *Channel, secondPriority, thirdPriority int32, byThird bool) {
	fromFirst := first.Consumer("q", "", priority(20))
	fromSecond := second.Consumer("q", "", priority(secondPriority))
	fromThird := third.Consumer("q", "", priority(thirdPriority))
	first.SendAll("q", "a")
	b.WantDelivery(fromFirst, "a")
	b.Must(first.Close())
	next := fromSecond
	if byThird {
		next = fromThird
	}
	b.WantDelivery(next, "a")
}

func takeoverByPriority(b *singleActiveBench) {
	b.takesOver(b.open(1), b.open(4), b.open(1), 0, 10, !b.quorum || b.modern())
}

func takeoverByPrefetch(b *singleActiveBench) {
	b.takesOver(b.open(1), b.open(2), b.open(6), 0, 0, b.modern())
}

func takeoverWithoutPrefetch(b *singleActiveBench) {
	b.takesOver(b.open(1), b.open(4), b.open(0), 0, 0, b.modern())
}

// What a quorum queue gets back goes behind what came back before, so two ends with different prefetches change the
// order. A classic queue puts it where it was.
func smallerPrefetch(b *singleActiveBench) {
	first := b.open(6)
	fromFirst := first.Deliveries("q")
	first.SendAll("q", letters(6)...)
	b.WantDeliveries(fromFirst, letters(6)...)
	b.Must(first.Close())
	second := b.open(2)
	b.WantDeliveries(second.Deliveries("q"), "a", "b")
	b.Must(second.Close())
	want := letters(6)
	if b.quorum {
		want = []string{"c", "d", "e", "f", "a", "b"}
	}
	b.WantDeliveries(b.open(6).Deliveries("q"), want...)
}

func requeued(b *singleActiveBench) {
	first, second := b.open(3), b.open(3)
	fromFirst, fromSecond := first.Deliveries("q"), second.Deliveries("q")
	first.SendAll("q", "a", "b", "c")
	got := b.WantDeliveries(fromFirst, "a", "b", "c")
	b.Must(got[0].Nack(false, true))
	b.WantDelivery(fromFirst, "a")
	b.Must(first.Close())
	want := letters(3)
	if b.quorum {
		want = []string{"b", "c", "a"}
	}
	b.WantDeliveries(fromSecond, want...)
}

// A consumer that is cancelled with unacked messages lets the next one in, which gets later messages first. A classic
// queue of RabbitMQ 3.10 delivers nothing to it until messages return, and keeps the order.
func cancelLetsStandbyIn(b *singleActiveBench) {
	first, second := b.open(4), b.open(4)
	fromFirst, fromSecond := first.Consumer("q", "first", nil), second.Deliveries("q")
	first.SendAll("q", letters(8)...)
	held := b.WantDeliveries(fromFirst, "a", "b", "c", "d")
	b.Must(first.Cancel("first", false))
	if !b.quorum && !b.Since(release40) {
		second.WantCount("q", 4)
		b.Must(held[3].Nack(true, true))
		b.Must(b.WantDeliveries(fromSecond, "a", "b", "c", "d")[3].Ack(true))
		b.WantDeliveries(fromSecond, "e", "f", "g", "h")
		return
	}
	got := b.WantDeliveries(fromSecond, "e", "f", "g", "h")
	b.Must(held[3].Nack(true, true))
	b.Must(got[3].Ack(true))
	b.WantDeliveries(fromSecond, "a", "b", "c", "d")
}

// Who declares a quorum queue gets a count without those that wait.
func countOfSingleActive(b *singleActiveBench) {
	for range 3 {
		b.open(1).Deliveries("q")
	}
	want := 3
	if b.quorum {
		want = 1
	}
	q, err := b.Channel().QueueDeclarePassive("q", true, false, false, false, nil)
	b.Must(err)
	Equal(b.Bench, "consumers", q.Consumers, want)
}

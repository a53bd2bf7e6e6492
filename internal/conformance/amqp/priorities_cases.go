package amqp

import (
	"fmt"
	"testing"

	"github.com/rabbitmq/amqp091-go"
)

const priorityPage = "Priority Queues"

func prioritiesCases() []Case {
	return []Case{
		{"HighestFirst", priorityPage, priorityHighestFirst},
		{"SameKeepsOrder", priorityPage, prioritySameKeepsOrder},
		{"NoneIsZero", priorityPage + ": Behaviour", priorityNoneIsZero},
		{"AboveMaximum", priorityPage + ": Behaviour", priorityAboveMaximum},
		{"Delivered", priorityPage + ": Interaction with Consumers", priorityDelivered},
		{"RequeuedToItsPlace", priorityPage, priorityRequeued},
		{"OvertakesRequeued", priorityPage, priorityOvertakesRequeued},
		{"LengthLimitDropsHighest", priorityPage + ": Interaction with Other Features", priorityLengthLimit},
		{"ExpiredBehindHigher", priorityPage + ": Interaction with Other Features", priorityExpired},
		{"KeptWhenDead", priorityPage, priorityKeptWhenDead},
		{"MaximumZero", priorityPage, priorityMaximumZero},
		{"MaximumOutOfRange", priorityPage + ": Priority Range", priorityMaximumOutOfRange},
		{"RedeclaredWithout", priorityPage, priorityRedeclaredWithout},
		{"Quorum", "Quorum Queues: Priorities", priorityQuorum},
		{"QuorumNoneIsFour", "Quorum Queues: Priorities", priorityQuorumNone},
		{"QuorumReturnedFirst", "Quorum Queues: Priorities", priorityQuorumReturned},
	}
}

// sendPriorities sends texts to a queue, each with the priority that it begins with.
func sendPriorities(ch *Channel, queue string, bodies ...string) {
	ch.b.t.Helper()
	for _, body := range bodies {
		var p uint8
		if _, err := fmt.Sscan(body, &p); err != nil {
			ch.b.t.Fatalf("message %q does not start with its priority", body)
		}
		ch.SendMessage("", queue, amqp091.Publishing{Priority: p, Body: []byte(body)})
	}
}

func priorityHighestFirst(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", maxPriority(10))
	sendPriorities(ch, "q", "1", "5", "3", "10", "2")
	ch.WantBodies("q", "10", "5", "3", "2", "1")
}

func prioritySameKeepsOrder(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", maxPriority(10))
	sendPriorities(ch, "q", "1 a", "2 a", "1 b", "2 b", "1 c", "2 c")
	ch.WantBodies("q", "2 a", "2 b", "2 c", "1 a", "1 b", "1 c")
}

func priorityNoneIsZero(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", maxPriority(10))
	ch.SendAll("q", "none")
	sendPriorities(ch, "q", "1")
	ch.WantBodies("q", "1", "none")
}

func priorityAboveMaximum(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", maxPriority(5))
	sendPriorities(ch, "q", "4", "5", "255", "6")
	ch.WantBodies("q", "5", "255", "6", "4")
	sendPriorities(ch, "q", "255")
	Equal(b, "priority property", ch.Take("q").Priority, 255)
}

func priorityDelivered(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(1).Confirming()
	ch.Queue("q", maxPriority(10))
	sendPriorities(ch, "q", "1", "2")
	deliveries := ch.Deliveries("q")
	first := b.WantDelivery(deliveries, "2")
	sendPriorities(ch, "q", "3")
	b.Must(first.Ack(false))
	b.Must(b.WantDelivery(deliveries, "3").Ack(false))
	b.WantDelivery(deliveries, "1")
}

func priorityRequeued(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", maxPriority(10))
	sendPriorities(ch, "q", "1 a", "2 a", "2 b", "1 b")
	held := ch.HoldAll("q", "2 a", "2 b", "1 a")
	b.Must(held[2].Nack(false, true))
	b.Must(held[1].Nack(false, true))
	b.Must(held[0].Nack(false, true))
	ch.WantBodies("q", "2 a", "2 b", "1 a", "1 b")
}

func priorityOvertakesRequeued(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", maxPriority(10))
	sendPriorities(ch, "q", "1")
	held := ch.Hold("q")
	sendPriorities(ch, "q", "2")
	b.Must(held.Nack(false, true))
	ch.WantBodies("q", "2", "1")
}

func priorityLengthLimit(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", with(maxPriority(10), maxLength(2)))
	sendPriorities(ch, "q", "9", "1", "2")
	ch.WantBodies("q", "2", "1")
}

func priorityExpired(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.DeadLettering(maxPriority(10))
	ch.Queue("clock", amqp091.Table{"x-dead-letter-exchange": "dlx"})
	sendPriorities(ch, source, "9")
	ch.SendMessage("", source, mortal("low", short))
	ch.SendMessage("", "clock", mortal("clock", 2*short))
	b.WantArrivals(dead, "clock")
	ch.HoldAll(source, "9")
	b.WantArrivals(dead, "low")
}

func priorityKeptWhenDead(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue(dead, maxPriority(10))
	ch.Queue(source, deadTo(dead))
	sendPriorities(ch, source, "1", "2")
	held := ch.HoldAll(source, "1", "2")
	b.Must(held[1].Nack(true, false))
	b.AwaitCount(dead, 2)
	ch.WantBodies(dead, "2", "1")
}

func priorityMaximumZero(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", maxPriority(0))
	sendPriorities(ch, "q", "1", "9", "5")
	ch.WantBodies("q", "1", "9", "5")
}

func priorityMaximumOutOfRange(_ *testing.T, b *Bench) {
	conn := b.Connect()
	for maximum, reason := range map[any]string{
		int32(256): "{max_value_exceeded,256}",
		int32(-1):  "{value_negative,-1}",
		"high":     `"expected integer, got longstr"`,
	} {
		_, err := conn.Channel().QueueDeclare("q", true, false, false, false, amqp091.Table{"x-max-priority": maximum})
		b.Refused(err, 406, "PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue 'q' in vhost '{vhost}': "+reason)
	}
}

func priorityRedeclaredWithout(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", maxPriority(10))
	_, err := ch.QueueDeclare("q", true, false, false, false, nil)
	b.Refused(err, 406, "PRECONDITION_FAILED - inequivalent arg 'x-max-priority' for queue 'q' in vhost '{vhost}': "+
		"received none but current is the value '10' of type 'signedint'")
}

// Quorum queues have no priorities before 4.0, two levels until 4.2, of which the higher is served twice for each time that the lower is, and from
// 4.3 on those up to 31, strictly.
func priorityQuorum(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	sendPriorities(ch, "q", "1 a", "4 b", "5 c", "9 d", "31 e", "200 f", "2 g", "9 h", "5 i")
	before := []string{"1 a", "4 b", "5 c", "9 d", "31 e", "200 f", "2 g", "9 h", "5 i"}
	two := []string{"5 c", "9 d", "1 a", "31 e", "200 f", "4 b", "9 h", "5 i", "2 g"}
	strict := []string{"31 e", "200 f", "9 d", "9 h", "5 c", "5 i", "4 b", "2 g", "1 a"}
	ch.WantBodies("q", either(b, release43, strict, either(b, release40, two, before))...)
}

// A message without a priority has the priority 4.
func priorityQuorumNone(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, nil)
	ch.SendAll("q", "none")
	sendPriorities(ch, "q", "3", "4", "5")
	ch.SendAll("q", "none again")
	before := []string{"none", "3", "4", "5", "none again"}
	two := []string{"5", "none", "3", "4", "none again"}
	strict := []string{"5", "none", "4", "none again", "3"}
	ch.WantBodies("q", either(b, release43, strict, either(b, release40, two, before))...)
}

// What comes back is first, whatever its priority.
func priorityQuorumReturned(_ *testing.T, b *Bench) {
	ch := quorumQueue(b, deliveryLimit(5))
	sendPriorities(ch, "q", "1")
	held := ch.Hold("q")
	sendPriorities(ch, "q", "9")
	b.Must(held.Nack(false, true))
	b.AwaitCount("q", 2)
	ch.WantBodies("q", "1", "9")
}

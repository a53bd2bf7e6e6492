package layouts

import (
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/rehop/rehop/topology"
)

// slots is how many slots the keys of ordered messages are divided into. A partition has one or more of them, and so the
// publishers need not know how many partitions there are.
const slots = 64

// MaxPartitions is how many partitions a queue can have.
const MaxPartitions = slots

// Slot is the slot of an order key, the value of SlotHeader. It is a text, because clients of other languages write
// numbers in different types, which the broker does not regard as equal.
func Slot(key string) string {
	hash := fnv.New32a()
	hash.Write([]byte(key))
	return strconv.Itoa(int(hash.Sum32() % slots))
}

const (
	splitSuffix = ".split"
	restSuffix  = ".rest"
)

// SplitExchange routes messages by their slots to the partitions of a queue.
func SplitExchange(queue string) string { return queue + splitSuffix }

// restExchange routes messages without a slot to the first partition.
func restExchange(queue string) string { return queue + splitSuffix + restSuffix }

// MaxPartitioned is the longest name of a queue with partitions: other names are made of it.
const MaxPartitioned = maxName - len(splitSuffix+".00"+failedSuffix+landingSuffix)

// PartitionQueue is the queue of a partition. The first one is the queue itself, so that messages can be published to it
// by its name.
func PartitionQueue(queue string, n int) string {
	if n == 0 {
		return queue
	}
	return fmt.Sprintf("%s%s.%02d", queue, splitSuffix, n)
}

// Partitioned returns the queue that a queue is a partition of, or the queue itself.
func Partitioned(queue string) string {
	const tail = len(splitSuffix + ".00")
	if at := len(queue) - tail; at > 0 && queue[at:at+len(splitSuffix)+1] == splitSuffix+"." && isDigit(queue[at+tail-2]) && isDigit(queue[at+tail-1]) {
		return queue[:at]
	}
	return queue
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// parts are the queues that a subscription consumes: the queue, or its partitions, which messages reach through Split.
func (q QueueSpec) parts() []QueueSpec {
	if q.Partitions < 2 {
		return []QueueSpec{q}
	}
	parts := make([]QueueSpec, q.Partitions)
	for n := range parts {
		parts[n] = q
		parts[n].Name, parts[n].Exchange, parts[n].Keys = PartitionQueue(q.Name, n), "", nil
	}
	return parts
}

// split is what spreads messages over partitions: an exchange to which everything leads that a queue would be bound to.
func (n Native) split(q QueueSpec) topology.Plan {
	fed, split, rest := n.Subscription(q), SplitExchange(q.Name), restExchange(q.Name)
	plan := topology.Plan{
		Exchanges: append(fed.Exchanges,
			topology.Exchange{Name: rest, Type: "fanout"},
			topology.Exchange{Name: split, Type: "headers", Args: topology.Args{"alternate-exchange": rest}}),
		Bindings: []topology.Binding{{Source: rest, Destination: q.Name}},
	}
	for slot := range slots {
		plan.Bindings = append(plan.Bindings, byHeader(split, PartitionQueue(q.Name, slot%q.Partitions), SlotHeader, strconv.Itoa(slot)))
	}
	for _, b := range fed.Bindings {
		b.Destination = split
		plan.Bindings = append(plan.Bindings, toExchange(b))
	}
	return plan
}

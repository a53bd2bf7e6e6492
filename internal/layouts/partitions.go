package layouts

import (
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/rehop/rehop/topology"
)

// fan is how many values each of the slot headers has. The broker compares the header of a message with those of all bindings of an
// exchange, one after the other: with 64 bindings, publishing has a quarter of the rate. So there are two headers, and two
// steps if there are more than fan partitions.
const fan = 8

// MaxPartitions is how many partitions a queue can have.
const MaxPartitions = fan * fan

// Slots are the slots of an order key, the values of SlotHeader and SecondSlotHeader. So publishers need not know how many
// partitions there are. They are texts, because clients of other languages write numbers in different types, which the broker does
// not regard as equal.
func Slots(key string) (first, second string) {
	hash := fnv.New32a()
	hash.Write([]byte(key))
	n := int(hash.Sum32() % MaxPartitions)
	return strconv.Itoa(n % fan), strconv.Itoa(n / fan)
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
	for first := range fan {
		if q.Partitions <= fan {
			plan.Bindings = append(plan.Bindings, byHeader(split, PartitionQueue(q.Name, first%q.Partitions), SlotHeader, strconv.Itoa(first)))
			continue
		}
		step := fmt.Sprint(split, ".by", first)
		plan.Exchanges = append(plan.Exchanges, topology.Exchange{Name: step, Type: "headers", Args: topology.Args{"alternate-exchange": rest}})
		plan.Bindings = append(plan.Bindings, toExchange(byHeader(split, step, SlotHeader, strconv.Itoa(first))))
		for second := range fan {
			to := first + fan*(second%(q.Partitions/fan))
			plan.Bindings = append(plan.Bindings, byHeader(step, PartitionQueue(q.Name, to), SecondSlotHeader, strconv.Itoa(second)))
		}
	}
	for _, b := range fed.Bindings {
		b.Destination = split
		plan.Bindings = append(plan.Bindings, toExchange(b))
	}
	return plan
}

// PartitionsOf is how many partitions the queue that was declared with these arguments has; 1 unless it has partitions.
func PartitionsOf(args topology.Args) int {
	limit, _ := strconv.ParseFloat(fmt.Sprint(args["x-delivery-limit"]), 64) // live ones have other types
	if n := int(limit) - noDeliveryLimit; n > 1 && n <= MaxPartitions {
		return n
	}
	return 1
}

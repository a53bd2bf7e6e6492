package layouts

import (
	"fmt"
	"testing"

	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

func TestPartitionNames(t *testing.T) {
	for name, want := range map[string]string{"orders": "orders", "orders.split.07": "orders", "orders.split.7": "orders.split.7",
		"orders.split.0x": "orders.split.0x", ".split.01": ".split.01", "": "", "a.split.01.failed": "a.split.01.failed"} {
		if got := Partitioned(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	for n := range MaxPartitions {
		if got := Partitioned(PartitionQueue("orders", n)); got != "orders" {
			t.Errorf("partition %d is one of %q", n, got)
		}
	}
	if got := FailedQueue("orders.split.63"); got != "orders.failed" {
		t.Errorf("the failed queue of a partition is %q", got)
	}
}

// Each slot leads to exactly one partition, and each partition has as many.
func TestSplit(t *testing.T) {
	for partitions := 2; partitions <= MaxPartitions; partitions *= 2 {
		spec := QueueSpec{Name: "q", Type: layout.Quorum, Ordered: true, Partitions: partitions}
		plan := Native{}.split(spec)
		slots := make(map[string]int)
		for key := range 20_000 {
			first, second := Slots(fmt.Sprint("key ", key))
			to := follow(plan, SplitExchange("q"), map[string]string{SlotHeader: first, SecondSlotHeader: second})
			if len(to) != 1 {
				t.Fatalf("%d partitions: the slots %s and %s lead to %v", partitions, first, second, to)
			}
			slots[to[0]]++
		}
		if len(slots) != partitions {
			t.Errorf("%d partitions: messages are in %d", partitions, len(slots))
		}
		for queue, n := range slots {
			if mean := 20_000 / partitions; n < mean/2 || n > 2*mean {
				t.Errorf("%d partitions: %s has %d messages, want about %d", partitions, queue, n, mean)
			}
		}
		if got := PartitionsOf(Native{}.Queue(spec).Args); got != partitions {
			t.Errorf("the arguments are those of %d partitions, want %d", got, partitions)
		}
	}
}

// follow returns the queues that a message reaches from an exchange, by its headers.
func follow(plan topology.Plan, exchange string, headers map[string]string) (queues []string) {
	for _, b := range plan.Bindings {
		matches := b.Source == exchange
		for name, value := range b.Args {
			matches = matches && (name == "x-match" || headers[name] == value)
		}
		switch {
		case !matches:
		case b.ToExchange:
			queues = append(queues, follow(plan, b.Destination, headers)...)
		default:
			queues = append(queues, b.Destination)
		}
	}
	return queues
}

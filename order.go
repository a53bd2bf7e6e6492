package rehop

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rehop/rehop/internal/consume"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// OrderKeyHeader is the header in which [Message.OrderKey] is sent. Publishers without rehop set it, too, and for
// [Subscriber.Partitions] the headers order-slot and order-slot-2: see docs/ordering.md.
const OrderKeyHeader = "order-key"

// OrderKey is for [Subscriber.OrderBy]: it returns [Message.OrderKey]. With the outbox, messages are then handled in the order in
// which their transactions committed.
func OrderKey(d *Delivery) string { return d.OrderKey }

// orderKey is the key by which the message is to be handled in order.
func (m *Message) orderKey() string {
	if m.OrderKey != "" || m.Headers == nil {
		return m.OrderKey
	}
	key, _ := m.Headers[OrderKeyHeader].(string)
	return key
}

// order are the settings of OrderBy for a partition; nil if it is not set.
func (s Subscriber) order(partition int, shared *consume.Partitions) *consume.Order {
	if s.OrderBy == nil {
		return nil
	}
	return &consume.Order{Key: func(view any) string { return s.OrderBy(view.(*Delivery)) },
		Held: layouts.HeldQueue(layouts.PartitionQueue(s.Queue, partition)), MaxHeld: s.MaxHeld, Halt: s.AfterFail == Halt,
		Shared: shared, Partition: partition}
}

// orderFaults finds settings with which messages cannot be handled in order.
func (s Subscriber) orderFaults() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if s.OrderBy == nil {
		if s.MaxHeld != 0 || s.AfterFail != Skip || s.Partitions != 0 {
			fault("Partitions, MaxHeld or AfterFail is set, and OrderBy is not")
		}
		return faults
	}
	if _, native := s.Layout.(layout.Native); !native {
		fault("OrderBy needs layout.Native, and Layout is a %T", s.Layout)
	}
	for _, refused := range []struct {
		set  bool
		name string
		why  string
	}{
		{s.QueueType == layout.Classic, "QueueType layout.Classic", "only quorum queues return messages in their order"},
		{s.ExistingQueue, "ExistingQueue", "the queue must be declared by rehop; see rehop topology migrate"},
		{s.Exclusive, "Exclusive", "the queue must last"},
		{s.AutoDelete, "AutoDelete", "the queue must last"},
		{s.ExclusiveConsumer, "ExclusiveConsumer", "one of the consumers is active anyway"},
		{s.Batch.Handle != nil, "Batch", "messages of one key are handled one at a time"},
		{s.MessageTTL != 0, "MessageTTL", "messages that wait would expire"},
		{s.Overflow == "drop-head", "Overflow drop-head", "it would drop the message that is to be handled next"},
		{s.MaxPriority != 0, "MaxPriority", "a message with a higher priority would overtake others"},
		{s.ConsumerPriority != 0, "ConsumerPriority", "a consumer with a higher priority would take over without end"},
		{s.PolicyPriority != 0, "PolicyPriority", "without the policy the broker would drop messages that were delivered often"},
	} {
		if refused.set {
			fault("OrderBy cannot be combined with %s: %s", refused.name, refused.why)
		}
	}
	for _, name := range []string{"x-single-active-consumer", "x-delivery-limit", "x-queue-type", "x-message-ttl", "x-max-priority"} {
		if _, set := s.QueueArgs[name]; set {
			fault("OrderBy cannot be combined with QueueArgs %s: rehop sets it, or it would change the order", name)
		}
	}
	if s.Prefetch < 2 {
		fault("Prefetch %d must be at least 2 with OrderBy: one message stays unacked, to notice that another process has taken over", s.Prefetch)
	}
	switch n := s.Partitions; {
	case n < 0 || n > layouts.MaxPartitions || n&(n-1) != 0:
		fault("Partitions %d must be a power of two, from 1 to %d", n, layouts.MaxPartitions)
	case n > 1 && len(s.Queue) > layouts.MaxPartitioned:
		fault("Partitions: the name of the queue has %d bytes, and must have at most %d", len(s.Queue), layouts.MaxPartitioned)
	}
	if s.AfterFail != Skip && s.AfterFail != Halt {
		fault("AfterFail %d must be Skip or Halt", s.AfterFail)
	}
	if s.MaxHeld < 1 || s.MaxHeld > maxHeld {
		fault("MaxHeld %d must be from 1 to %d", s.MaxHeld, maxHeld)
	}
	return faults
}

// explain adds what to do if the queue has another number of partitions.
func (s Subscriber) explain(err error) error {
	refused, ok := errors.AsType[*TopologyError](err)
	if !ok || s.OrderBy == nil || !strings.Contains(refused.Error(), "x-delivery-limit") && s.Partitions == 1 {
		return err
	}
	return fmt.Errorf("%w; a queue that exists cannot get partitions, or another number of partitions than %d: use a new name, see docs/ordering.md", err, s.Partitions)
}

package rehop

import (
	"fmt"

	"github.com/rehop/rehop/internal/consume"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// OrderKeyHeader is the header in which the outbox passes on the OrderKey of a message.
const OrderKeyHeader = "order-key"

// OrderKey is for [Subscriber.OrderBy]: it returns the header order-key, with which the outbox publishes messages that have an
// OrderKey. So the order of transactions is that of the handlers.
func OrderKey(d *Delivery) string {
	key, _ := d.Headers[OrderKeyHeader].(string)
	return key
}

// order are the settings of OrderBy, nil if it is not set.
func (s Subscriber) order() *consume.Order {
	if s.OrderBy == nil {
		return nil
	}
	return &consume.Order{Key: func(view any) string { return s.OrderBy(view.(*Delivery)) },
		Held: layouts.HeldQueue(s.Queue), MaxHeld: s.MaxHeld, Halt: s.AfterFail == Halt}
}

// orderFaults finds settings with which messages cannot be handled in order.
func (s Subscriber) orderFaults() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if s.OrderBy == nil {
		if s.MaxHeld != 0 || s.AfterFail != Skip {
			fault("MaxHeld or AfterFail is set, and OrderBy is not")
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
	if s.AfterFail != Skip && s.AfterFail != Halt {
		fault("AfterFail %d must be Skip or Halt", s.AfterFail)
	}
	if s.MaxHeld < 1 || s.MaxHeld > maxHeld {
		fault("MaxHeld %d must be from 1 to %d", s.MaxHeld, maxHeld)
	}
	return faults
}

package layouts

import (
	"cmp"
	"fmt"
	"math/bits"
	"time"

	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// Cascade limits. A delay is a whole number of units; each level waits for one bit of it.
const (
	DelayUnit = 100 * time.Millisecond
	levels    = 28
	MaxDelay  = (1<<levels - 1) * DelayUnit // about 310 days
)

// deliveryLimit is the delivery limit of queues that subscriptions consume. It is above
// Subscriber.CrashLimit, and ends the loops of consumers without rehop, and of messages that no client
// can decode.
const deliveryLimit = 50

// noDeliveryLimit is the delivery limit of queues whose messages are only read and requeued. RabbitMQ 4
// would otherwise drop a failed message when it is read for the twentieth time.
const noDeliveryLimit = 1_000_000_000

// Native is the mechanics of [layout.Native], and of what all layouts need: the delay queues, and the
// return to a queue.
type Native struct {
	rules
	Type layout.QueueType
}

func (n Native) Settings() layout.Layout { return layout.Native{Type: n.Type} }

// QueueSpec is what a subscription wants of its queue.
type QueueSpec struct {
	Name string
	// Type is the queue's type. Default: the layout's usual one.
	Type layout.QueueType
	// Passive: another application declares the queue, and rehop uses it unchanged.
	Passive bool
	// Exclusive and AutoDelete make a temporary queue, which must be classic.
	Exclusive, AutoDelete bool
	// Args are further queue arguments, by RabbitMQ's names; they override the layout's own, and nil
	// removes one.
	Args map[string]any
	// Ordered: its messages are handled in order by key. Partitions is how many queues they are spread over, if more than one.
	Ordered    bool
	Partitions int
	// Exchange, ExchangeType and Keys are what the queue is bound to. Without an exchange it is not bound.
	Exchange     string
	ExchangeType string // Default: the layout's usual one.
	// ExistingExchange: another application declares the exchange, and rehop uses it unchanged.
	ExistingExchange bool
	Keys             []string
}

func (n Native) queueType() layout.QueueType { return cmp.Or(n.Type, layout.Quorum) }

func (n Native) Validate() error { return CheckType("Native.Type", n.Type) }

// keepArgs are the arguments of a queue that keeps messages.
func (n Native) keepArgs() topology.Args {
	args := topology.Args{"x-queue-type": string(n.queueType())}
	if n.queueType() == layout.Quorum {
		args["x-delivery-limit"] = int64(noDeliveryLimit)
	}
	return args
}

// delayArgs are the arguments of a queue in which messages wait for d and then go to exchange with
// their routing key.
func (n Native) delayArgs(d time.Duration, exchange string) topology.Args {
	args := n.keepArgs()
	args["x-message-ttl"] = d.Milliseconds()
	args["x-dead-letter-exchange"] = exchange
	if n.queueType() == layout.Quorum {
		// At-least-once dead-lettering needs all three; without it, a broker that dies loses messages
		// between two queues.
		args["x-dead-letter-strategy"] = "at-least-once"
		args["x-overflow"] = "reject-publish"
	}
	return args
}

// Base is what every client needs: the exchange by which messages return to a queue, and the orphan and
// unrouted queues.
func (n Native) Base() topology.Plan {
	return topology.Plan{
		Exchanges: []topology.Exchange{
			{Name: OrphansQueue, Type: "fanout"},
			// Without an alternate exchange, messages for a deleted queue would stay in the delay queues
			// (at-least-once dead-lettering keeps what it cannot route) and block them.
			{Name: ReturnExchange, Type: "direct", Args: topology.Args{"alternate-exchange": OrphansQueue}},
			{Name: nowhereExchange, Type: "fanout", Internal: true},
			{Name: keepExchange, Type: "fanout"},
			{Name: UnroutedExchange, Type: "headers", Args: topology.Args{"alternate-exchange": keepExchange}},
		},
		Queues: []topology.Queue{
			{Name: OrphansQueue, Args: n.keepArgs()},
			{Name: UnroutedQueue, Args: n.keepArgs()},
		},
		Bindings: []topology.Binding{
			{Source: OrphansQueue, Destination: OrphansQueue},
			{Source: keepExchange, Destination: UnroutedQueue},
			// A message with HeaderReturn goes to an exchange without bindings, so it stays unroutable and
			// the broker returns it; all others are kept. So each publisher chooses for itself, and the
			// exchange's arguments are the same for all.
			toExchange(byHeader(UnroutedExchange, nowhereExchange, HeaderReturn, true)),
		},
	}
}

// toExchange is a binding to an exchange.
func toExchange(b topology.Binding) topology.Binding {
	b.ToExchange = true
	return b
}

func (n Native) Exchange(name, typ string) topology.Plan {
	return topology.Plan{Exchanges: []topology.Exchange{
		{Name: name, Type: cmp.Or(typ, "topic"), Args: topology.Args{"alternate-exchange": UnroutedExchange}},
	}}
}

func (n Native) KeepsUnrouted() bool { return true }

// Queue is a quorum queue unless another type is asked for, and dead-letters to its failed queue.
func (n Native) Queue(q QueueSpec) topology.Queue {
	return topology.Queue{Name: q.Name, Exclusive: q.Exclusive, AutoDelete: q.AutoDelete, Passive: q.Passive, Args: queueArgs(q)}
}

func (n Native) Subscription(q QueueSpec) topology.Plan {
	return feed(n, q, defaultKey(q.ExchangeType))
}

func (n Native) RetryTopology(q QueueSpec) topology.Plan {
	failed := FailedQueue(q.Name)
	plan := topology.Plan{
		Queues:   []topology.Queue{{Name: failed, Args: n.keepArgs()}},
		Bindings: []topology.Binding{{Source: ReturnExchange, Destination: failed, Key: failed}},
	}
	if q.Ordered {
		plan.Queues = append(plan.Queues, topology.Queue{Name: HeldQueue(q.Name), Args: orderedArgs(QueueSpec{Name: q.Name})})
	}
	return plan
}

// orderedArgs are the arguments of a queue with an owner. The owner decides what has failed: the broker must not drop a
// message that was delivered often, because it is returned each time that an owner ends. The limit also has the number of
// partitions: so the broker refuses a subscription with another number, which would spread the messages of a key over
// several queues, or have messages handled twice.
func orderedArgs(q QueueSpec) topology.Args {
	partitions := 0
	if q.Partitions > 1 {
		partitions = q.Partitions
	}
	return topology.Args{
		"x-queue-type":              string(layout.Quorum),
		"x-single-active-consumer":  true,
		"x-delivery-limit":          int64(noDeliveryLimit + partitions),
		"x-dead-letter-exchange":    ReturnExchange,
		"x-dead-letter-routing-key": FailedQueue(q.Name),
		"x-dead-letter-strategy":    "at-least-once",
		"x-overflow":                "reject-publish",
	}
}

func (n Native) FailedQueue(queue string) string { return FailedQueue(queue) }

func (n Native) DeadLettersToFailed(q topology.Queue) bool {
	return q.Args["x-dead-letter-exchange"] == ReturnExchange && q.Args["x-dead-letter-routing-key"] == FailedQueue(q.Name)
}

func (n Native) Delays() []time.Duration {
	return []time.Duration{10 * time.Second, 100 * time.Second, time.Hour, 2 * time.Hour, 10 * time.Hour}
}

func (n Native) Retry(Failure) Verdict { return Verdict{Do: Wait} }

func (n Native) Fail(f Failure) Verdict { return Verdict{Do: Move, Key: FailedQueue(f.Queue)} }

func (n Native) KeepsKey() bool { return false }

// returnTo lets messages return to a queue.
func (n Native) returnTo(queue string) topology.Plan {
	return topology.Plan{Bindings: []topology.Binding{{Source: ReturnExchange, Destination: queue, Key: queue}}}
}

// landing is the landing queue of a queue.
func (n Native) landing(queue string) topology.Plan {
	name, args := LandingQueue(queue), n.delayArgs(0, ReturnExchange)
	args["x-dead-letter-routing-key"] = queue
	return topology.Plan{
		Queues:   []topology.Queue{{Name: name, Args: args}},
		Bindings: []topology.Binding{{Source: ReturnExchange, Destination: name, Key: name}},
	}
}

// defaultKey binds a queue to all messages of an exchange of this type.
func defaultKey(typ string) string {
	if typ == "" || typ == "topic" {
		return "#"
	}
	return ""
}

func queueArgs(q QueueSpec) topology.Args {
	if q.Passive {
		return nil
	}
	typ := cmp.Or(q.Type, layout.Quorum)
	args := topology.Args{
		"x-queue-type":              string(typ),
		"x-dead-letter-exchange":    ReturnExchange,
		"x-dead-letter-routing-key": FailedQueue(q.Name),
	}
	if typ == layout.Quorum {
		args["x-delivery-limit"] = int64(deliveryLimit)
		args["x-dead-letter-strategy"] = "at-least-once"
		args["x-overflow"] = "reject-publish"
	}
	if q.Ordered {
		args = orderedArgs(q)
	}
	args = override(args, q.Args)
	if args["x-overflow"] != "reject-publish" {
		// RabbitMQ refuses at-least-once with any other overflow behaviour.
		delete(args, "x-dead-letter-strategy")
	}
	return args
}

// AsQuorum are the arguments with which the native layout declares a queue as a quorum queue, if args are those of the classic one.
func AsQuorum(queue string, args topology.Args) topology.Args {
	limit := int64(noDeliveryLimit)
	if (Native{}).DeadLettersToFailed(topology.Queue{Name: queue, Args: args}) {
		limit = deliveryLimit
	}
	out := override(args, map[string]any{"x-queue-type": string(layout.Quorum)})
	if out["x-delivery-limit"] == nil {
		out["x-delivery-limit"] = limit
	}
	if out["x-dead-letter-exchange"] != nil && (out["x-overflow"] == nil || out["x-overflow"] == "reject-publish") {
		out["x-overflow"], out["x-dead-letter-strategy"] = "reject-publish", "at-least-once"
	}
	return out
}

// Step is the queue in which messages wait for exactly delay.
func (n Native) Step(delay time.Duration) topology.Plan {
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: StepExchange, Type: "headers"}},
		Queues:    []topology.Queue{{Name: StepQueue(delay), Args: n.delayArgs(delay, ReturnExchange)}},
		Bindings:  []topology.Binding{byHeader(StepExchange, StepQueue(delay), HeaderStep, StepName(delay))},
	}
}

// Cascade is the part of the cascade that a message with this delay passes. Level n holds a message
// for 2ⁿ units if the message has that level's header; otherwise the level's alternate exchange passes
// it to the next lower level at once. So the message keeps its routing key.
func (n Native) Cascade(delay time.Duration) topology.Plan {
	plan := topology.Plan{
		Exchanges: []topology.Exchange{
			{Name: LaterExchange, Type: "headers", Args: topology.Args{"alternate-exchange": OrphansQueue}},
		},
		Bindings: []topology.Binding{toExchange(byHeader(LaterExchange, ReturnExchange, HeaderTo, ToQueue))},
	}
	next := LaterExchange
	for level := range bits.Len64(units(delay)) {
		name := levelName(level)
		plan.Exchanges = append(plan.Exchanges, topology.Exchange{Name: name, Type: "headers",
			Args: topology.Args{"alternate-exchange": next}})
		plan.Queues = append(plan.Queues, topology.Queue{Name: name, Args: n.delayArgs(DelayUnit<<level, next)})
		plan.Bindings = append(plan.Bindings, byHeader(name, name, levelHeader(level), true))
		next = name
	}
	return plan
}

// LaterTo lets messages leave the cascade to an exchange, through a queue of its own: if a queue behind
// the exchange rejects them, they do not block others.
func (n Native) LaterTo(exchange string) topology.Plan {
	name := laterQueue(exchange)
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: exchange, Passive: true}},
		Queues:    []topology.Queue{{Name: name, Args: n.delayArgs(0, exchange)}},
		Bindings:  []topology.Binding{byHeader(LaterExchange, name, HeaderTo, ToExchange(exchange))},
	}
}

// LaterToQueue lets messages with the routing key LandingQueue(queue) leave the cascade to a queue.
func (n Native) LaterToQueue(queue string) topology.Plan {
	plan := n.LaterToTemporary(queue)
	topologies.Add(&plan, n.landing(queue))
	return plan
}

// LaterToTemporary lets messages with the routing key queue leave the cascade to a temporary queue.
// Nothing of it is left when the queue is deleted.
func (n Native) LaterToTemporary(queue string) topology.Plan {
	plan := n.returnTo(queue)
	plan.Queues = []topology.Queue{{Name: queue, Passive: true}}
	return plan
}

// units is delay in whole units, rounded up: a retry may be late, never early.
func units(delay time.Duration) uint64 {
	if delay <= 0 {
		return 1
	}
	return uint64((delay + DelayUnit - 1) / DelayUnit)
}

// Address is where a message is published so that it waits: an exchange, and headers to add.
type Address struct {
	Exchange string
	Headers  map[string]any
}

// StepAddress is the address of a step.
func StepAddress(delay time.Duration) Address {
	return Address{Exchange: StepExchange, Headers: map[string]any{HeaderStep: StepName(delay)}}
}

// CascadeAddress is the address at which a message waits for delay, rounded up to a unit. Then it goes
// to the destination to (see HeaderTo) with its routing key.
func CascadeAddress(delay time.Duration, to string) (Address, error) {
	if delay > MaxDelay {
		return Address{}, fmt.Errorf("delay %v is longer than the longest possible, %v", delay, MaxDelay)
	}
	u := units(delay)
	headers := map[string]any{HeaderTo: to}
	for level := range bits.Len64(u) {
		if u&(1<<level) != 0 {
			headers[levelHeader(level)] = true
		}
	}
	return Address{Exchange: levelName(bits.Len64(u) - 1), Headers: headers}, nil
}

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

// deliveryLimit is what rehop sets on the queues that subscriptions consume. It is above what rehop
// itself lets pass (Subscriber.CrashLimit), and ends the loops of foreign consumers, and of messages
// that no client can decode.
const deliveryLimit = 50

// restingLimit is set on queues whose messages are only looked at and put back. RabbitMQ 4 would
// otherwise drop a failed message when it was looked at for the twentieth time.
const noDeliveryLimit = 1_000_000_000

// Native is the mechanics of [layout.Native], and of what messages of all layouts need: the queues in
// which they wait, and the way back.
type Native struct {
	rules
	Type layout.QueueType
}

// Settings are those that it was made of.
func (n Native) Settings() layout.Layout { return layout.Native{Type: n.Type} }

// QueueSpec says what a subscription wants of its queue.
type QueueSpec struct {
	Name string
	// Type is the queue's type. Default: the layout's usual one.
	Type layout.QueueType
	// Passive: the queue belongs to somebody else and is used as it is.
	Passive bool
	// Exclusive and AutoDelete make a temporary queue, which must be classic.
	Exclusive, AutoDelete bool
	// Args are further queue arguments, as RabbitMQ names them; they override the layout's own, and nil takes
	// one away.
	Args map[string]any
	// Exchange, Kind and Keys: what the queue is bound to. No exchange, no binding.
	Exchange     string
	ExchangeType string // Default: the layout's usual one.
	// ForeignExchange: the exchange belongs to somebody else and is used as it is.
	ExistingExchange bool
	Keys             []string
}

func (n Native) queueType() layout.QueueType { return cmp.Or(n.Type, layout.Quorum) }

// Validate looks at the type.
func (n Native) Validate() error { return CheckType("Native.Type", n.Type) }

// resting are the arguments of a queue that nobody consumes all the time.
func (n Native) keepArgs() topology.Args {
	args := topology.Args{"x-queue-type": string(n.queueType())}
	if n.queueType() == layout.Quorum {
		args["x-delivery-limit"] = int64(noDeliveryLimit)
	}
	return args
}

// waiting are the arguments of a queue in which messages wait for d and then go to exchange with
// the routing key that they have.
func (n Native) delayArgs(d time.Duration, exchange string) topology.Args {
	args := n.keepArgs()
	args["x-message-ttl"] = d.Milliseconds()
	args["x-dead-letter-exchange"] = exchange
	if n.queueType() == layout.Quorum {
		// At-least-once needs all three; without it a broker that dies loses what is on its way.
		args["x-dead-letter-strategy"] = "at-least-once"
		args["x-overflow"] = "reject-publish"
	}
	return args
}

// Base is what every client needs: the way back to a queue, and the places for messages that have
// lost their way.
func (n Native) Base() topology.Plan {
	return topology.Plan{
		Exchanges: []topology.Exchange{
			{Name: OrphansQueue, Type: "fanout"},
			// Without an alternate exchange, messages for a queue that was deleted would stay in the
			// delay queues (at-least-once dead-lettering keeps what it cannot route) and jam them.
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
			// A message that carries HeaderReturn takes the way to an exchange without bindings, so it
			// stays unroutable and the broker returns it; all others are kept. Thus each publisher
			// chooses for itself, and the exchange's arguments are the same for all.
			{Source: UnroutedExchange, Destination: nowhereExchange, ToExchange: true,
				Args: topology.Args{"x-match": "all", HeaderReturn: true}},
		},
	}
}

// Exchange is an exchange that rehop declares for publishers and subscribers.
func (n Native) Exchange(name, kind string) topology.Plan {
	if kind == "" {
		kind = "topic"
	}
	return topology.Plan{Exchanges: []topology.Exchange{
		{Name: name, Type: kind, Args: topology.Args{"alternate-exchange": UnroutedExchange}},
	}}
}

// KeepsUnrouted is true: rehop.unrouted keeps it.
func (n Native) KeepsUnrouted() bool { return true }

// Queue is a quorum queue unless another type is asked for, and dead-letters to its failed queue.
func (n Native) Queue(q QueueSpec) topology.Queue {
	return topology.Queue{Name: q.Name, Exclusive: q.Exclusive, AutoDelete: q.AutoDelete, Passive: q.Passive, Args: queueArgs(q)}
}

// Subscription is the queue with its exchange and bindings.
func (n Native) Subscription(q QueueSpec) topology.Plan {
	return feed(n, q, defaultKey(q.ExchangeType))
}

// Around is the failed queue and the way there.
func (n Native) RetryTopology(q QueueSpec) topology.Plan {
	failed := FailedQueue(q.Name)
	return topology.Plan{
		Queues:   []topology.Queue{{Name: failed, Args: n.keepArgs()}},
		Bindings: []topology.Binding{{Source: ReturnExchange, Destination: failed, Key: failed}},
	}
}

// FailedQueue is the queue's name with .failed.
func (n Native) FailedQueue(queue string) string { return FailedQueue(queue) }

// Rests reports whether the queue dead-letters to its failed queue.
func (n Native) DeadLettersToFailed(q topology.Queue) bool {
	return q.Args["x-dead-letter-exchange"] == ReturnExchange && q.Args["x-dead-letter-routing-key"] == FailedQueue(q.Name)
}

// Delays are 10 s, 100 s, 1 h, 2 h and 10 h.
func (n Native) Delays() []time.Duration {
	return []time.Duration{10 * time.Second, 100 * time.Second, time.Hour, 2 * time.Hour, 10 * time.Hour}
}

// Retry lets the message wait.
func (n Native) Retry(Failure) Verdict { return Verdict{Do: Wait} }

// Fail moves the message to its failed queue.
func (n Native) Fail(f Failure) Verdict { return Verdict{Do: Move, Key: FailedQueue(f.Queue)} }

// KeepsKey is false: nobody else is there.
func (n Native) KeepsKey() bool { return false }

// returnTo lets messages return to a queue.
func (n Native) returnTo(queue string) topology.Plan {
	return topology.Plan{Bindings: []topology.Binding{{Source: ReturnExchange, Destination: queue, Key: queue}}}
}

// landing is a queue through which messages return to a queue that may refuse them.
func (n Native) landing(queue string) topology.Plan {
	name, args := LandingQueue(queue), n.delayArgs(0, ReturnExchange)
	args["x-dead-letter-routing-key"] = queue
	return topology.Plan{
		Queues:   []topology.Queue{{Name: name, Args: args}},
		Bindings: []topology.Binding{{Source: ReturnExchange, Destination: name, Key: name}},
	}
}

// defaultKey binds to everything that an exchange of this kind can offer.
func defaultKey(kind string) string {
	if kind == "" || kind == "topic" {
		return "#"
	}
	return ""
}

func queueArgs(q QueueSpec) topology.Args {
	if q.Passive {
		return nil
	}
	kind := q.Type
	if kind == "" {
		kind = layout.Quorum
	}
	args := topology.Args{
		"x-queue-type":              string(kind),
		"x-dead-letter-exchange":    ReturnExchange,
		"x-dead-letter-routing-key": FailedQueue(q.Name),
	}
	if kind == layout.Quorum {
		args["x-delivery-limit"] = int64(deliveryLimit)
		args["x-dead-letter-strategy"] = "at-least-once"
		args["x-overflow"] = "reject-publish"
	}
	args = override(args, q.Args)
	if args["x-overflow"] != "reject-publish" {
		// RabbitMQ refuses at-least-once with any other overflow behaviour.
		delete(args, "x-dead-letter-strategy")
	}
	return args
}

// Step is the queue in which messages wait for exactly delay.
func (n Native) Step(delay time.Duration) topology.Plan {
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: StepExchange, Type: "headers"}},
		Queues:    []topology.Queue{{Name: StepQueue(delay), Args: n.delayArgs(delay, ReturnExchange)}},
		Bindings: []topology.Binding{{Source: StepExchange, Destination: StepQueue(delay),
			Args: topology.Args{"x-match": "all", HeaderStep: StepName(delay)}}},
	}
}

// Cascade is the part of the cascade that a message with this delay passes. Level n holds a message
// for 2ⁿ units if the message has that level's header; otherwise the level's alternate exchange hands
// it to the next lower level at once. So the routing key stays the message's own, whatever it is.
func (n Native) Cascade(delay time.Duration) topology.Plan {
	plan := topology.Plan{
		Exchanges: []topology.Exchange{
			{Name: LaterExchange, Type: "headers", Args: topology.Args{"alternate-exchange": OrphansQueue}},
		},
		Bindings: []topology.Binding{{Source: LaterExchange, Destination: ReturnExchange, ToExchange: true,
			Args: topology.Args{"x-match": "all", HeaderTo: ToQueue}}},
	}
	next := LaterExchange
	for level := range bits.Len64(units(delay)) {
		name := levelName(level)
		plan.Exchanges = append(plan.Exchanges, topology.Exchange{Name: name, Type: "headers",
			Args: topology.Args{"alternate-exchange": next}})
		plan.Queues = append(plan.Queues, topology.Queue{Name: name, Args: n.delayArgs(DelayUnit<<level, next)})
		plan.Bindings = append(plan.Bindings, topology.Binding{Source: name, Destination: name,
			Args: topology.Args{"x-match": "all", levelHeader(level): true}})
		next = name
	}
	return plan
}

// LaterTo lets messages leave the cascade towards an exchange, by way of a queue of its own: if a queue
// behind the exchange refuses them, they hold up no others.
func (n Native) LaterTo(exchange string) topology.Plan {
	name := laterQueue(exchange)
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: exchange, Passive: true}},
		Queues:    []topology.Queue{{Name: name, Args: n.delayArgs(0, exchange)}},
		Bindings: []topology.Binding{{Source: LaterExchange, Destination: name,
			Args: topology.Args{"x-match": "all", HeaderTo: ToExchange(exchange)}}},
	}
}

// LaterToQueue lets messages with the routing key LandingQueue(queue) leave the cascade towards a queue.
func (n Native) LaterToQueue(queue string) topology.Plan {
	plan := n.LaterToTemporary(queue)
	topologies.Add(&plan, n.landing(queue))
	return plan
}

// LaterToTemporary lets messages with the routing key queue leave the cascade towards a queue that will be gone one day. Nothing
// of it is left then.
func (n Native) LaterToTemporary(queue string) topology.Plan {
	plan := topology.Plan{
		Queues: []topology.Queue{{Name: queue, Passive: true}},
	}
	topologies.Add(&plan, n.returnTo(queue))
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

// CascadeAddress is the address at which a message waits for delay, rounded up to a unit. Its
// routing key is then used at the destination, which to names (see HeaderTo).
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

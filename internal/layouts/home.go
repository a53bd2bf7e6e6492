package layouts

import (
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/topology"
)

// In a layout that is shared, other programs publish a message again with the routing key with which it came to
// them. So there a message keeps its key whatever rehop does with it, and is led by the header that names its
// queue. (In the native layout its key is the name of its queue while it waits, which the broker looks up
// rather than compares.)
const (
	// HomeExchange leads a message that has waited to the queue that its header rehop-queue names.
	HomeExchange = "rehop.home"
	// LandedExchange does so too, past the queue in which a message waits for room.
	LandedExchange = "rehop.landed"
	// RestExchange leads a message to where those of its queue rest.
	FailedExchange = "rehop.rest"
)

// ToHome is the value of HeaderTo for a message that goes to HomeExchange.
const ToHome = "home"

const (
	homePrefix = "home."
	homeSuffix = ".home"
)

// HomeQueue is the queue through which messages that keep their key return to a queue that may be full.
func HomeQueue(queue string) string { return suffixed(queue, homeSuffix) }

// HomeStepQueue is the queue in which messages that keep their key wait for exactly delay.
func HomeStepQueue(delay time.Duration) string { return stepQueuePrefix + homePrefix + StepName(delay) }

// HomeStepAddress is the address of such a step.
func HomeStepAddress(delay time.Duration) Address {
	return Address{Exchange: StepExchange, Headers: map[string]any{HeaderStep: homePrefix + StepName(delay)}}
}

// homeStep is such a step.
func (n Native) homeStep(delay time.Duration) topology.Plan {
	plan := n.homes(HomeExchange)
	plan.Exchanges = append(plan.Exchanges, topology.Exchange{Name: StepExchange, Type: "headers"})
	plan.Queues = append(plan.Queues, topology.Queue{Name: HomeStepQueue(delay), Args: n.delayArgs(delay, HomeExchange)})
	plan.Bindings = append(plan.Bindings, topology.Binding{Source: StepExchange, Destination: HomeStepQueue(delay),
		Args: topology.Args{"x-match": "all", HeaderStep: homePrefix + StepName(delay)}})
	return plan
}

// homes are exchanges that lead by the name of a queue. Like rehop.return they must not jam what waits when a
// queue is gone.
func (n Native) homes(names ...string) (plan topology.Plan) {
	for _, name := range names {
		plan.Exchanges = append(plan.Exchanges,
			topology.Exchange{Name: name, Type: "headers", Args: topology.Args{"alternate-exchange": OrphansQueue}})
	}
	return plan
}

// byQueue leads messages of a queue from one of homes to a destination.
func byQueue(source, queue, destination string) topology.Binding {
	return topology.Binding{Source: source, Destination: destination,
		Args: topology.Args{"x-match": "all", envelope.Queue: queue}}
}

// home lets messages return to a queue; where that may refuse them, through a queue of its own.
func (n Native) home(q topology.Queue) topology.Plan {
	plan := n.homes(HomeExchange, LandedExchange)
	plan.Bindings = append(plan.Bindings, byQueue(LandedExchange, q.Name, q.Name))
	if !refuses(q) {
		plan.Bindings = append(plan.Bindings, byQueue(HomeExchange, q.Name, q.Name))
	}
	return plan
}

// homeLanding is the queue through which messages return that the queue itself may refuse.
func (n Native) homeLanding(queue string) topology.Plan {
	plan := n.homes(HomeExchange, LandedExchange)
	plan.Queues = append(plan.Queues, topology.Queue{Name: HomeQueue(queue), Args: n.delayArgs(0, LandedExchange)})
	plan.Bindings = append(plan.Bindings, byQueue(HomeExchange, queue, HomeQueue(queue)))
	return plan
}

// rest leads messages of a queue to where they rest. Only rehop publishes there, and declares what is missing
// when the broker returns a message; so the exchange has no alternate.
func (n Native) toFailed(queue, failed string) topology.Plan {
	plan := topology.Plan{Exchanges: []topology.Exchange{{Name: FailedExchange, Type: "headers"}}}
	plan.Bindings = append(plan.Bindings, byQueue(FailedExchange, queue, failed))
	return plan
}

// LaterHome lets messages leave the cascade with the key that they have.
func (n Native) LaterHome() topology.Plan {
	plan := n.homes(HomeExchange)
	plan.Bindings = append(plan.Bindings, topology.Binding{Source: LaterExchange, Destination: HomeExchange, ToExchange: true,
		Args: topology.Args{"x-match": "all", HeaderTo: ToHome}})
	return plan
}

// Back is what is needed to bring a message that rests back to its queue, or to rest again, when nobody
// subscribes to the queue by rehop. In the native layout that is nothing.
func ReplayPlan(l Layout, native Native, queue string) topology.Plan {
	var plan topology.Plan
	if !l.KeepsKey() {
		return plan
	}
	topologies.Add(&plan, native.homes(LandedExchange))
	plan.Bindings = append(plan.Bindings, byQueue(LandedExchange, queue, queue))
	if l.Fail(Failure{Message: Message{Queue: queue}}).Address.Exchange == FailedExchange {
		topologies.Add(&plan, native.toFailed(queue, l.FailedQueue(queue)))
	}
	return plan
}

package layouts

import (
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/topology"
)

// In a shared layout, other programs publish a message again with the routing key with which they
// received it. So there a message keeps its key, and is routed by the header that names its queue. (In
// the native layout its key is the name of its queue while it waits, which is faster for the broker.)
const (
	// HomeExchange routes a message that has waited to the queue that its header rehop-queue names.
	HomeExchange = "rehop.home"
	// LandedExchange does so too, without the landing queue.
	LandedExchange = "rehop.landed"
	// FailedExchange routes a message to the failed queue of its queue.
	FailedExchange = "rehop.rest"
)

// ToHome is the value of HeaderTo for a message that goes to HomeExchange.
const ToHome = "home"

const (
	homePrefix = "home."
	homeSuffix = ".home"
)

// HomeQueue is the landing queue of messages that keep their key.
func HomeQueue(queue string) string { return suffixed(queue, homeSuffix) }

// HomeStepQueue is the step of messages that keep their key.
func HomeStepQueue(delay time.Duration) string { return stepQueuePrefix + homePrefix + StepName(delay) }

// HomeStepAddress is its address.
func HomeStepAddress(delay time.Duration) Address {
	return Address{Exchange: StepExchange, Headers: map[string]any{HeaderStep: homePrefix + StepName(delay)}}
}

// homeStep is such a step.
func (n Native) homeStep(delay time.Duration) topology.Plan {
	plan := homes(HomeExchange)
	plan.Exchanges = append(plan.Exchanges, topology.Exchange{Name: StepExchange, Type: "headers"})
	plan.Queues = []topology.Queue{{Name: HomeStepQueue(delay), Args: n.delayArgs(delay, HomeExchange)}}
	plan.Bindings = []topology.Binding{byHeader(StepExchange, HomeStepQueue(delay), HeaderStep, homePrefix+StepName(delay))}
	return plan
}

// homes are exchanges that route by the name of a queue. Like rehop.return, they need an alternate
// exchange: messages for a deleted queue must not block the delay queues.
func homes(names ...string) (plan topology.Plan) {
	for _, name := range names {
		plan.Exchanges = append(plan.Exchanges,
			topology.Exchange{Name: name, Type: "headers", Args: topology.Args{"alternate-exchange": OrphansQueue}})
	}
	return plan
}

// byHeader binds a queue to a headers exchange, for messages with a value of a header.
func byHeader(source, destination, header string, value any) topology.Binding {
	return topology.Binding{Source: source, Destination: destination, Args: topology.Args{"x-match": "all", header: value}}
}

// byQueue binds a destination to one of homes, for messages of a queue.
func byQueue(source, queue, destination string) topology.Binding {
	return byHeader(source, destination, envelope.Queue, queue)
}

// home lets messages return to a queue. One that can reject messages has a landing queue, too: see
// homeLanding.
func home(q topology.Queue) topology.Plan {
	plan := homes(HomeExchange, LandedExchange)
	plan.Bindings = append(plan.Bindings, byQueue(LandedExchange, q.Name, q.Name))
	if !refuses(q) {
		plan.Bindings = append(plan.Bindings, byQueue(HomeExchange, q.Name, q.Name))
	}
	return plan
}

// homeLanding is the landing queue of messages that keep their key.
func (n Native) homeLanding(queue string) topology.Plan {
	plan := homes(HomeExchange, LandedExchange)
	plan.Queues = []topology.Queue{{Name: HomeQueue(queue), Args: n.delayArgs(0, LandedExchange)}}
	plan.Bindings = []topology.Binding{byQueue(HomeExchange, queue, HomeQueue(queue))}
	return plan
}

// toFailed routes messages of a queue to its failed queue. Only rehop publishes to the exchange, and
// declares what is missing when the broker returns a message; so it has no alternate exchange.
func toFailed(queue, failed string) topology.Plan {
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: FailedExchange, Type: "headers"}},
		Bindings:  []topology.Binding{byQueue(FailedExchange, queue, failed)},
	}
}

// LaterHome lets messages leave the cascade with their own key.
func (n Native) LaterHome() topology.Plan {
	plan := homes(HomeExchange)
	plan.Bindings = []topology.Binding{toExchange(byHeader(LaterExchange, HomeExchange, HeaderTo, ToHome))}
	return plan
}

// ReplayPlan is what is needed to return a failed message to its queue, or to the failed queue again,
// when no rehop client subscribes to the queue. In the native layout that is nothing.
func ReplayPlan(l Layout, native Native, queue string) topology.Plan {
	if !l.KeepsKey() {
		return topology.Plan{}
	}
	plan := homes(LandedExchange)
	plan.Bindings = append(plan.Bindings, byQueue(LandedExchange, queue, queue))
	if l.Fail(Failure{Message: Message{Queue: queue}}).Address.Exchange == FailedExchange {
		topologies.Add(&plan, toFailed(queue, l.FailedQueue(queue)))
	}
	return plan
}

package admin

import (
	"fmt"
	"slices"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/topology"
)

// lettersOf is the part of a plan to which a queue dead-letters, such as its failed queue. Without it, messages that other programs reject would be lost
// or unroutable until a subscriber starts. It is empty if dead letters return to the queue: such a cycle works only when all of it exists, and a part of it
// would lose messages.
func lettersOf(plan topology.Plan, queue topology.Queue) topology.Plan {
	kind := classic
	if layouts.IsQuorum(queue) {
		kind = quorum
	}
	// Policies of the plan may set where they go.
	ruled := foreseen(topology.Live{Policies: plan.Policies}, topology.LiveQueue{Queue: queue, Type: kind})
	exchange, dies := ruled.Effective("dead-letter-exchange")
	key, fixed := ruled.Effective("dead-letter-routing-key")
	if !dies || exchange == "" {
		return topology.Plan{}
	}
	w := &letterWays{plan: plan, from: queue.Name, fixed: fixed, key: fmt.Sprint(key), exchanges: make(map[string]bool), queues: make(map[string]bool)}
	w.follow(fmt.Sprint(exchange))
	if w.returns {
		return topology.Plan{}
	}
	return topology.Plan{
		Exchanges: slices.DeleteFunc(slices.Clone(plan.Exchanges), func(x topology.Exchange) bool { return !w.exchanges[x.Name] || x.Passive }),
		Queues:    slices.DeleteFunc(slices.Clone(plan.Queues), func(q topology.Queue) bool { return !w.queues[q.Name] || q.Passive }),
		Bindings:  w.bindings,
	}
}

// letterWays are the ways of dead letters through a plan.
type letterWays struct {
	plan      topology.Plan
	from      string // the queue that dead-letters
	key       string // their routing key
	fixed     bool   // it is always the same
	exchanges map[string]bool
	queues    map[string]bool
	bindings  []topology.Binding
	returns   bool // some return to the queue, or are dead-lettered again
}

// follow adds what dead letters reach from an exchange.
func (w *letterWays) follow(exchange string) {
	i := slices.IndexFunc(w.plan.Exchanges, func(x topology.Exchange) bool { return x.Name == exchange })
	if i < 0 || w.exchanges[exchange] {
		return
	}
	x := w.plan.Exchanges[i]
	w.exchanges[exchange] = true
	for _, b := range w.plan.Bindings {
		if b.Source != exchange || !w.takes(x, b) {
			continue
		}
		w.bindings = append(w.bindings, b)
		if b.ToExchange {
			w.follow(b.Destination)
			continue
		}
		w.queues[b.Destination] = true
		j := slices.IndexFunc(w.plan.Queues, func(q topology.Queue) bool { return q.Name == b.Destination })
		w.returns = w.returns || b.Destination == w.from || j >= 0 && w.plan.Queues[j].Args["x-dead-letter-exchange"] != nil
	}
	if next, ok := x.Args["alternate-exchange"].(string); ok {
		w.follow(next)
	}
}

// takes reports whether an exchange certainly routes dead letters by a binding.
func (w *letterWays) takes(x topology.Exchange, b topology.Binding) bool {
	switch x.Kind {
	case "fanout":
		return true
	case "topic":
		return b.Key == "#" || w.fixed && b.Key == w.key
	case "direct":
		return w.fixed && b.Key == w.key
	}
	return false
}

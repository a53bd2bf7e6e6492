package admin

import (
	"fmt"
	"slices"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// lettersOf is the part of a plan in which dead letters of a queue come to rest, as its failed queue. Without it, what another program rejects would be
// lost or go astray until a subscriber starts. It is empty where dead letters do not rest but come back to the queue: such a circle does not work before
// all of it is there, and a part of it would lose what comes there.
func lettersOf(plan topology.Plan, queue topology.Queue) topology.Plan {
	kind := layout.Classic
	if layouts.IsQuorum(queue) {
		kind = layout.Quorum
	}
	// Policies of the plan may say where they go.
	ruled := topology.Live{Queues: []topology.LiveQueue{{Queue: queue, Type: string(kind)}}, Policies: plan.Policies}
	ruled.ApplyPolicies()
	exchange, dies := ruled.Queues[0].Effective("dead-letter-exchange")
	key, fixed := ruled.Queues[0].Effective("dead-letter-routing-key")
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
	from      string // the queue in which they die
	key       string // their routing key
	fixed     bool   // it is always the same
	exchanges map[string]bool
	queues    map[string]bool
	bindings  []topology.Binding
	returns   bool // some come back, or die again
}

// follow goes on from an exchange.
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

// takes reports whether dead letters certainly take a binding of an exchange.
func (w *letterWays) takes(x topology.Exchange, b topology.Binding) bool {
	switch x.Type {
	case "fanout":
		return true
	case "topic":
		return b.Key == "#" || w.fixed && b.Key == w.key
	case "direct":
		return w.fixed && b.Key == w.key
	}
	return false
}

package topology

import "slices"

// ByPolicy is the plan with policies for all that can be set by one, so that it can be changed later without
// declaring anything anew: dead-lettering, times to live, lengths, limits, alternate exchanges. What a queue is
// stays in its arguments: its type, a single active consumer, its priorities.
//
// Each policy applies to one queue or one exchange alone. Since no more than one applies to each, the priority
// must be above those of other policies with a pattern that matches.
//
// With names it does so for the queues of those names alone. A client that declares a queue or an exchange with its arguments is refused
// then; a subscription declares its queue without them if it says so (PolicyPriority). What rehop itself has on the broker is declared
// with its arguments by every client: the whole plan by policies is for brokers on which no rehop client declares anything.
func (p Plan) ByPolicy(priority int, queues ...string) Plan {
	ruled := Plan{Bindings: p.Bindings, Policies: p.Policies[:len(p.Policies):len(p.Policies)]}
	rule := func(o Object, applyTo string, definition Args) {
		if len(definition) > 0 {
			ruled.Policies = append(ruled.Policies, Policy{Name: "rehop:" + o.Kind + ":" + o.Name, Pattern: exactly(o.Name), ApplyTo: applyTo,
				Priority: priority, Definition: definition})
		}
	}
	for _, x := range p.Exchanges {
		kept, definition := x.Args.split(func(name string) (string, bool) { return name, name == alternateExchange && len(queues) == 0 })
		rule(x.Object(), "exchanges", definition)
		x.Args = kept
		ruled.Exchanges = append(ruled.Exchanges, x)
	}
	for _, q := range p.Queues {
		if !q.Temporary() && (len(queues) == 0 || slices.Contains(queues, q.Name)) {
			kind := typeOf(q.Args)
			kept, definition := q.Args.split(func(name string) (string, bool) { return policyKey(kind, name) })
			rule(q.Object(), "queues", definition)
			q.Args = kept
		}
		ruled.Queues = append(ruled.Queues, q)
	}
	return ruled
}

// split divides a table into what stays an argument and what becomes a policy, under the name that key gives.
func (a Args) split(key func(argument string) (string, bool)) (kept, definition Args) {
	kept, definition = Args{}, Args{}
	for name, value := range a {
		if policy, ok := key(name); ok {
			definition[policy] = value
		} else {
			kept[name] = value
		}
	}
	if len(kept) == 0 {
		kept = nil
	}
	return kept, definition
}

package topology

import "slices"

// ByPolicy returns the plan with policies instead of arguments where a policy can set them: dead-lettering,
// TTLs, lengths, limits, alternate exchanges. Policies can be changed later without declaring a queue
// again. The type of a queue, its priorities and a single active consumer stay arguments.
//
// Each policy applies to one queue or one exchange. RabbitMQ applies at most one policy to each, so the
// priority must be above those of other policies with a matching pattern.
//
// With names, only those queues get policies. The broker then refuses clients that declare such a queue or
// exchange with its arguments; a subscription with a PolicyPriority declares its queue without them. Every
// rehop client declares rehop's own objects with their arguments: without names, the plan is for brokers
// on which no rehop client declares anything.
func (p Plan) ByPolicy(priority int, queues ...string) Plan {
	plan := Plan{Bindings: p.Bindings, Policies: p.Policies[:len(p.Policies):len(p.Policies)]}
	rule := func(o Object, applyTo string, definition Args) {
		if len(definition) > 0 {
			plan.Policies = append(plan.Policies, Policy{Name: "rehop:" + o.Kind + ":" + o.Name, Pattern: exactly(o.Name), ApplyTo: applyTo,
				Priority: priority, Definition: definition})
		}
	}
	for _, x := range p.Exchanges {
		kept, definition := x.Args.split(func(name string) (string, bool) { return name, name == alternateExchange && len(queues) == 0 })
		rule(x.Object(), "exchanges", definition)
		x.Args = kept
		plan.Exchanges = append(plan.Exchanges, x)
	}
	for _, q := range p.Queues {
		if !q.Temporary() && (len(queues) == 0 || slices.Contains(queues, q.Name)) {
			kind := typeOf(q.Args)
			kept, definition := q.Args.split(func(name string) (string, bool) { return policyKey(kind, name) })
			rule(q.Object(), "queues", definition)
			q.Args = kept
		}
		plan.Queues = append(plan.Queues, q)
	}
	return plan
}

// split divides a table into what stays an argument and what becomes a policy, under the name that key
// returns.
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

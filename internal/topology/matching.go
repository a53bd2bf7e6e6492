package topology

import "slices"

// Overruled is a policy that matches an object and does not apply to it, because another one does.
type Overruled struct {
	Object Object
	Policy Policy // that has no effect
	By     Policy
	Tied   bool     // both have the same priority, and which one applies is the broker's choice
	Keys   []string // what it would set, and the other one does not or sets otherwise
}

// Matches finds which policies have no effect on what they match, and which match nothing.
func (l Live) Matches() (overruled []Overruled, idle []Policy) {
	policies := rulesOf(l.Policies)
	used := make(map[string]bool)
	match := func(o Object, applies string, fits func(Policy) bool) {
		var by Policy
		var others []Policy
		for _, p := range policies {
			switch {
			case p.matcher == nil:
				used[p.Name] = true // nobody but the broker can tell
			case !p.matcher.MatchString(o.Name) || !fits(p.Policy):
			case p.Name == applies:
				by, used[p.Name] = p.Policy, true
			default:
				others, used[p.Name] = append(others, p.Policy), true
			}
		}
		for _, p := range others {
			if keys := p.without(by); by.Name != "" && len(keys) > 0 {
				overruled = append(overruled, Overruled{Object: o, Policy: p, By: by, Tied: p.Priority == by.Priority, Keys: keys})
			}
		}
	}
	for _, x := range l.Exchanges {
		match(x.Object(), x.Policy, forExchange)
	}
	for _, q := range l.Queues {
		match(q.Object(), q.Policy, forQueue(q.Type))
	}
	for _, p := range l.Policies {
		if !used[p.Name] {
			idle = append(idle, p)
		}
	}
	return overruled, idle
}

// without are the keys that a policy sets and the other one does not set alike.
func (p Policy) without(other Policy) []string {
	return slices.DeleteFunc(names(p.Definition), func(key string) bool { return same(p.Definition[key], other.Definition[key]) })
}

package topologies

import (
	"maps"
	"regexp"
	"slices"

	"github.com/rehop/rehop/topology"
)

// Overruled is a policy that matches an object and does not apply to it, because another one does.
type Overruled struct {
	Object topology.Object
	Policy topology.Policy // that has no effect
	By     topology.Policy
	Tied   bool     // both have the same priority, and which one applies is the broker's choice
	Keys   []string // what it would set, and the other one does not or sets otherwise
}

// Matches finds which policies have no effect on what they match, and which match nothing.
func Matches(l topology.Live) (overruled []Overruled, idle []topology.Policy) {
	var reaches []reach
	used := make(map[string]bool)
	for _, p := range l.Policies {
		r := reachOf(l, p)
		reaches = append(reaches, r)
		used[p.Name] = r.unknown
	}
	match := func(o topology.Object, applies string, matched func(reach) bool) {
		var by topology.Policy
		var others []topology.Policy
		for i, p := range l.Policies {
			switch {
			case !matched(reaches[i]):
			case p.Name == applies:
				by, used[p.Name] = p, true
			default:
				others, used[p.Name] = append(others, p), true
			}
		}
		for _, p := range others {
			if keys := differing(p.Definition, by.Definition); by.Name != "" && len(keys) > 0 {
				overruled = append(overruled, Overruled{Object: o, Policy: p, By: by, Tied: p.Priority == by.Priority, Keys: keys})
			}
		}
	}
	for i, x := range l.Exchanges {
		match(x.Object(), x.Policy, func(r reach) bool { return r.exchanges[i] })
	}
	for i, q := range l.Queues {
		match(q.Object(), q.Policy, func(r reach) bool { return r.queues[i] })
	}
	for _, p := range l.Policies {
		if !used[p.Name] {
			idle = append(idle, p)
		}
	}
	return overruled, idle
}

// reach is what one policy would apply to if there were no other.
type reach struct {
	exchanges, queues []bool // in the order of Live
	unknown           bool   // its pattern is not valid in Go: only the broker knows what it matches
}

func reachOf(l topology.Live, p topology.Policy) reach {
	_, err := regexp.Compile(p.Pattern)
	r := reach{unknown: err != nil}
	alone := topology.Live{Exchanges: slices.Clone(l.Exchanges), Queues: slices.Clone(l.Queues), Policies: []topology.Policy{p}}
	for i := range alone.Exchanges {
		alone.Exchanges[i].Policy = ""
	}
	for i := range alone.Queues {
		alone.Queues[i].Policy, alone.Queues[i].OperatorPolicy = "", ""
	}
	alone.ApplyPolicies()
	for _, x := range alone.Exchanges {
		r.exchanges = append(r.exchanges, x.Policy != "")
	}
	for _, q := range alone.Queues {
		r.queues = append(r.queues, q.Policy != "")
	}
	return r
}

// differing are the keys that a policy sets and the other one does not set alike.
func differing(policy, other topology.Args) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(policy)), func(key string) bool {
		theirs, set := other[key]
		return set && topology.Args{key: policy[key]}.Equal(topology.Args{key: theirs})
	})
}

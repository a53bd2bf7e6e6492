package topologies

import (
	"slices"
	"testing"

	"github.com/rehop/rehop/topology"
)

func TestMatches(t *testing.T) {
	live := topology.Live{
		Exchanges: []topology.LiveExchange{{Exchange: topology.Exchange{Name: "a"}}},
		Queues: []topology.LiveQueue{
			{Queue: topology.Queue{Name: "a"}, Type: "classic"}, {Queue: topology.Queue{Name: "ab"}, Type: "classic"}, {Queue: topology.Queue{Name: "q"}, Type: "quorum"},
		},
		Policies: []topology.Policy{
			{Name: "wide", Pattern: "^a", ApplyTo: "all", Definition: topology.Args{"max-length": 5, "expires": 9}},
			{Name: "narrow", Pattern: "^ab$", ApplyTo: "queues", Priority: 1, Definition: topology.Args{"max-length": 5, "message-ttl": 1}},
			{Name: "tied", Pattern: "^q$", ApplyTo: "queues", Definition: topology.Args{"max-length": 1}},
			{Name: "tied2", Pattern: "^q$", ApplyTo: "queues", Definition: topology.Args{"max-length": 2}},
			{Name: "alike", Pattern: "^ab$", ApplyTo: "queues", Definition: topology.Args{"max-length": 5}},
			{Name: "other type", Pattern: "^q$", ApplyTo: "classic_queues", Definition: topology.Args{"max-length": 2}},
			{Name: "typo", Pattern: "^zz", ApplyTo: "all", Definition: topology.Args{"max-length": 2}},
			{Name: "not Go's", Pattern: "^(?!a)", ApplyTo: "all", Definition: topology.Args{"max-length": 2}},
		},
	}
	live.ApplyPolicies()
	overruled, idle := Matches(live)
	var got []string
	for _, o := range overruled {
		s := o.Policy.Name + " by " + o.By.Name + " on " + o.Object.String()
		if o.Tied {
			s += ", tied"
		}
		for _, key := range o.Keys {
			s += " " + key
		}
		got = append(got, s)
	}
	want := []string{`wide by narrow on queue "ab" expires`, `tied2 by tied on queue "q", tied max-length`}
	if !slices.Equal(got, want) {
		t.Errorf("overruled: got %q, want %q", got, want)
	}
	var names []string
	for _, p := range idle {
		names = append(names, p.Name)
	}
	if want := []string{"other type", "typo"}; !slices.Equal(names, want) {
		t.Errorf("idle: got %q, want %q", names, want)
	}
}

package topology

import (
	"regexp"
	"testing"
)

func TestPolicyThatApplies(t *testing.T) {
	t.Parallel()
	live := Live{
		Policies: []Policy{
			{Name: "low", Pattern: "", ApplyTo: "all", Definition: Args{"expires": 1, "alternate-exchange": "low"}},
			{Name: "orders", Pattern: "^orders", ApplyTo: "queues", Priority: 1, Definition: Args{"max-length": 10}},
			{Name: "limits", Pattern: "^jobs", ApplyTo: "queues", Priority: 2, Definition: Args{"delivery-limit": 3}},
			{Name: "lazy", Pattern: "^lazy", ApplyTo: "queues", Priority: 2, Definition: Args{"queue-mode": "lazy"}},
			{Name: "typed", Pattern: "^typed", ApplyTo: "quorum_queues", Priority: 2, Definition: Args{"expires": 2}},
			{Name: "twin-b", Pattern: "^twin", ApplyTo: "queues", Priority: 2, Definition: Args{"max-length": 2}},
			{Name: "twin-a", Pattern: "^twin", ApplyTo: "queues", Priority: 2, Definition: Args{"max-length": 1}},
			{Name: "ahead", Pattern: "^ahead(?!not)", ApplyTo: "queues", Priority: 9, Definition: Args{"max-length": 7}},
		},
		OperatorPolicies: []Policy{{Name: "cap", Pattern: "^orders", ApplyTo: "queues", Definition: Args{"max-length": 4, "message-ttl": 5}}},
	}
	queue := func(name, kind, told string) LiveQueue {
		return LiveQueue{Queue: Queue{Name: name}, Type: kind, Policy: told}
	}
	for _, c := range []struct {
		queue            LiveQueue
		policy, operator string
		policyArgs       Args
	}{
		{queue("other", "classic", "stale"), "low", "", Args{"expires": 1, "alternate-exchange": "low"}},
		{queue("orders", "classic", "low"), "orders", "cap", Args{"max-length": 4, "message-ttl": 5}},
		{queue("jobs", "quorum", ""), "limits", "", Args{"delivery-limit": 3}},
		{queue("jobs.classic", "classic", ""), "low", "", Args{"expires": 1, "alternate-exchange": "low"}},
		{queue("lazy", "quorum", ""), "low", "", Args{"expires": 1, "alternate-exchange": "low"}},
		{queue("typed", "quorum", ""), "typed", "", Args{"expires": 2}},
		{queue("typed.classic", "classic", ""), "low", "", Args{"expires": 1, "alternate-exchange": "low"}},
		{queue("twin", "classic", ""), "twin-a", "", Args{"max-length": 1}},
		{queue("twin.told", "classic", "twin-b"), "twin-b", "", Args{"max-length": 2}},
		{queue("ahead", "classic", "ahead"), "ahead", "", Args{"max-length": 7}},
	} {
		l := live
		l.Queues = []LiveQueue{c.queue}
		l.ApplyPolicies()
		if q := l.Queues[0]; q.Policy != c.policy || q.OperatorPolicy != c.operator || !q.PolicyArgs.Equal(c.policyArgs) {
			t.Errorf("%s: got %q, %q, %v, want %q, %q, %v", q.Name, q.Policy, q.OperatorPolicy, q.PolicyArgs, c.policy, c.operator, c.policyArgs)
		}
	}
	live.Exchanges = []LiveExchange{{Exchange: Exchange{Name: "orders"}}}
	live.ApplyPolicies()
	if got, _ := live.Exchanges[0].Effective("alternate-exchange"); got != "low" {
		t.Errorf("alternate exchange: got %v, want low", got)
	}
}

func FuzzExactly(f *testing.F) {
	for _, name := range []string{"q", "a.b", "a+b*c?", "(", "[x]{2}", `\Q\E`, "a\nb", "a\n", "名", "a|b", "^a$"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		matcher, err := regexp.Compile(exactly(name))
		if err != nil {
			t.Skip(err) // not UTF-8, and a pattern is text
		}
		if !matcher.MatchString(name) {
			t.Errorf("%s does not match %q", matcher, name)
		}
		for _, other := range []string{name + "x", "x" + name, name + "\n", "\n" + name} {
			if matcher.MatchString(other) {
				t.Errorf("%s matches %q, and shall match %q alone", matcher, other, name)
			}
		}
	})
}

package topology

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func planned() Plan {
	return Plan{
		Exchanges: []Exchange{{Name: "x", Type: "topic", Args: Args{"alternate-exchange": "y"}}, {Name: "y", Type: "fanout"}, {Name: "theirs", Passive: true}},
		Queues: []Queue{
			{Name: "q", Args: Args{"x-queue-type": "quorum", "x-message-ttl": int64(5000), "x-overflow": "reject-publish"}},
			{Name: "plain"},
			{Name: "mine", Exclusive: true},
			{Name: "foreign", Passive: true},
		},
		Bindings: []Binding{{Source: "x", Destination: "q", Key: "new"}, {Source: "x", Destination: "mine", Key: "k"}, {Source: "x", Destination: "y", ToExchange: true}},
	}
}

// exists is a broker that has the plan.
func exists(p Plan) Live {
	var l Live
	for _, x := range p.Exchanges {
		l.Exchanges = append(l.Exchanges, LiveExchange{Exchange: Exchange{Name: x.Name, Type: x.Type, Internal: x.Internal, Args: x.Args}, Durable: true})
	}
	for _, q := range p.Queues {
		if !q.Temporary() {
			l.Queues = append(l.Queues, LiveQueue{Queue: Queue{Name: q.Name, Args: q.Args}, Type: typeOf(q.Args), Durable: true})
		}
	}
	l.Bindings = p.WithoutTemporary().Bindings
	l.Policies = p.Policies
	l.ApplyPolicies()
	return l
}

func steps(queue string) bool { return strings.HasPrefix(queue, "step.") }

// brief has of each difference its kind, its object and what is to be done.
func brief(d Diff) string {
	var lines []string
	for _, x := range d {
		line := fmt.Sprintf("%s %s %s", x.Kind, x.Object.Kind, x.Object.Name)
		if x.Argument != "" {
			line += fmt.Sprintf(" %s %v→%v", x.Argument, x.Have, x.Want)
		}
		if x.Policy != "" {
			line += " by " + x.Policy
		}
		lines = append(lines, line+": "+string(x.Do))
	}
	return strings.Join(lines, "\n")
}

func TestCompare(t *testing.T) {
	t.Parallel()
	q := func(l *Live) *LiveQueue { return &l.Queues[0] }
	for _, c := range []struct {
		name   string
		change func(*Plan, *Live)
		want   string
	}{
		{"nothing", func(*Plan, *Live) {}, ""},
		{"all is missing", func(_ *Plan, l *Live) { *l = Live{} },
			"missing exchange x: declare\nmissing exchange y: declare\nmissing exchange theirs: ask\nmissing queue q: declare\nmissing queue plain: declare\n" +
				"missing queue foreign: ask\nmissing binding q: declare\nmissing binding y: declare"},
		{"kind of an exchange", func(_ *Plan, l *Live) { l.Exchanges[0].Type = "direct" }, "differs exchange x type direct→topic: recreate"},
		{"kind of somebody else's exchange", func(_ *Plan, l *Live) { l.Exchanges[2].Type = "direct" }, ""},
		{"alternate exchange", func(_ *Plan, l *Live) { l.Exchanges[0].Args = nil }, "differs exchange x alternate-exchange <nil>→y: recreate"},
		{"exchange that goes away", func(_ *Plan, l *Live) {
			l.Exchanges[1].Durable, l.Exchanges[1].AutoDelete, l.Exchanges[1].Internal = false, true, true
		},
			"differs exchange y durable false→true: recreate\ndiffers exchange y auto_delete true→false: recreate\ndiffers exchange y internal true→false: recreate"},
		{"argument", func(_ *Plan, l *Live) { q(l).Args = q(l).Args.with("x-message-ttl", json.Number("6000")) }, "differs queue q x-message-ttl 6000→5000: migrate"},
		{"argument of another type of number", func(_ *Plan, l *Live) { q(l).Args = q(l).Args.with("x-message-ttl", json.Number("5000")) }, ""},
		{"argument too many", func(_ *Plan, l *Live) { q(l).Args = q(l).Args.with("x-max-length", 1) }, "differs queue q x-max-length 1→<nil>: migrate"},
		{"queue that goes away", func(_ *Plan, l *Live) { q(l).Durable, q(l).AutoDelete, q(l).Exclusive = false, true, true },
			"differs queue q durable false→true: migrate\ndiffers queue q auto_delete true→false: migrate\ndiffers queue q exclusive true→false: migrate"},
		{"queue of somebody else", func(_ *Plan, l *Live) { l.Queues[2].Args = Args{"x-max-length": 1} }, ""},
		{"type that is said", func(_ *Plan, l *Live) { l.Queues[1].Args = Args{"x-queue-type": "classic"} }, ""},
		{"other type", func(_ *Plan, l *Live) { l.Queues[1].Args = Args{"x-queue-type": "quorum"} }, "differs queue plain x-queue-type quorum→classic: migrate"},
		{"type that the broker adds", func(_ *Plan, l *Live) { l.DefaultType = "quorum"; l.Queues[1].Args = Args{"x-queue-type": "quorum"} }, ""},
		{"type that the broker did not add", func(_ *Plan, l *Live) { l.DefaultType = "quorum" }, "differs queue plain x-queue-type classic→quorum: migrate"},
		{"old key", func(_ *Plan, l *Live) {
			l.Bindings = append(l.Bindings, Binding{Source: "x", Destination: "q", Key: "old"}, Binding{Source: "x", Destination: "foreign", Key: "old"},
				Binding{Source: "theirs", Destination: "x", ToExchange: true}, Binding{Source: "x", Destination: "another", Key: "old"})
		}, "unexpected binding q: unbind"},
		{"policy that lowers", func(_ *Plan, l *Live) {
			l.Policies = []Policy{{Name: "p", Pattern: "^q$", ApplyTo: "queues", Definition: Args{"message-ttl": 100, "dead-letter-exchange": "z"}}}
		}, "overridden queue q dead-letter-exchange z→<nil> by p: policy\noverridden queue q message-ttl 100→5000 by p: policy"},
		{"policy that changes nothing", func(_ *Plan, l *Live) {
			l.Policies = []Policy{{Name: "p", Pattern: "^q$", ApplyTo: "queues", Definition: Args{"message-ttl": 9000, "ha-sync-mode": "manual"}}}
		}, ""},
		{"policy that undoes at-least-once", func(_ *Plan, l *Live) {
			l.Policies = []Policy{{Name: "p", Pattern: "", ApplyTo: "all", Definition: Args{"overflow": "drop-head"}}}
			l.Queues = l.Queues[:1]
		}, "missing queue plain: declare\nmissing queue foreign: ask\noverridden queue q overflow drop-head→reject-publish by p: policy"},
		{"policy of an operator", func(_ *Plan, l *Live) {
			l.OperatorPolicies = []Policy{{Name: "o", Pattern: "^plain$", ApplyTo: "queues", Definition: Args{"max-length": 3}}}
		}, "overridden queue plain max-length 3→<nil> by o: policy"},
		{"policy for an exchange", func(_ *Plan, l *Live) {
			l.Policies = []Policy{{Name: "p", Pattern: "", ApplyTo: "exchanges", Definition: Args{"alternate-exchange": "z"}}}
		}, "overridden exchange y alternate-exchange z→<nil> by p: policy"},
		{"policy in the place of an argument", func(_ *Plan, l *Live) {
			q(l).Args = Args{"x-queue-type": "quorum", "x-overflow": "reject-publish"}
			l.Policies = []Policy{{Name: "p", Pattern: "^q$", ApplyTo: "queues", Definition: Args{"message-ttl": 5000}}}
		}, "differs queue q x-message-ttl <nil>→5000 by p: migrate"},
		{"planned policies are there", func(p *Plan, l *Live) { *p = p.ByPolicy(5); *l = exists(*p) }, ""},
		{"planned policy is missing", func(p *Plan, l *Live) {
			*p = p.ByPolicy(5)
			*l = exists(*p)
			l.Policies = l.Policies[:1]
			l.ApplyPolicies()
		},
			"missing policy rehop:queue:q: declare"},
		{"planned policy differs", func(p *Plan, l *Live) {
			*p = p.ByPolicy(5)
			*l = exists(*p)
			l.Policies = append([]Policy(nil), l.Policies...)
			l.Policies[1].Definition = Args{"message-ttl": 1, "overflow": "reject-publish"}
			l.Policies[0].Priority = 1
		}, "differs policy rehop:exchange:x priority 1→5: policy\ndiffers policy rehop:queue:q message-ttl 1→5000: policy"},
		{"planned policy is outdone", func(p *Plan, l *Live) {
			*p = p.ByPolicy(5)
			*l = exists(*p)
			l.Policies = append(l.Policies, Policy{Name: "their", Pattern: "", ApplyTo: "queues", Priority: 9, Definition: Args{"max-length": 1}})
			l.Queues = append(l.Queues[:1:1], l.Queues[2])
		}, "missing queue plain: declare\noverridden queue q max-length 1→<nil> by their: policy\noverridden queue q message-ttl <nil>→5000 by their: policy\n" +
			"overridden queue q overflow <nil>→reject-publish by their: policy"},
		{"old steps", func(_ *Plan, l *Live) {
			l.Queues = append(l.Queues, LiveQueue{Queue: Queue{Name: "step.empty"}}, LiveQueue{Queue: Queue{Name: "step.full"}, Ready: 1},
				LiveQueue{Queue: Queue{Name: "step.used"}, Consumers: 1}, LiveQueue{Queue: Queue{Name: "step.unacked"}, Unacked: 1}, LiveQueue{Queue: Queue{Name: "other"}})
		}, "superfluous queue step.empty: delete"},
		{"through AMQP alone", func(p *Plan, l *Live) {
			*l = Live{Partial: true, Exchanges: l.Exchanges, Queues: l.Queues[1:]}
			p.Policies = []Policy{{Name: "p", Pattern: "", ApplyTo: "all", Definition: Args{"expires": 1}}}
		}, "missing queue q: declare\nunchecked policy p: check\nunchecked bindings : check"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			plan, live := planned(), exists(planned())
			c.change(&plan, &live)
			live.ApplyPolicies()
			if got := brief(Compare(plan, live, steps)); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestDiffIsReadable(t *testing.T) {
	t.Parallel()
	plan, live := planned(), exists(planned())
	live.Queues[0].Args = live.Queues[0].Args.with("x-message-ttl", 6000)
	live.Bindings = append(live.Bindings[1:], Binding{Source: "x", Destination: "q", Key: "old", Args: Args{"x-match": "all", "n": 1}})
	diff := Compare(plan, live, steps)
	want := `missing: binding of exchange "x" to queue "q" with key "new"; declare it
differs: queue "q": x-message-ttl is 6000, planned is 5000; use it unchanged as an existing queue, or migrate it; until then, declaring it fails
unexpected: binding of exchange "x" to queue "q" with key "old" and n = 1, x-match = "all"; remove the binding unless it is needed: it brings messages that the plan does not have
`
	if got := diff.String(); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if got := (Diff{}).String(); got != "no differences\n" {
		t.Errorf("no differences: got %q", got)
	}
	if got := len(diff.Of(Differs, Unexpected)); got != 2 {
		t.Errorf("of two kinds: got %d, want 2", got)
	}
	text, err := json.Marshal(diff[1])
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(text), `{"kind":"differs","object":{"kind":"queue","name":"q"},"argument":"x-message-ttl","want":5000,"have":6000,"do":"migrate",`; !strings.HasPrefix(got, want) {
		t.Errorf("as JSON: got %s, want %s…", got, want)
	}
}

func TestMissingIsWhatCanBeDeclared(t *testing.T) {
	t.Parallel()
	plan := planned()
	live := exists(plan)
	live.Exchanges, live.Queues = live.Exchanges[:1], live.Queues[1:]
	live.Bindings = live.Bindings[1:]
	part := plan.Missing(Compare(plan, live, steps))
	if len(part.Exchanges) != 1 || part.Exchanges[0].Name != "y" || len(part.Queues) != 1 || part.Queues[0].Name != "q" ||
		len(part.Bindings) != 1 || part.Bindings[0].Key != "new" {
		t.Errorf("got %+v, want exchange y, queue q and the binding with key new", part)
	}
}

package topology_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/rehop/rehop/topology"
)

func sample() topology.Plan {
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: "x", Type: "topic", Args: topology.Args{"alternate-exchange": "y"}}, {Name: "y", Type: "fanout", Internal: true}},
		Queues:    []topology.Queue{{Name: "q", Args: topology.Args{"x-queue-type": "quorum", "x-message-ttl": int64(5)}}, {Name: "r", Exclusive: true}},
		Bindings: []topology.Binding{
			{Source: "x", Destination: "q", Key: "a"},
			{Source: "x", Destination: "q", Key: "b"},
			{Source: "x", Destination: "y", ToExchange: true, Args: topology.Args{"x-match": "all"}},
		},
	}
}

func merged(t *testing.T, p topology.Plan, parts ...topology.Plan) topology.Plan {
	t.Helper()
	for _, part := range parts {
		if err := p.Merge(part); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestMergeIsIdempotent(t *testing.T) {
	t.Parallel()
	if got := merged(t, sample(), sample(), topology.Plan{}); !reflect.DeepEqual(got, sample()) {
		t.Errorf("got %+v, want %+v", got, sample())
	}
	if got := merged(t, topology.Plan{}, sample()); !reflect.DeepEqual(got, sample()) {
		t.Errorf("merged into nothing: got %+v, want %+v", got, sample())
	}
}

func TestMergeKeepsOrder(t *testing.T) {
	t.Parallel()
	p := merged(t, topology.Plan{Exchanges: []topology.Exchange{{Name: "a"}, {Name: "b"}}},
		topology.Plan{Exchanges: []topology.Exchange{{Name: "c"}, {Name: "a"}, {Name: "d"}}, Queues: []topology.Queue{{Name: "q"}},
			Bindings: []topology.Binding{{Source: "a", Destination: "q"}, {Source: "a", Destination: "q"}}})
	var names []string
	for _, x := range p.Exchanges {
		names = append(names, x.Name)
	}
	if got := strings.Join(names, " "); got != "a b c d" {
		t.Errorf("exchanges: got %s, want a b c d", got)
	}
	if got := len(p.Bindings); got != 1 {
		t.Errorf("bindings: got %d, want 1", got)
	}
}

func TestMergeRefusesContradictions(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]topology.Plan{
		"exchange kind":      {Exchanges: []topology.Exchange{{Name: "x", Type: "direct", Args: topology.Args{"alternate-exchange": "y"}}}},
		"exchange argument":  {Exchanges: []topology.Exchange{{Name: "x", Type: "topic"}}},
		"exchange internal":  {Exchanges: []topology.Exchange{{Name: "y", Type: "fanout"}}},
		"queue argument":     {Queues: []topology.Queue{{Name: "q", Args: topology.Args{"x-queue-type": "quorum", "x-message-ttl": int64(6)}}}},
		"argument's type":    {Queues: []topology.Queue{{Name: "q", Args: topology.Args{"x-queue-type": "quorum", "x-message-ttl": "5"}}}},
		"queue exclusive":    {Queues: []topology.Queue{{Name: "r"}}},
		"queue auto-deleted": {Queues: []topology.Queue{{Name: "r", Exclusive: true, AutoDelete: true}}},
	} {
		p := sample()
		if err := p.Merge(q); err == nil {
			t.Errorf("%s: got %+v, want an error: two plans would declare it differently", name, p)
		}
	}
}

// What nobody has set is no reason to panic: users build these values too.
func TestCompareTakesZeroValues(t *testing.T) {
	t.Parallel()
	all := topology.Plan{Exchanges: []topology.Exchange{{}}, Queues: []topology.Queue{{}}, Bindings: []topology.Binding{{}}, Policies: []topology.Policy{{}}}
	live := topology.Live{Exchanges: []topology.LiveExchange{{}}, Queues: []topology.LiveQueue{{}}, Bindings: []topology.Binding{{}}, Policies: []topology.Policy{{}}}
	live.ApplyPolicies()
	if got := topology.Compare(topology.Plan{}, topology.Live{}, nil); len(got) != 0 {
		t.Errorf("nothing compared with nothing: got %v, want no differences", got)
	}
	if got := topology.Compare(all, topology.Live{}, nil).Of(topology.Missing); len(got) != 4 {
		t.Errorf("a plan compared with an empty broker: got %v, want 4 missing objects", got)
	}
	if got := topology.Compare(topology.Plan{}, live, nil); len(got) != 0 {
		t.Errorf("an empty plan: got %v, want no differences, since no queue is rehop's own", got)
	}
	if got := topology.Compare(all, live, nil).Of(topology.Missing); len(got) != 0 {
		t.Errorf("what exists is reported as missing: %v", got)
	}
	if got := all.Missing(nil); !got.Empty() {
		t.Errorf("without a diff nothing is missing, got %+v", got)
	}
}

func TestBindingEqual(t *testing.T) {
	t.Parallel()
	b := topology.Binding{Source: "x", Destination: "q", Key: "k", Args: topology.Args{"a": "1"}}
	if !b.Equal(topology.Binding{Source: "x", Destination: "q", Key: "k", Args: topology.Args{"a": "1"}}) {
		t.Error("equal bindings: got false, want true")
	}
	if none := (topology.Binding{}); !none.Equal(topology.Binding{Args: topology.Args{}}) {
		t.Error("no arguments and empty arguments: got false, want true: they are the same to the broker")
	}
	for _, c := range []topology.Binding{
		{Source: "y", Destination: "q", Key: "k", Args: topology.Args{"a": "1"}}, {Source: "x", Destination: "r", Key: "k", Args: topology.Args{"a": "1"}},
		{Source: "x", Destination: "q", Key: "l", Args: topology.Args{"a": "1"}}, {Source: "x", Destination: "q", Key: "k", Args: topology.Args{"a": "2"}},
		{Source: "x", Destination: "q", Key: "k"}, {Source: "x", Destination: "q", Key: "k", ToExchange: true, Args: topology.Args{"a": "1"}},
	} {
		if b.Equal(c) || c.Equal(b) {
			t.Errorf("%+v and %+v: got equal, want different", b, c)
		}
	}
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	if got := (topology.Plan{}).Empty(); !got {
		t.Error("empty plan: got false, want true")
	}
	for _, p := range []topology.Plan{{Exchanges: []topology.Exchange{{}}}, {Queues: []topology.Queue{{}}}, {Bindings: []topology.Binding{{}}}} {
		if p.Empty() {
			t.Errorf("%+v: got empty, want not", p)
		}
	}
}

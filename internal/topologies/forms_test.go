package topologies

import (
	"errors"
	"reflect"
	"testing"

	"github.com/rehop/rehop/topology"
)

func TestFit(t *testing.T) {
	t.Parallel()
	newer := topology.Plan{
		Exchanges: []topology.Exchange{{Name: "x", Type: "topic"}},
		Queues:    []topology.Queue{{Name: "q"}, {Name: "retry", Args: topology.Args{"x-dead-letter-routing-key": "q"}}},
		Bindings:  []topology.Binding{{Source: "x", Destination: "q", Key: "k"}, {Source: "x", Destination: "q", Key: "q"}},
	}
	older := topology.Plan{
		Exchanges: []topology.Exchange{{Name: "x", Type: "topic"}, {Name: "y", Type: "fanout"}},
		Queues:    []topology.Queue{{Name: "q"}, {Name: "retry"}},
		Bindings:  []topology.Binding{{Source: "x", Destination: "q", Key: "k"}, {Source: "y", Destination: "retry"}},
	}
	other := topology.Plan{Queues: []topology.Queue{{Name: "other"}}, Bindings: []topology.Binding{{Source: "x", Destination: "other", Key: "q"}}}
	var plan topology.Plan
	for _, err := range []error{plan.Merge(other), MergeForms(&plan, newer, older), plan.Merge(topology.Plan{Queues: []topology.Queue{{Name: "last"}}})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	whole := func(form topology.Plan) topology.Plan {
		p := other
		Add(&p, form)
		p.Queues = append(p.Queues[:len(p.Queues):len(p.Queues)], topology.Queue{Name: "last"})
		return p
	}
	// In another plan, the forms are those of its part.
	var merged topology.Plan
	Add(&merged, plan)
	failure := errors.New("the broker is gone")
	for _, c := range []struct {
		name string
		fits func(topology.Plan) (bool, error)
		want topology.Plan
		err  error
	}{
		{"the newer one", func(topology.Plan) (bool, error) { return true, nil }, whole(newer), nil},
		{"the older one", func(p topology.Plan) (bool, error) { return len(p.Queues[0].Args) == 0, nil }, whole(older), nil},
		{"none", func(topology.Plan) (bool, error) { return false, nil }, whole(newer), nil},
		{"an error", func(topology.Plan) (bool, error) { return false, failure }, merged, failure},
	} {
		var asked []string
		got, err := Fit(merged, func(p topology.Plan) (bool, error) {
			for _, q := range p.Queues {
				asked = append(asked, q.Name)
			}
			return c.fits(p)
		})
		if !errors.Is(err, c.err) || !sameObjects(got, c.want) {
			t.Errorf("%s: got %+v, %v, want %+v, %v", c.name, got, err, c.want, c.err)
		}
		for _, name := range asked {
			if name != "retry" {
				t.Errorf("%s: asked about queue %q, which is the same in both forms", c.name, name)
			}
		}
	}
	if !sameObjects(plan, whole(newer)) {
		t.Errorf("after all that the plan is %+v, want %+v", plan, whole(newer))
	}
}

// sameObjects compares what plans have, in any order.
func sameObjects(p, q topology.Plan) bool {
	has := func(p, q topology.Plan) bool {
		before := p
		return p.Merge(q) == nil && len(p.Exchanges) == len(before.Exchanges) && len(p.Queues) == len(before.Queues) && len(p.Bindings) == len(before.Bindings) &&
			reflect.DeepEqual(p.Policies, before.Policies)
	}
	return has(p, q) && has(q, p)
}

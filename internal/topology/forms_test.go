package topology

import (
	"errors"
	"reflect"
	"testing"
)

func TestFit(t *testing.T) {
	t.Parallel()
	newer := Plan{
		Exchanges: []Exchange{{Name: "x", Kind: "topic"}},
		Queues:    []Queue{{Name: "q"}, {Name: "retry", Args: Args{"x-dead-letter-routing-key": "q"}}},
		Bindings:  []Binding{{Source: "x", Destination: "q", Key: "k"}, {Source: "x", Destination: "q", Key: "q"}},
	}
	older := Plan{
		Exchanges: []Exchange{{Name: "x", Kind: "topic"}, {Name: "y", Kind: "fanout"}},
		Queues:    []Queue{{Name: "q"}, {Name: "retry"}},
		Bindings:  []Binding{{Source: "x", Destination: "q", Key: "k"}, {Source: "y", Destination: "retry"}},
	}
	other := Plan{Queues: []Queue{{Name: "other"}}, Bindings: []Binding{{Source: "x", Destination: "other", Key: "q"}}}
	var plan Plan
	for _, err := range []error{plan.Merge(other), plan.MergeForms(newer, older), plan.Merge(Plan{Queues: []Queue{{Name: "last"}}})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	whole := func(form Plan) Plan {
		p := other
		p.Add(form)
		p.Queues = append(p.Queues[:len(p.Queues):len(p.Queues)], Queue{Name: "last"})
		return p
	}
	// In another plan, the forms are those of its part.
	var merged Plan
	merged.Add(plan)
	failure := errors.New("the broker is gone")
	for _, c := range []struct {
		name string
		fits func(Plan) (bool, error)
		want Plan
		err  error
	}{
		{"the newer one", func(Plan) (bool, error) { return true, nil }, whole(newer), nil},
		{"the older one", func(p Plan) (bool, error) { return len(p.Queues[0].Args) == 0, nil }, whole(older), nil},
		{"none", func(Plan) (bool, error) { return false, nil }, whole(newer), nil},
		{"an error", func(Plan) (bool, error) { return false, failure }, merged, failure},
	} {
		var asked []string
		got, err := merged.Fit(func(p Plan) (bool, error) {
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
func sameObjects(p, q Plan) bool {
	has := func(p, q Plan) bool {
		before := p
		return p.Merge(q) == nil && len(p.Exchanges) == len(before.Exchanges) && len(p.Queues) == len(before.Queues) && len(p.Bindings) == len(before.Bindings) &&
			reflect.DeepEqual(p.Policies, before.Policies)
	}
	return has(p, q) && has(q, p)
}

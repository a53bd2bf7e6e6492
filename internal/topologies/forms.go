package topologies

import (
	"reflect"
	"slices"

	"github.com/rehop/rehop/topology"
)

// MergeForms merges a part of the plan that brokers have in several forms, the preferred first. The plan has it
// in that form; Fit chooses between them.
func MergeForms(p *topology.Plan, forms ...topology.Plan) error {
	if err := p.Merge(forms[0]); err != nil {
		return err
	}
	if len(forms) > 1 {
		p.Alternatives = append(slices.Clip(p.Alternatives), notCommon(forms))
	}
	return nil
}

// notCommon is what is not the same in all forms.
func notCommon(forms []topology.Plan) []topology.Plan {
	parts := make([]topology.Plan, len(forms))
	for i, form := range forms {
		parts[i] = topology.Plan{
			Exchanges: notInAll(form.Exchanges, forms, func(p topology.Plan) []topology.Exchange { return p.Exchanges }),
			Queues:    notInAll(form.Queues, forms, func(p topology.Plan) []topology.Queue { return p.Queues }),
			Bindings:  notInAll(form.Bindings, forms, func(p topology.Plan) []topology.Binding { return p.Bindings }),
			Policies:  notInAll(form.Policies, forms, func(p topology.Plan) []topology.Policy { return p.Policies }),
		}
	}
	return parts
}

func notInAll[T any](objects []T, forms []topology.Plan, of func(topology.Plan) []T) (some []T) {
	for _, x := range objects {
		lacks := func(form topology.Plan) bool {
			return !slices.ContainsFunc(of(form), func(y T) bool { return reflect.DeepEqual(x, y) })
		}
		if slices.ContainsFunc(forms, lacks) {
			some = append(some, x)
		}
	}
	return some
}

// Fit is the plan with each part in the first of its forms that fits; fits is called with what differs between
// the forms. A part of which none fits is in the preferred form.
func Fit(p topology.Plan, fits func(form topology.Plan) (bool, error)) (topology.Plan, error) {
	for _, forms := range p.Alternatives {
		for _, form := range forms {
			ok, err := fits(form)
			if err != nil {
				return p, err
			}
			if ok {
				p = inPlaceOf(p, forms[0], form)
				break
			}
		}
	}
	p.Alternatives = nil
	return p, nil
}

// inPlaceOf is the plan with one form in place of another. What is in neither stays.
func inPlaceOf(p, old, with topology.Plan) topology.Plan {
	p.Exchanges = exchanged(p.Exchanges, old.Exchanges, with.Exchanges, func(a, b topology.Exchange) bool { return a.Name == b.Name })
	p.Queues = exchanged(p.Queues, old.Queues, with.Queues, func(a, b topology.Queue) bool { return a.Name == b.Name })
	p.Bindings = exchanged(p.Bindings, old.Bindings, with.Bindings, topology.Binding.Equal)
	p.Policies = exchanged(p.Policies, old.Policies, with.Policies, func(a, b topology.Policy) bool { return a.Name == b.Name })
	return p
}

func exchanged[T any](have, old, with []T, same func(a, b T) bool) []T {
	find := func(all []T, x T) int { return slices.IndexFunc(all, func(y T) bool { return same(x, y) }) }
	have = slices.Clone(have)
	for _, x := range old {
		at, in := find(have, x), find(with, x)
		switch {
		case at < 0:
		case in < 0:
			have = slices.Delete(have, at, at+1)
		default:
			have[at] = with[in]
		}
	}
	for _, x := range with {
		if find(have, x) < 0 {
			have = append(have, x)
		}
	}
	return have
}

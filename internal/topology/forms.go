package topology

import (
	"reflect"
	"slices"
)

// MergeForms merges a part of the plan that brokers have in several forms, the preferred first. The plan has it in that form; Fit chooses between them.
func (p *Plan) MergeForms(forms ...Plan) error {
	if err := p.Merge(forms[0]); err != nil {
		return err
	}
	if len(forms) > 1 {
		p.forms = append(slices.Clip(p.forms), differing(forms))
	}
	return nil
}

// differing is what is not the same in all forms.
func differing(forms []Plan) []Plan {
	parts := make([]Plan, len(forms))
	for i, form := range forms {
		parts[i] = Plan{
			Exchanges: notInAll(form.Exchanges, forms, func(p Plan) []Exchange { return p.Exchanges }),
			Queues:    notInAll(form.Queues, forms, func(p Plan) []Queue { return p.Queues }),
			Bindings:  notInAll(form.Bindings, forms, func(p Plan) []Binding { return p.Bindings }),
			Policies:  notInAll(form.Policies, forms, func(p Plan) []Policy { return p.Policies }),
		}
	}
	return parts
}

func notInAll[T any](objects []T, forms []Plan, of func(Plan) []T) (some []T) {
	for _, x := range objects {
		lacks := func(form Plan) bool {
			return !slices.ContainsFunc(of(form), func(y T) bool { return reflect.DeepEqual(x, y) })
		}
		if slices.ContainsFunc(forms, lacks) {
			some = append(some, x)
		}
	}
	return some
}

// Fit is the plan with each part that has several forms in the first of them that fits, of which fits is asked with what differs between the forms. A
// part of which none fits is in the preferred form.
func (p Plan) Fit(fits func(form Plan) (bool, error)) (Plan, error) {
	for _, forms := range p.forms {
		for _, form := range forms {
			ok, err := fits(form)
			if err != nil {
				return p, err
			}
			if ok {
				p = p.exchange(forms[0], form)
				break
			}
		}
	}
	p.forms = nil
	return p, nil
}

// exchange has one form in place of another. What is in neither stays.
func (p Plan) exchange(old, with Plan) Plan {
	p.Exchanges = exchanged(p.Exchanges, old.Exchanges, with.Exchanges, func(a, b Exchange) bool { return a.Name == b.Name })
	p.Queues = exchanged(p.Queues, old.Queues, with.Queues, func(a, b Queue) bool { return a.Name == b.Name })
	p.Bindings = exchanged(p.Bindings, old.Bindings, with.Bindings, Binding.Equal)
	p.Policies = exchanged(p.Policies, old.Policies, with.Policies, func(a, b Policy) bool { return a.Name == b.Name })
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

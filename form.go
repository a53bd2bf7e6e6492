package rehop

import (
	"reflect"

	"github.com/rehop/rehop/internal/consume"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/topology"
)

// forms are the forms of the subscription's layout, the newest first.
func (s Subscriber) forms(native layouts.Native) ([]consume.Form, error) {
	var all []consume.Form
	for _, l := range layouts.Forms(s.layout(), s.queueSpec()) {
		s.Layout = l
		plan, err := s.plan(native)
		if err != nil {
			return nil, err
		}
		ways, err := layouts.RetryPlan(s.layout(), native, s.queueSpec(), s.Retry.fixed())
		if err != nil {
			return nil, err
		}
		if len(all) == 0 || !reflect.DeepEqual(plan, all[len(all)-1].Plan) {
			all = append(all, consume.Form{Plan: plan, RetryPlan: ways})
		}
	}
	return all, nil
}

// plansOf are what each form declares.
func plansOf(forms []consume.Form) []topology.Plan {
	plans := make([]topology.Plan, len(forms))
	for i, f := range forms {
		plans[i] = f.Plan
	}
	return plans
}

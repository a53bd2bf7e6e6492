package rehop

import (
	"context"
	"reflect"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// form is what a subscription declares if the fleet that shares its layout has it in this form.
type form struct {
	plan topology.Plan
	ways topology.Plan // what a failed message needs, without the queue itself
}

// forms are the forms of the subscription's layout, the newest first.
func (s Subscriber) forms(native layouts.Native) ([]form, error) {
	var all []form
	for _, l := range layouts.Forms(s.layout(), s.queueSpec()) {
		s.Layout = l
		plan, err := s.plan(native)
		if err != nil {
			return nil, err
		}
		ways, err := layouts.Ways(s.layout(), native, s.queueSpec(), s.Retry.fixed())
		if err != nil {
			return nil, err
		}
		if len(all) == 0 || !reflect.DeepEqual(plan, all[len(all)-1].plan) {
			all = append(all, form{plan, ways})
		}
	}
	return all, nil
}

// plansOf are what each form declares.
func plansOf(forms []form) []topology.Plan {
	plans := make([]topology.Plan, len(forms))
	for i, f := range forms {
		plans[i] = f.plan
	}
	return plans
}

// openForm declares what the subscription needs in the form that the broker has, and starts a consumer. The first form that the broker does not
// refuse is the one: where there is nothing yet, the newest. It may be another one at the next connection, which may be to another broker.
func (s *Subscription) openForm(ctx context.Context, prefetch int) (*rabbit.Session, error) {
	var first error
	for i := range s.forms {
		options := s.options
		options.Plan = s.forms[i].plan
		session, err := s.client.consume.OpenSession(ctx, options, prefetch)
		if err == nil {
			s.form.Store(&s.forms[i])
			return session, nil
		}
		if first == nil {
			first = err
		}
		if !rabbit.Differs(err) {
			return nil, err
		}
	}
	return nil, first
}

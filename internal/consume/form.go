package consume

import (
	"cmp"
	"context"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// Form is what a subscription declares if the programs that share its layout use this form.
type Form struct {
	Plan      topology.Plan
	RetryPlan topology.Plan // what failed messages need, without the queue itself
}

// openForm declares what the subscription needs in the form that the broker has, and starts a
// consumer. It uses the first form that the broker does not refuse, which on an empty broker is the
// newest. It may be another one at the next connection, which may be to another broker.
func (s *Subscription) openForm(ctx context.Context, prefetch int) (*rabbit.Session, error) {
	var first error
	for i := range s.settings.Forms {
		form := &s.settings.Forms[i]
		options := s.settings.Options
		options.Plan = form.Plan
		session, err := s.shared.Consume.OpenSession(ctx, options, prefetch)
		if err == nil {
			s.form.Store(form)
			return session, nil
		}
		first = cmp.Or(first, err)
		if !rabbit.Differs(err) {
			return nil, err
		}
	}
	return nil, first
}

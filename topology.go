package rehop

import (
	"context"
	"fmt"

	"github.com/rehop/rehop/layout"
)

// Topology is everything that a client with this config and these subscriptions declares on its broker, as a
// value. Package admin compares it with a broker and applies it (Admin.Diff, Admin.Apply); the plan itself can be
// written as RabbitMQ's definitions (Definitions), and drawn (SVG, Mermaid). It has policies for subscriptions that say so
// (Subscriber.PolicyPriority). Subscriptions need no handler for that.
//
// A layout that fleets have in several forms (layout.Forms) is in the newest one. Diff and Apply choose the form that the broker has, as subscriptions do.
//
// Cascades are not in it: whoever has a delay for which there is no step declares the levels then.
func Topology(config Config, subscriptions ...Subscriber) (layout.Plan, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return layout.Plan{}, fmt.Errorf("rehop: config: %w", err)
	}
	native := layout.Native{Type: config.QueueType}
	plan, err := config.exchanges(native)
	if err != nil {
		return plan, fmt.Errorf("rehop: config: %w", err)
	}
	for _, s := range subscriptions {
		if s.Handler == nil {
			s.Handler = HandlerFunc(func(context.Context, *Delivery) error { return nil })
		}
		s = s.withDefaults(native)
		if err := s.validate(); err != nil {
			return layout.Plan{}, fmt.Errorf("rehop: subscription %q: %w", s.Queue, err)
		}
		forms, err := s.forms(native)
		if err == nil {
			err = plan.MergeForms(plansOf(forms)...)
		}
		if err != nil {
			return plan, fmt.Errorf("rehop: subscription %q: %w", s.Queue, err)
		}
	}
	return plan, nil
}

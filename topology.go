package rehop

import (
	"context"
	"fmt"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/topology"
)

// Topology is everything that a client with this config and these subscriptions declares on its broker, as a
// value. Package admin compares it with a broker and applies it (Admin.Diff, Admin.Apply); the plan itself can be
// written as RabbitMQ's definitions (Definitions), and drawn (SVG, Mermaid). It has policies for subscriptions that say so
// (Subscriber.PolicyPriority). Subscriptions need no handler for that.
//
// A layout that fleets have in several forms (layout.PubSub, layout.Sneakers) is in the newest one. Diff and Apply choose the form that the broker has, as subscriptions do.
//
// Cascades are not in it: whoever has a delay for which there is no step declares the levels then.
func Topology(config Config, subscriptions ...Subscriber) (topology.Plan, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return topology.Plan{}, fmt.Errorf("rehop: config: %w", err)
	}
	native := layouts.Native{Type: config.QueueType}
	plan, err := config.exchanges(native)
	if err != nil {
		return plan, fmt.Errorf("rehop: config: %w", err)
	}
	for _, s := range subscriptions {
		if s.Handler == nil && s.Batch.Handle == nil {
			s.Handler = HandlerFunc(func(context.Context, *Delivery) error { return nil })
		}
		s = s.withDefaults(native)
		if err := s.validate(); err != nil {
			return topology.Plan{}, fmt.Errorf("rehop: subscription %q: %w", s.Queue, err)
		}
		forms, err := s.forms(native)
		if err == nil {
			err = topologies.MergeForms(&plan, plansOf(forms)...)
		}
		if err != nil {
			return plan, fmt.Errorf("rehop: subscription %q: %w", s.Queue, err)
		}
	}
	return plan, nil
}

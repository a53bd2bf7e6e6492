package rehop

import (
	"context"
	"fmt"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/topology"
)

// Topology returns everything that a client with this config and these subscriptions declares, as a
// value. Nothing is sent to a broker, and the subscriptions need no handler. Package admin compares the
// plan with a broker and applies it (Admin.Diff, Admin.Apply). The plan can be exported as RabbitMQ's
// definitions (Definitions) and drawn (SVG, Mermaid). It has policies for subscriptions with a
// PolicyPriority.
//
// A layout that exists in several forms (layout.PubSub, layout.Sneakers) is in the newest one. Diff and
// Apply choose the form that the broker has, as subscriptions do.
//
// The plan does not have the delay queues of the cascade: they are declared when a delay first needs
// them.
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

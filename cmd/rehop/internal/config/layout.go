package config

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// layout reads the name of a layout, or a mapping from that name to its settings.
func (r *reader) layout(to *layout.Layout) func(*yaml.Node) {
	var (
		tiers    layout.Tiers
		pubsub   layout.PubSub
		dlx      layout.DLX
		sneakers layout.Sneakers
		envelope layout.Envelope
	)
	kinds := map[string]struct {
		keys keys
		made func() layout.Layout
	}{
		"native": {nil, func() layout.Layout { return nil }}, // the client's own
		"tiers": {keys{"name": r.text(&tiers.Name), "tiers": r.periods(&tiers.Tiers), "waits": r.periods(&tiers.Waits),
			"queue-type": choice(r, &tiers.Type, layout.Quorum, layout.Classic)}, func() layout.Layout { return tiers }},
		"pubsub": {keys{"delay": r.period(&pubsub.Delay), "form": choice(r, &pubsub.Form, layout.PubSubByQueue, layout.PubSubByKey)}, func() layout.Layout { return pubsub }},
		"dlx": {keys{"name": r.text(&dlx.Name), "queue": r.text(&dlx.Queue), "queue-arguments": r.arguments(&dlx.QueueArgs)},
			func() layout.Layout { return dlx }},
		"sneakers": {keys{"delay": r.period(&sneakers.Delay), "retries": r.count(&sneakers.Retries), "reject": r.whether(&sneakers.Reject),
			"document":   r.whether(&sneakers.Document),
			"retry-name": r.text(&sneakers.RetryName), "error-name": r.text(&sneakers.ErrorName),
			"requeue-name": r.text(&sneakers.RequeueName), "requeue-key": r.text(&sneakers.RequeueKey), "retry-arguments": r.arguments(&sneakers.RetryArgs)}, func() layout.Layout { return sneakers }},
		"envelope": {keys{"name": r.text(&envelope.Name), "delay": r.period(&envelope.Delay), "retries": r.count(&envelope.Retries),
			"delivery-limit": r.count(&envelope.DeliveryLimit), "require-id": r.whether(&envelope.RequireID)}, func() layout.Layout { return envelope }},
	}
	return func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode {
			n = &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Content: []*yaml.Node{n, {Kind: yaml.MappingNode, Line: n.Line}}}
		}
		chosen := 0
		r.named(n, "layout", func(name string, key, value *yaml.Node) {
			kind, ok := kinds[name]
			if !ok {
				r.unknown(key, "layout", "layout", slices.Sorted(maps.Keys(kinds)))
				return
			}
			if chosen++; chosen > 1 {
				r.fault(key, "layout has more than one name")
				return
			}
			at := r.mapping(value, "layout "+name, kind.keys)
			at.self = key
			if *to = kind.made(); *to != nil {
				if err := layouts.Must(*to).Validate(); err != nil {
					r.blame(at, err, nil)
				}
			}
		})
	}
}

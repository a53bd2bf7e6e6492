package config

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop"
)

// retry reads a schedule: none, a list of delays, or a mapping.
func (r *reader) retry(to *rehop.Schedule) func(*yaml.Node) {
	return func(n *yaml.Node) {
		switch {
		case n.Kind == yaml.ScalarNode && n.Value == "none":
			*to = rehop.NoRetry()
		case n.Kind == yaml.MappingNode:
			r.schedule(n, to)
		default:
			var steps []time.Duration
			r.periods(&steps)(n)
			*to = rehop.Steps(steps...)
		}
	}
}

func (r *reader) schedule(n *yaml.Node, to *rehop.Schedule) {
	var steps []time.Duration
	var first, longest time.Duration
	var jitter float64
	var immediate int
	factor, attempts := 2.0, 0
	at := r.mapping(n, "retry", keys{
		"steps": r.periods(&steps), "first": r.period(&first), "factor": r.fraction(&factor), "max": r.period(&longest),
		"attempts": r.count(&attempts), "jitter": r.fraction(&jitter), "immediate": r.count(&immediate),
	})
	growing := false
	for _, key := range []string{"first", "factor", "max", "attempts"} {
		if _, ok := at.keys[key]; ok {
			growing = true
			if steps != nil {
				r.fault(at.at(key), "retry has steps, and %s is for delays that grow: use one or the other", key)
			}
		}
	}
	switch {
	case growing && steps == nil:
		for _, key := range []string{"first", "max", "attempts"} {
			if _, ok := at.keys[key]; !ok {
				r.fault(n, "retry: delays that grow need %s; their keys are first, factor, max and attempts", key)
			}
		}
		*to = rehop.Exponential(first, factor, longest, attempts)
	case steps != nil:
		*to = rehop.Steps(steps...)
	}
	*to = to.WithJitter(jitter).WithImmediate(immediate)
}

package topologies

import "github.com/rehop/rehop/topology"

// Add merges parts that cannot contradict the plan. It panics if one does: two parts of rehop would
// then declare the same object differently.
func Add(plan *topology.Plan, parts ...topology.Plan) {
	for _, part := range parts {
		if err := plan.Merge(part); err != nil {
			panic("topologies: " + err.Error())
		}
	}
}

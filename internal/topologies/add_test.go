package topologies

import (
	"testing"

	"github.com/rehop/rehop/topology"
)

func TestAddPanicsOnContradictions(t *testing.T) {
	t.Parallel()
	plan := topology.Plan{Queues: []topology.Queue{{Name: "q"}}}
	Add(&plan, topology.Plan{Queues: []topology.Queue{{Name: "r"}}}, topology.Plan{})
	if len(plan.Queues) != 2 {
		t.Errorf("got %+v, want the queues q and r", plan)
	}
	defer func() {
		if recover() == nil {
			t.Errorf("got %+v, want a panic: two parts of rehop would declare q differently", plan)
		}
	}()
	Add(&plan, topology.Plan{Queues: []topology.Queue{{Name: "q", Exclusive: true}}})
}

package admin

import (
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop/topology"
)

// Whether a feeder's messages can get lost is decided by the last queue on their way: the one that sends them to a name which nobody has.
func TestFeedersAreLossyByTheLastOne(t *testing.T) {
	t.Parallel()
	queue := func(name, to string, more topology.Args) topology.LiveQueue {
		q := topology.LiveQueue{Queue: topology.Queue{Name: name, Args: topology.Args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": to}}, Type: "classic"}
		for k, v := range more {
			q.Args[k], q.Type = v, "quorum"
		}
		return q
	}
	safe := topology.Args{"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
	m := &migration{want: topology.Queue{Name: "q"}}
	m.feeders = m.feedersIn(topology.Live{Queues: []topology.LiveQueue{
		queue("q", "", nil), queue("rehop.migrating.q", "q", nil),
		queue("safe", "q", safe), queue("lossy", "q", nil),
		queue("lossy then safe", "safe", nil), queue("safe then lossy", "lossy", safe),
	}})
	var got []string
	for _, f := range m.feeders {
		kind := "safe"
		if f.lossy {
			kind = "lossy"
		}
		got = append(got, f.Name+": "+kind)
	}
	if want := []string{"lossy: lossy", "safe then lossy: lossy", "safe: safe", "lossy then safe: safe"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if warnings := strings.Join(m.feederWarnings(), "\n"); !strings.Contains(warnings, `queue "safe then lossy" dead-letters to this queue by its name by way of "lossy" and holds 0`) {
		t.Errorf("got warnings %s", warnings)
	}
}

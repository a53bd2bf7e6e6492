package admining

import (
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// The nodes of a cluster are listed by name.
func TestNodes(t *testing.T) {
	t.Parallel()
	r, ctx := lab.Cluster(t), kit.Timeout(t, kit.Limit)
	a, err := admin.Open(ctx, admin.Config{URL: r.URL, Management: r.Management()})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	nodes, err := a.Nodes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes) != 3 || !slices.IsSortedFunc(nodes, func(m, n admin.Node) int { return strings.Compare(m.Name, n.Name) }) {
		t.Errorf("got %+v, want three nodes", nodes)
	}
	for _, n := range nodes {
		if !n.Running || n.MemoryAlarm || n.DiskAlarm || len(n.Partitions) > 0 || !strings.Contains(n.Name, "@") {
			t.Errorf("got %+v, want a node without trouble", n)
		}
	}
}

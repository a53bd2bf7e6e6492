package moving

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// A move to a cluster of three nodes continues through another node when the one that it uses is killed, and stays dead until the move has ended. Then
// all is on the cluster, in quorum queues, and no wait is shorter.
func TestMoveToCluster(t *testing.T) {
	together(t)
	size := scaleOf()
	for tries := 1; !moveToCluster(t, size); tries++ {
		if tries == maxTries {
			t.Fatalf("inconclusive: with waits of %v and a latency of %v, too, the move could not be disturbed, or ended too late", size.wait, size.latency)
		}
		size.wait, size.latency = 2*size.wait, 2*size.latency
		t.Logf("once more, with waits of %v and a latency of %v", size.wait, size.latency)
	}
}

func moveToCluster(t *testing.T, size scale) bool {
	t.Helper()
	r := lab.ClusterAloneOf(t, after)
	cluster := &side{Rabbit: r}
	s := newScene(t, embedded(t), cluster, size)
	// The move uses the first node, and the test one that stays.
	s.through = strings.Join(append([]string{s.through}, r.URLs[1:]...), ",")
	r.URL = r.URLs[2]
	s.fill()

	c := s.start("--to-management", r.ManagementOf(2))
	enough := (size.messages - s.waiting) / 8
	lab.Eventually(t, stepLimit, "messages are moved", func() bool { return !c.running() || s.to.depth("orders") >= enough })
	s.proxy.Freeze("")
	if !c.running() {
		s.proxy.Thaw()
		return s.tooFast(c, "a node was killed")
	}
	t.Logf("kill -9 of node %s, with %d messages in the queue", r.Nodes()[0], s.to.depth("orders"))
	r.Services("kill", r.Nodes()[0])
	s.proxy.Thaw()
	began := time.Now()
	c.wait(t, stepLimit)
	t.Logf("the move ended %v after that", time.Since(began).Round(time.Millisecond))
	r.Services("start", r.Nodes()[0])
	lab.Eventually(t, stepLimit, "the node that was killed serves clients", func() bool {
		conn := *cluster.Rabbit
		conn.URL = r.URLs[0]
		first := &side{Rabbit: &conn}
		defer first.close()
		return first.depth("orders") >= 0
	})

	var queues []struct {
		Name, Type string
		Members    []string
	}
	r.API("GET", "/api/queues/"+r.Vhost, nil, &queues)
	for _, q := range queues {
		if q.Type == "quorum" && len(q.Members) != 3 {
			t.Errorf("queue %q has members %v, want three", q.Name, q.Members)
		}
	}
	// Through the other nodes: the last move finds nothing, and the audit consumes there.
	return s.finish(1)
}

// Two nodes of a cluster are one place, however soon after another they are asked.
func TestMoveOntoTheSameCluster(t *testing.T) {
	t.Parallel()
	r := lab.Cluster(t)
	ctx := kit.Timeout(t, kit.Limit)
	open := func(node int) *admin.Admin {
		t.Helper()
		a, err := admin.Open(ctx, admin.Config{URL: r.URLs[node], Management: r.ManagementOf(node)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		return a
	}
	first, second, third := open(0), open(1), open(2)
	for range 10 {
		for _, to := range []*admin.Admin{first, second, third} {
			if _, err := first.PlanMove(ctx, to, admin.MoveOptions{}); !errors.Is(err, admin.ErrSamePlace) {
				t.Fatalf("got %v, want ErrSamePlace", err)
			}
			if err := to.CheckManagement(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
}

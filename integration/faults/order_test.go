package faults

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/integration/proxy"
	"github.com/rehop/rehop/internal/conformance/inorder"
)

// orderTrial is an ordered workload on RabbitMQ. Each process has a proxy of its own.
type orderTrial struct {
	*inorder.Workload
	t       *testing.T
	ctx     context.Context
	rabbit  *lab.Rabbit
	proxies map[string]*proxy.Proxy
	random  *rand.Rand
	faults  int
	names   []string // processes that subscribe
	joined  int
}

func newOrderTrial(t *testing.T, r *lab.Rabbit, queue string, seed uint64) *orderTrial {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	t.Cleanup(cancel)
	log, err := os.CreateTemp("", "rehop-order-*.log")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = log.Close()
		if t.Failed() {
			t.Logf("log kept in %s", log.Name())
		} else {
			_ = os.Remove(log.Name())
		}
	})
	x := &orderTrial{t: t, ctx: ctx, rabbit: r, proxies: make(map[string]*proxy.Proxy), random: rand.New(rand.NewPCG(seed, 17)), names: []string{"first", "second"}}
	x.Workload = &inorder.Workload{T: t, Queue: queue, Config: func(role string) rehop.Config {
		return rehop.Config{URLs: r.URLs, Name: role, Heartbeat: 2 * time.Second, Dial: x.dial(role),
			Logger: slog.New(slog.NewTextHandler(log, nil)).With("role", role)}
	}}
	return x
}

// dial connects a role through a proxy, if the broker is a single node.
func (x *orderTrial) dial(role string) func(ctx context.Context, network, address string) (net.Conn, error) {
	if len(x.rabbit.URLs) > 1 {
		return nil
	}
	u, err := url.Parse(x.rabbit.URL)
	if err != nil {
		x.t.Fatal(err)
	}
	p, err := proxy.New(u.Host)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { _ = p.Close() })
	x.proxies[role] = p
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, p.Addr())
	}
}

// strike breaks something, and sees that work continues.
func (x *orderTrial) strike(what string, how func()) {
	x.t.Helper()
	x.faults++
	x.t.Log(what)
	how()
	x.Run(x.ctx, times(150, 300))
}

// finish audits the run.
func (x *orderTrial) finish() {
	x.t.Helper()
	line := x.Finish(x.ctx)
	fmt.Printf("%s %s faults=%d\n", x.t.Name(), line, x.faults)
}

// TestOrder handles messages in order by key under each fault, and audits that. REHOP_FAULTS=long strikes more often.
func TestOrder(t *testing.T) {
	seed := seedOf(t)
	t.Logf("seed %d", seed)
	for broker, faults := range map[string]map[string]func(*orderTrial){
		"Single":  {"Cut": (*orderTrial).cut, "BlackHole": (*orderTrial).blackHole, "Recycle": (*orderTrial).recycle, "Kill": (*orderTrial).kill, "Partitions": (*orderTrial).partitions},
		"Cluster": {"Leader": (*orderTrial).leader, "LeaderOfPartition": (*orderTrial).leader},
	} {
		t.Run(broker, func(t *testing.T) {
			t.Parallel()
			rabbit := lab.Single
			if broker == "Cluster" {
				rabbit = lab.Cluster
			}
			for name, fault := range faults {
				t.Run(name, func(t *testing.T) {
					x := newOrderTrial(t, rabbit(t), "order-"+name, seed)
					if strings.Contains(name, "Partition") {
						x.Partitions = 4
					}
					x.Start(x.ctx)
					x.Run(x.ctx, 500)
					fault(x)
					x.finish()
					if n, examples := x.Audit.Repeats(); name == "Recycle" && n > x.faults {
						t.Errorf("%d repeats although all processes have ended in an orderly way, want at most one for each: %v", n, examples)
					}
				})
			}
		})
	}
}

// cut ends the connections of one process.
func (x *orderTrial) cut() {
	for i := range times(6, 100) {
		x.strike("connections cut", func() { x.proxies[x.names[i%2]].Cut("") })
	}
}

// blackHole has all bytes of one process disappear while its connections stay.
func (x *orderTrial) blackHole() {
	for i := range times(2, 12) {
		p := x.proxies[x.names[i%2]]
		x.strike("black hole", func() { p.Freeze("") })
		p.Thaw()
		x.Run(x.ctx, 100)
	}
}

// partitions has processes share partitions that come and go, and lose their connections.
func (x *orderTrial) partitions() {
	x.Shared(x.ctx, 2)
	for i := range times(1, 20) {
		x.strike("process joined", func() {
			x.joined++
			name := fmt.Sprint("process ", x.joined)
			x.Join(x.ctx, name)
			x.names = append(x.names, name)
			x.Shared(x.ctx, 1)
		})
		x.strike("connections cut", func() { x.proxies[x.names[i%3]].Cut("") })
		x.strike("process gone", func() {
			x.Leave(x.ctx, x.names[0])
			x.names = x.names[1:]
			x.Shared(x.ctx, 2)
		})
	}
}

// recycle replaces processes, which end in an orderly way.
func (x *orderTrial) recycle() {
	for range times(4, 60) {
		x.strike("process replaced", func() {
			x.joined++
			name := fmt.Sprint("process ", x.joined)
			x.Join(x.ctx, name)
			x.Leave(x.ctx, x.names[0])
			x.names = []string{x.names[1], name}
		})
	}
}

// kill ends the only node with kill -9, and starts it again.
func (x *orderTrial) kill() {
	x.rabbit.Settle()
	for range times(1, 8) {
		x.strike("broker killed", func() {
			x.rabbit.Services("kill", "single")
			x.rabbit.Services("start", "single")
		})
	}
}

// leader kills the node that leads the main queue or the held queue.
func (x *orderTrial) leader() {
	x.rabbit.Settle()
	for i := range times(2, 10) {
		queue := []string{x.Queue, x.Queue + ".held"}[i%2]
		var node string
		lab.Eventually(x.t, soon, "a leader of "+queue, func() (ok bool) {
			var err error
			node, err = x.rabbit.Leader(queue)
			return err == nil
		})
		x.strike("leader "+node+" killed", func() {
			x.t.Cleanup(func() { x.rabbit.Services("start", node) })
			x.rabbit.Services("kill", node)
		})
		x.rabbit.Services("start", node)
		lab.Eventually(x.t, 2*soon, "three running nodes", x.rabbit.Expendable)
	}
}

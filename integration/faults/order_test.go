package faults

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/integration/proxy"
	"github.com/rehop/rehop/internal/conformance/inorder"
	"github.com/rehop/rehop/internal/conformance/seeds"
)

// orderTrial is an ordered workload on RabbitMQ. Each process has a proxy of its own.
type orderTrial struct {
	*inorder.Workload
	t       *testing.T
	ctx     context.Context
	rabbit  *lab.Rabbit
	proxies map[string]*proxy.Proxy
	random  *rand.Rand
	names   []string // processes that subscribe
	joined  int
	restart func() // kills the only node, and starts it again
}

func newOrderTrial(t *testing.T, r *lab.Rabbit, queue string, seed uint64) *orderTrial {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(times(30, 60))*time.Minute)
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
	x.Workload = &inorder.Workload{T: t, Script: inorder.Script{Seed: seed, Queue: queue}, Config: func(role string) rehop.Config {
		return rehop.Config{URLs: r.URLs, Name: role, Heartbeat: 2 * time.Second, Dial: x.dial(role),
			Logger: slog.New(slog.NewTextHandler(log, nil)).With("role", role)}
	}}
	return x
}

// dial connects a role through a proxy, if the broker is a single node.
func (x *orderTrial) dial(role string) func(ctx context.Context, network, address string) (net.Conn, error) {
	if len(x.rabbit.URLs) > 1 || role == "audit" || role == "operate" {
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

// strike breaks something for a process, or for all of them if the name is empty, and sees that work continues.
func (x *orderTrial) strike(process, what string, how func()) {
	x.t.Helper()
	x.Fault(x.ctx, process, what, x.between(), how)
}

// between is how many messages are handled before the next fault.
func (x *orderTrial) between() int { return times(100, 200) + x.random.IntN(times(100, 200)) }

// anyone is one of the processes.
func (x *orderTrial) anyone() string { return x.names[x.random.IntN(len(x.names))] }

// replace has a new process subscribe, and then ends the oldest one in an orderly way.
func (x *orderTrial) replace() {
	x.t.Helper()
	x.t.Log("process replaced")
	x.join()
	x.leave()
}

func (x *orderTrial) join() {
	x.t.Helper()
	x.joined++
	name := fmt.Sprint("process ", x.joined)
	x.Join(x.ctx, name)
	x.names = append(x.names, name)
}

func (x *orderTrial) leave() {
	x.t.Helper()
	x.Leave(x.ctx, x.names[0])
	x.names = x.names[1:]
}

// orderFault is what happens to a workload.
type orderFault struct {
	name   string
	script inorder.Script
	run    func(*orderTrial)
}

// TestOrder handles messages in order by key under each fault, and audits that. REHOP_FAULTS=long strikes more often;
// REHOP_FAULTS_SEED repeats a run's schedule.
func TestOrder(t *testing.T) {
	seed := seeds.Of(t)
	for nodes, faults := range map[string][]orderFault{
		"Single": {
			{"Cut", inorder.Script{}, (*orderTrial).cut},
			{"Publisher", inorder.Script{}, (*orderTrial).cutPublisher},
			{"BlackHole", inorder.Script{}, (*orderTrial).blackHole},
			{"Process", inorder.Script{}, (*orderTrial).killProcess},
			{"Replace", inorder.Script{}, (*orderTrial).replacements},
			{"Recycle", inorder.Script{Sessions: 2 * time.Second}, (*orderTrial).recycle},
			{"Kill", inorder.Script{}, (*orderTrial).kill},
			{"Timeout", inorder.Script{}, (*orderTrial).timeout},
			{"Partitions", inorder.Script{Partitions: 4}, (*orderTrial).partitions},
			{"Halt", inorder.Script{Halt: true}, (*orderTrial).halt},
		},
		"Embedded": {
			{"Cut", inorder.Script{}, (*orderTrial).cut},
			{"BlackHole", inorder.Script{}, (*orderTrial).blackHole},
			{"Process", inorder.Script{}, (*orderTrial).killProcess},
			{"Replace", inorder.Script{}, (*orderTrial).replacements},
			{"Recycle", inorder.Script{Sessions: 2 * time.Second}, (*orderTrial).recycle},
			{"Kill", inorder.Script{}, (*orderTrial).kill},
			{"Partitions", inorder.Script{Partitions: 4}, (*orderTrial).partitions},
			{"Halt", inorder.Script{Halt: true}, (*orderTrial).halt},
		},
		"Cluster": {
			{"Leader", inorder.Script{}, (*orderTrial).leader},
			{"LeaderOfPartition", inorder.Script{Partitions: 4}, (*orderTrial).leader},
		},
	} {
		t.Run(nodes, func(t *testing.T) {
			t.Parallel()
			for _, f := range faults {
				t.Run(f.name, func(t *testing.T) {
					r, restart := nodeOf(t, nodes)
					x := newOrderTrial(t, r, "order-"+f.name, seed)
					x.restart = restart
					x.Script.Partitions, x.Script.Halt, x.Script.Sessions = f.script.Partitions, f.script.Halt, f.script.Sessions
					f.run(x)
					report := x.Finish(x.ctx)
					fmt.Printf("%s %s\n", t.Name(), report.Line())
					if f.name == "Timeout" && report.Takeovers > 0 {
						t.Errorf("%d takeovers although no process was away", report.Takeovers)
					}
				})
			}
		})
	}
}

// nodeOf is a broker of a kind, and how its only node is killed and started again.
func nodeOf(t *testing.T, kind string) (r *lab.Rabbit, restart func()) {
	t.Helper()
	switch kind {
	case "Cluster":
		return lab.Cluster(t), nil
	case "Embedded":
		p := lab.EmbeddedProcess(t)
		return p.Rabbit, func() { p.Kill(); p.Start(t) }
	}
	r = lab.Single(t)
	return r, func() { r.Services("kill", "single"); r.Services("start", "single") }
}

// begin starts the workload, and waits until it is in full swing.
func (x *orderTrial) begin() {
	x.t.Helper()
	x.Start(x.ctx)
	x.Run(x.ctx, 400+x.random.IntN(200))
}

// cut ends the connections of one process.
func (x *orderTrial) cut() {
	x.begin()
	for range times(6, 100) {
		name := x.anyone()
		x.strike(name, "connections cut", func() { x.proxies[name].Cut("") })
	}
}

// cutPublisher ends the publisher's connections, mostly at any byte.
func (x *orderTrial) cutPublisher() {
	x.begin()
	p := x.proxies["publish"]
	for i := range times(6, 60) {
		x.strike("publish", "publisher's connections cut", func() {
			if i%3 > 0 {
				p.SetPlan(func(int) proxy.Plan { return randomCut(x.random) })
			}
			p.Cut("")
			p.SetPlan(nil)
		})
	}
}

// blackHole has all bytes of the process that handles messages disappear while its connections stay, until another one has taken
// over.
func (x *orderTrial) blackHole() {
	x.begin()
	for range times(2, 12) {
		name := x.Handles(x.ctx, 1+x.random.IntN(50))
		p := x.proxies[name]
		x.strike(name, "black hole", func() {
			p.Freeze("")
			for x.Handles(x.ctx, 20) == name { // what it has already
			}
			p.Thaw()
		})
	}
}

// partitions has processes share partitions that come and go, and lose their connections.
func (x *orderTrial) partitions() {
	x.begin()
	x.Shared(x.ctx, 2)
	for range times(1, 8) { // each may take some minutes, until the partitions are shared
		x.t.Log("process joins")
		x.join()
		x.Shared(x.ctx, 1)
		x.Run(x.ctx, x.between())
		name := x.anyone()
		x.strike(name, "connections cut", func() { x.proxies[name].Cut("") })
		x.t.Log("process leaves")
		x.leave()
		x.Shared(x.ctx, 2)
		x.Run(x.ctx, x.between())
	}
}

// recycle has sessions end in an orderly way, as they usually do after some minutes, and cuts connections between them.
func (x *orderTrial) recycle() {
	x.begin()
	for range times(2, 20) {
		x.Recycle(x.ctx, 3)
		name := x.anyone()
		x.strike(name, "connections cut", func() { x.proxies[name].Cut("") })
	}
}

// replacements replaces processes, which end in an orderly way.
func (x *orderTrial) replacements() {
	x.begin()
	for range times(4, 60) {
		x.replace()
		x.Run(x.ctx, x.between())
	}
}

// kill ends the only node with kill -9, and starts it again.
func (x *orderTrial) kill() {
	x.begin()
	x.rabbit.Settle()
	for range times(1, 8) {
		x.strike("", "broker killed", x.restart)
	}
}

// timeout has the queues take messages back that are unacked for long, as RabbitMQ 4.3 can. What an ordered queue always leaves
// unacked must not be among them: single messages would return, and the order would be lost. No process is to notice anything.
func (x *orderTrial) timeout() {
	if lab.Release() < broker.RabbitMQ43 { // none has this policy, or looks at it more than once a minute
		x.t.Skip("the queues of this release take nothing back")
	}
	x.rabbit.API("PUT", "/api/policies/"+x.rabbit.Vhost+"/timeout", map[string]any{"pattern": "^order-", "apply-to": "quorum_queues", "priority": 1,
		"definition": map[string]any{"consumer-timeout": 2000}}, nil)
	x.begin()
	for range times(3, 30) {
		x.Run(x.ctx, x.between())
		<-time.After(4 * time.Second) // the timeout is the broker's
	}
}

// halt cuts connections and replaces processes while an operator replays and skips messages that halt their keys.
func (x *orderTrial) halt() {
	x.begin()
	for i := range times(6, 60) {
		if i%3 == 2 {
			x.replace()
			x.Run(x.ctx, x.between())
			continue
		}
		name := x.anyone()
		x.strike(name, "connections cut", func() { x.proxies[name].Cut("") })
	}
}

// leader kills the node that leads the main queue or the held queue.
func (x *orderTrial) leader() {
	x.begin()
	x.rabbit.Settle()
	for i := range times(2, 10) {
		queue := []string{x.Script.Queue, x.Script.Queue + ".held"}[i%2]
		var node string
		lab.Eventually(x.t, soon, "a leader of "+queue, func() (ok bool) {
			var err error
			node, err = x.rabbit.Leader(queue)
			return err == nil
		})
		x.strike("", "leader "+node+" killed", func() {
			x.t.Cleanup(func() { x.rabbit.Services("start", node) })
			x.rabbit.Services("kill", node)
			x.Run(x.ctx, x.between())
			x.rabbit.Services("start", node)
			lab.Eventually(x.t, 2*soon, "three running nodes", x.rabbit.Expendable)
		})
	}
}

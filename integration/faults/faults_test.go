package faults

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/delivery"
	"github.com/rehop/rehop/internal/conformance/seeds"
)

// summary is what TestFaults has found, for TestMain to print last.
var summary *delivery.Report

func TestMain(m *testing.M) {
	lab.ServeProcess()
	if os.Getenv(childRole) != "" {
		os.Exit(asChild(consume))
	}
	if os.Getenv(orderedRole) != "" {
		os.Exit(asChild(handleOrdered))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	code := lab.RunOwning(m, "rabbitmq", "cluster")
	if summary != nil {
		fmt.Println(summary.Line())
	}
	return code
}

// fault runs a workload under a fault, on a single node or a cluster.
type fault struct {
	name string
	run  func(*testing.T, *lab.Rabbit, uint64) delivery.Report
}

// TestFaults runs the workload under each fault and audits it. REHOP_FAULTS=long strikes more often, on the cluster
// with every fault, and kills for every layout; REHOP_FAULTS_SEED repeats a run's schedule.
func TestFaults(t *testing.T) {
	seed := seeds.Of(t)
	var mu sync.Mutex
	total := &delivery.Report{Seed: seed}
	t.Cleanup(func() { summary = total })
	anywhere := []fault{
		{"Kill", killBroker},
		{"Restart", restartBroker},
		{"Cut", cutConnections},
		{"Moves", cutMoves},
		{"BlackHole", blackHole},
		{"Alarm", memoryAlarm},
		{"Delete", deleteQueue},
		{"Process", killProcess},
	}
	single, cluster := anywhere, []fault{{"Leader", killLeader}}
	if long() {
		single = slices.Concat(anywhere, layoutFaults())
		cluster = slices.Concat(cluster, []fault{{"Pause", pauseLeader}}, anywhere)
	}
	runAll := func(t *testing.T, of func(testing.TB) *lab.Rabbit, faults []fault) {
		for _, f := range faults {
			t.Run(f.name, func(t *testing.T) {
				report := f.run(t, of(t), seed)
				mu.Lock()
				defer mu.Unlock()
				total.Add(report)
			})
		}
	}
	if long() { // before the others, as its nodes are three more
		t.Run("Apart", func(t *testing.T) { runAll(t, lab.Apart, []fault{{"Isolate", isolateLeader}}) })
	}
	// Two brokers, two lines of tests: much of the time is spent waiting for nodes to start.
	for _, line := range []struct {
		broker string
		of     func(testing.TB) *lab.Rabbit
		faults []fault
	}{{"Single", lab.Single, single}, {"Cluster", lab.Cluster, cluster}} {
		t.Run(line.broker, func(t *testing.T) {
			t.Parallel()
			runAll(t, line.of, line.faults)
		})
	}
}

package faults

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/delivery"
)

// summary is what TestFaults has found, for TestMain to print last.
var summary *delivery.Report

func TestMain(m *testing.M) {
	if os.Getenv(childRole) != "" {
		os.Exit(child())
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

// fault runs a workload under a fault.
type fault struct {
	name string
	run  func(*testing.T, uint64) delivery.Report
}

// TestFaults runs the workload under each fault and audits it. REHOP_FAULTS=long strikes more often, and
// kills for every layout; REHOP_FAULTS_SEED repeats a run's schedule.
func TestFaults(t *testing.T) {
	seed := seedOf(t)
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	total := &delivery.Report{Seed: seed}
	t.Cleanup(func() { summary = total })
	single := []fault{
		{"Kill", killBroker},
		{"Restart", restartBroker},
		{"Cut", cutConnections},
		{"Moves", cutMoves},
		{"BlackHole", blackHole},
		{"Alarm", memoryAlarm},
		{"Delete", deleteQueue},
		{"Process", killProcess},
	}
	if long() {
		single = append(single, layoutFaults()...)
	}
	// Two brokers, two lines of tests: much of the time is spent waiting for nodes to start.
	for broker, faults := range map[string][]fault{
		"Single":  single,
		"Cluster": {{"Leader", killLeader}},
	} {
		t.Run(broker, func(t *testing.T) {
			t.Parallel()
			for _, f := range faults {
				t.Run(f.name, func(t *testing.T) {
					report := f.run(t, seed)
					mu.Lock()
					defer mu.Unlock()
					total.Add(report)
				})
			}
		})
	}
}

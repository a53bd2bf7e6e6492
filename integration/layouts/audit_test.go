package layouts

import (
	"testing"
	"time"

	"github.com/rehop/rehop/integration/audit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/delivery"
	"github.com/rehop/rehop/internal/conformance/seeds"
)

// TestAudit runs the workload of the delivery suite in every layout, cuts its connections at the worst moments,
// and balances the books. Kills of the broker and of processes are in package faults.
func TestAudit(t *testing.T) {
	seed := seeds.Of(t)
	for _, script := range delivery.Layouts(seed) {
		t.Run(script.Name, func(t *testing.T) {
			t.Parallel()
			auditLayout(t, script)
		})
	}
}

func auditLayout(t *testing.T, script delivery.Script) {
	x := audit.New(t, lab.Single(t), script)
	x.Between = 20
	x.Work.Rate, x.Work.Backlog, x.Work.Window = 50, 40, 16
	x.Work.Concurrency, x.Work.Prefetch, x.Work.Work = 8, 12, 5*time.Millisecond
	p := x.Proxied()
	x.Start()
	// First: classic queues have what is delivered again sent round, so later handlers might all be moving those.
	// At times all handlers wait for messages that cannot be moved: then there is another try.
	cut, tries := false, 0
	for ; !cut && tries < 4; tries++ {
		x.Fault("connections cut while messages move", func(int) { cut = x.CutMoves(p, delivery.Soon, 3, 20) })
	}
	if !cut {
		t.Error("inconclusive: too few messages were on their way, each time")
	}
	x.Fault("consumers cut", func(began int) {
		x.CutInHand(p)
		x.SeeKind(began, delivery.Ceased)
	})
	x.Fault("all connections cut", func(began int) {
		p.Cut("")
		x.SeeKind(began, delivery.Lost)
	})
	x.Run(20)
	rules := x.Work.Rules()
	rules.Faults, rules.Witness = tries+2, delivery.Sees(delivery.Lost)
	x.Finish(rules)
}

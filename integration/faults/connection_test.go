package faults

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/integration/proxy"
	"github.com/rehop/rehop/internal/conformance/delivery"
)

// randomCut cuts a connection anywhere: in the handshake, or in the midst of its work, which may be
// handed on byte by byte.
func randomCut(random *rand.Rand) proxy.Plan {
	const handshake, work = 2000, 60_000
	way := proxy.Way{CutAfter: 1 + random.Int64N(work)}
	switch random.IntN(5) {
	case 0:
		way.CutAfter = 1 + random.Int64N(handshake)
	case 1:
		way.CutAfter = 1 + random.Int64N(2*handshake)
		way.Slice = 1
	}
	plan := proxy.Plan{Reset: random.IntN(2) == 0}
	if random.IntN(2) == 0 {
		plan.Up = way
	} else {
		plan.Down = way
	}
	return plan
}

// cutConnections: every connection ends at a random byte, in one direction or the other, in order or
// by a reset.
func cutConnections(t *testing.T, r *lab.Rabbit, seed uint64) delivery.Report {
	x := newTrial(t, r, seed)
	// In a storm of hundreds of cuts, some message is in a handler's hands at more than ten of them. That this
	// is taken for a crash loop is as it should be, and is not what this fault is about.
	x.Work.CrashLimit = 40
	p := x.Proxied()
	x.start()
	n := x.times(25, 250)
	x.Fault("connections cut", func(int) {
		p.SetPlan(func(int) proxy.Plan { return randomCut(x.Random) })
		p.Cut("")
		lab.Eventually(t, 5*time.Minute+time.Duration(n)*time.Second, "enough cuts", func() bool { return p.Cuts() >= n })
		p.SetPlan(nil)
		p.Cut("") // those that were to be cut later
	})
	x.Run(200)
	rules := x.Work.Rules()
	rules.Witness = delivery.Sees(delivery.Lost)
	report := x.finish(rules)
	report.Faults += p.Cuts() - 1
	return report
}

// blackHole: all bytes disappear while the connections stay. Only heartbeats can detect that.
func blackHole(t *testing.T, r *lab.Rabbit, seed uint64) delivery.Report {
	x := newTrial(t, r, seed)
	p := x.Proxied()
	x.start()
	n := x.times(1, 4)
	for range n {
		x.Fault("black hole", func(began int) {
			p.Freeze("")
			x.each(began, "gives up its connection", delivery.Lost)
			thawed := x.Books.Len()
			p.Thaw()
			// Once more at once, before the broker has sent its first heartbeat.
			x.See(thawed, soon, "a new connection", func(e delivery.Event) bool {
				return e.Kind == delivery.Connected && e.Client == "publish" && e.Link == "consume"
			})
			began = x.Books.Len()
			p.Freeze("publish consume")
			x.See(began, soon, "the new connection is given up", func(e delivery.Event) bool {
				return e.Kind == delivery.Lost && e.Client == "publish" && e.Link == "consume"
			})
			began = x.Books.Len()
			p.Thaw()
			x.See(began, soon, "the connection is there again", func(e delivery.Event) bool {
				return e.Kind == delivery.Connected && e.Client == "publish" && e.Link == "consume"
			})
			x.each(thawed, "connects again", delivery.Connected)
		})
	}
	x.Run(200)
	rules := x.Work.Rules()
	rules.Faults, rules.Witness = n, delivery.Sees(delivery.Lost)
	return x.finish(rules)
}

// each waits for an event of each connection of the workload.
func (x *trial) each(after int, what string, kind delivery.Kind) {
	x.T.Helper()
	for _, client := range []string{"publish", "publish-once", "consume"} {
		for _, link := range []string{"publish", "consume"} {
			x.See(after, soon, client+" "+what+" "+link, func(e delivery.Event) bool {
				return e.Kind == kind && e.Client == client && e.Link == link
			})
		}
	}
}

// cutMoves: failed messages are on their way to where they wait, and no confirm has come, when the
// connections end.
func cutMoves(t *testing.T, r *lab.Rabbit, seed uint64) delivery.Report {
	x := newTrial(t, r, seed)
	p := x.Proxied()
	x.start()
	n, full, least := 0, 0, x.times(2, 20)
	// At times all handlers wait for messages that cannot be moved. Such a fault counts, but not as one that shows anything.
	for ; n < least || full < (least+1)/2 && n < 4*least; n++ {
		x.Fault("connections cut while messages move", func(int) {
			if x.CutMoves(p, soon/4, 5, 100) {
				full++
			}
		})
	}
	t.Logf("%d of %d times enough messages were on their way", full, n)
	if full < (least+1)/2 {
		t.Error("inconclusive: too few were, too often")
	}
	x.Run(200)
	rules := x.Work.Rules()
	rules.Faults, rules.Witness = n, delivery.Sees(delivery.Lost)
	return x.finish(rules)
}

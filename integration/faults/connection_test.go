package faults

import (
	"context"
	"math/rand/v2"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/integration/proxy"
	"github.com/rehop/rehop/internal/conformance/delivery"
)

// proxied puts a proxy between the workload and the broker.
func (x *trial) proxied() *proxy.Proxy {
	x.t.Helper()
	u, err := url.Parse(x.rabbit.URL)
	x.must(err)
	p, err := proxy.New(u.Host)
	x.must(err)
	x.t.Cleanup(func() { _ = p.Close() })
	plain := x.work.Config
	x.work.Config = func(role string) rehop.Config {
		config := plain(role)
		config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, p.Addr())
		}
		return config
	}
	return p
}

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
func cutConnections(t *testing.T, seed uint64) delivery.Report {
	x := newTrial(t, lab.Single(t), seed)
	// In a storm of hundreds of cuts, some message is in a handler's hands at more than ten of them. That this
	// is taken for a crash loop is as it should be, and is not what this fault is about.
	x.work.CrashLimit = 40
	p := x.proxied()
	x.start()
	n := times(25, 250)
	x.fault("connections cut", func() {
		p.SetPlan(func(int) proxy.Plan { return randomCut(x.random) })
		p.Cut("")
		lab.Eventually(t, 3*time.Minute+time.Duration(n)*time.Second, "enough cuts", func() bool { return p.Cuts() >= n })
		p.SetPlan(nil)
		p.Cut("") // those that were to be cut later
	})
	x.run(200)
	rules := x.work.Rules()
	rules.Witness = delivery.Sees(delivery.Lost)
	report := x.finish(rules)
	report.Faults += p.Cuts() - 1
	return report
}

// blackHole: all bytes disappear while the connections stay. Only heartbeats can tell.
func blackHole(t *testing.T, seed uint64) delivery.Report {
	x := newTrial(t, lab.Single(t), seed)
	p := x.proxied()
	x.start()
	n := times(1, 4)
	for range n {
		x.fault("black hole", func() {
			began := x.books.Len()
			p.Freeze("")
			x.each(began, "gives up its connection", delivery.Lost)
			thawed := x.books.Len()
			p.Thaw()
			// Once more at once, before the broker has sent its first heartbeat.
			x.see(thawed, soon, "a new connection", func(e delivery.Event) bool {
				return e.Kind == delivery.Connected && e.Client == "publish" && e.Link == "consume"
			})
			began = x.books.Len()
			p.Freeze("publish consume")
			x.see(began, patient, "the new connection is given up", func(e delivery.Event) bool {
				return e.Kind == delivery.Lost && e.Client == "publish" && e.Link == "consume"
			})
			began = x.books.Len()
			p.Thaw()
			x.see(began, soon, "the connection is there again", func(e delivery.Event) bool {
				return e.Kind == delivery.Connected && e.Client == "publish" && e.Link == "consume"
			})
			x.each(thawed, "connects again", delivery.Connected)
		})
	}
	x.run(200)
	rules := x.work.Rules()
	rules.Faults, rules.Witness = n, delivery.Sees(delivery.Lost)
	return x.finish(rules)
}

// patient is how long a silent peer may go unnoticed: a heartbeat is 2 s, and some of them may be missed.
const patient = 20 * time.Second

// each waits for an event of each connection of the workload.
func (x *trial) each(after int, what string, kind delivery.Kind) {
	x.t.Helper()
	for _, client := range []string{"publish", "publish-once", "consume"} {
		for _, link := range []string{"publish", "consume"} {
			x.see(after, patient, client+" "+what+" "+link, func(e delivery.Event) bool {
				return e.Kind == kind && e.Client == client && e.Link == link
			})
		}
	}
}

// cutMoves: failed messages are on their way to where they wait, and no confirm has come, when the
// connections end. An original that was acked too soon would be lost for certain, which the other
// faults leave to luck.
func cutMoves(t *testing.T, seed uint64) delivery.Report {
	const moves = 5
	x := newTrial(t, lab.Single(t), seed)
	p := x.proxied()
	x.start()
	n := times(2, 20)
	for range n {
		x.fault("connections cut while messages move", func() {
			began, failed := x.books.Len(), 0
			p.Freeze("consume publish") // the connection by which the client "consume" publishes
			x.see(began, soon, "failed messages that cannot be moved", func(e delivery.Event) bool {
				if e.Kind == delivery.Failed {
					failed++
				}
				return failed >= moves
			})
			// Others are handled meanwhile: what was acked, rightly or not, has reached the broker.
			ctx, cancel := x.within(soon)
			defer cancel()
			x.must(x.books.Await(ctx, delivery.Handled, x.books.Count(delivery.Handled)+100))
			p.Cut("consume consume")
			p.Cut("consume publish")
			p.Thaw()
		})
	}
	x.run(200)
	rules := x.work.Rules()
	rules.Faults, rules.Witness = n, delivery.Sees(delivery.Lost)
	return x.finish(rules)
}

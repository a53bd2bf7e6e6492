package delivery_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/conformance/delivery"
	"github.com/rehop/rehop/internal/conformance/seeds"
)

// TestEmbeddedLayouts runs the workload in every layout on the embedded broker, in virtual time, under faults
// of several kinds.
func TestEmbeddedLayouts(t *testing.T) {
	seed := seeds.Of(t)
	eachLayout(t, seed, func(x *trial) {
		x.Work.Rate, x.Work.Window, x.Work.Concurrency, x.Work.Prefetch = 100, 8, 8, 12
		x.Finish(manyFaults(x))
	})
}

// eachLayout runs a trial for every layout in virtual time, on a broker that takes up the x-death which a client sends and on one that does not.
func eachLayout(t *testing.T, seed uint64, run func(*trial)) {
	for _, release := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ43} {
		for _, script := range delivery.Layouts(seed) {
			t.Run(release.String()+"/"+script.Name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					x := newTrial(t, dir, seed, release)
					script.ForgetsDeaths = release >= broker.RabbitMQ40
					x.Work.Script, x.Between = script, 12
					run(x)
				})
			})
		}
	}
}

// The faults, by what shows that they have struck.
const (
	dropped      = "connections dropped"
	refused      = "publishes refused"
	movesRefused = "moves refused and connections dropped"
	restarted    = "broker restarted"
)

func manyFaults(x *trial) delivery.Rules {
	x.Start()
	// First: what classic queues deliver again is sent round, and handlers might all be moving that.
	x.Fault(movesRefused, x.refuseMoves)
	x.Fault(dropped, func(began int) {
		x.control().DropConnections()
		x.SeeKind(began, delivery.Connected)
	})
	x.Fault(refused, func(began int) { x.refuse(20, began) })
	x.Fault(restarted, func(began int) { x.restart(began, time.Second) })
	rules := x.Work.Rules()
	rules.Faults, rules.Recovery = 4, recovery
	rules.Witness = func(fault string, e delivery.Event) bool {
		if fault == refused {
			return e.Kind == delivery.Refused
		}
		return e.Kind == delivery.Lost
	}
	return rules
}

// refuseMoves refuses what handlers move and nothing else, and cuts the connections when several messages are to be
// moved. An original that was acked too soon is lost then for certain.
//
// Handlers need not fail that often: where a dead letter looks as if it had been delivered before (RabbitMQ 4.3), workers move it before
// they handle it, and all of them may be at that.
func (x *trial) refuseMoves(began int) {
	const moves, refusals = 5, 40
	exchange := x.Work.Script.Exchange
	var refused atomic.Int64
	x.control().Refuse(func(to, _ string) bool {
		if to == exchange {
			return false
		}
		refused.Add(1)
		return true
	})
	failed := 0
	x.See(began, delivery.Soon, "messages that cannot be moved", func(e delivery.Event) bool {
		if e.Kind == delivery.Failed {
			failed++
		}
		return refused.Load() > 0 && failed >= moves || refused.Load() >= refusals
	})
	synctest.Wait() // what was acked, rightly or not, has reached the broker
	x.control().DropConnections()
	x.control().Refuse(nil)
	x.SeeKind(began, delivery.Connected)
}

// TestEmbeddedLayoutsStop stops the subscriptions while handlers run and the broker has sent messages ahead, and
// begins them anew. That is no fault and explains nothing: no attempt is used, and nothing is done twice.
func TestEmbeddedLayoutsStop(t *testing.T) {
	const times = 3
	seed := seeds.Of(t)
	eachLayout(t, seed, func(x *trial) {
		x.Work.Rate, x.Work.Window, x.Work.Concurrency, x.Work.Prefetch, x.Work.Work = 100, 8, 4, 12, 30*time.Millisecond
		x.Start()
		for range times {
			x.Fault("subscriptions stopped", func(int) {
				// Not at the moment at which a handler returns: it might be stopped and fail at once.
				time.Sleep(time.Duration(1+x.Random.Int64N(int64(x.Work.Work/time.Microsecond)-1)) * time.Microsecond)
				x.Must(x.Work.Resubscribe(x.T.Context()))
			})
		}
		report := x.Finish(x.rules(times, delivery.Receiving))
		if report.Canceled == 0 {
			x.T.Error("no handler was canceled: nothing is shown")
		}
	})
}

package faults

import (
	"testing"

	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/delivery"
)

// layoutFaults are kills of the broker and of consumers for every layout but rehop's own. What needs no kill
// is in package layouts.
//
// The queues of most of them are classic. What is confirmed is on disk in them, too, and what rehop moves waits in
// quorum queues, so nothing may be lost. A classic queue marks all its messages as redelivered after a crash; in the
// layout that counts this as a failure, everything that was in a queue then has an attempt less.
//
// What the broker itself dead-letters from a classic queue is removed first and published then: under a kill that promises
// nothing. So the layout that rejects is left out where the broker is killed.
func layoutFaults() []fault {
	const brokerKills, consumerKills = 3, 8
	var all []fault
	for _, script := range delivery.Layouts(0) {
		trialOf := func(t *testing.T, r *lab.Rabbit, seed uint64) *trial {
			script, err := delivery.LayoutScript(script.Name, seed)
			if err != nil {
				t.Fatal(err)
			}
			x := newScripted(t, r, script)
			x.Work.Rate = 400 // many of these fail, and each failure is another message
			return x
		}
		if !script.BrokerCounts {
			all = append(all, fault{"Kill" + script.Name, func(t *testing.T, r *lab.Rabbit, seed uint64) delivery.Report {
				return kills(trialOf(t, r, seed), brokerKills)
			}})
		}
		all = append(all, fault{"Process" + script.Name, func(t *testing.T, r *lab.Rabbit, seed uint64) delivery.Report {
			return killConsumers(trialOf(t, r, seed), consumerKills)
		}})
	}
	return all
}

package faults

import (
	"testing"
	"time"

	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/delivery"
)

// isolation is how long a node is cut off: longer than nodes take to notice that (net_ticktime, 10 s), and several heartbeats of clients.
const isolation = 12 * time.Second

// isolateLeader: the link to the node that leads a queue is down for a while, as when a switch fails. Both sides keep connections at whose
// other end nobody is, which clients can notice by heartbeats alone, and connect to other nodes.
func isolateLeader(t *testing.T, r *lab.Rabbit, seed uint64) delivery.Report {
	x := newTrial(t, r, seed)
	return x.strikeLeaders(times(1, 3), "isolated", delivery.Lost, func(_, node string, began int) {
		t.Cleanup(func() { _ = r.TryServices("reconnect", node) }) // whatever happens meanwhile
		r.Services("isolate", node)
		over := time.After(isolation)
		lost := x.See(began, soon, "a client gives up its connection to "+node, func(e delivery.Event) bool { return e.Kind == delivery.Lost })
		t.Logf("%s isolated: client %s lost its connection %q: %s", node, lost.Client, lost.Link, lost.Comment)
		x.SeeOrCure(x.Books.Len(), "a confirm with one node isolated", delivery.Confirmed)
		<-over
		r.Services("reconnect", node)
	})
}

package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/delivery"
)

// pauseTime is how long a node is paused: about as long as the other nodes take to elect another leader, and clients to give up a
// connection that is silent. Whether they do is theirs to choose.
const pauseTime = 6 * time.Second

// pauseLeader: the node that leads a queue stops where it is for some seconds, as on a machine that swaps or is moved.
func pauseLeader(t *testing.T, r *lab.Rabbit, seed uint64) delivery.Report {
	x := newTrial(t, r, seed)
	return x.strikeLeaders(times(1, 6), "paused", delivery.Witnessed, func(queue, node string, _ int) {
		t.Cleanup(func() { _ = r.TryServices("resume", node) }) // whatever happens meanwhile
		r.Services("pause", node)
		effect := x.effect(pauseTime)
		r.Services("resume", node)
		if effect == "" {
			x.whole()
			if now := x.leader(queue); now != node {
				effect = fmt.Sprintf("%s leads %s after %s", now, queue, node)
			}
		}
		if effect == "" {
			return // and the auditor finds that nothing shows the fault
		}
		t.Logf("leader %s paused: %s", node, effect)
		x.Books.Record(delivery.Event{Kind: delivery.Witnessed, Comment: effect})
	})
}

// effect waits while nodes do not answer, and is how clients have felt that: a connection was lost, or nothing was confirmed any more once
// what had been under way had arrived. Empty: not at all. The management API of a node that does not answer is no help meanwhile.
func (x *trial) effect(during time.Duration) string {
	began := x.Books.Len()
	<-time.After(during / 2)
	half := x.Books.Len()
	<-time.After(during - during/2)
	events := x.Books.Events()
	lost := func(e delivery.Event) bool { return e.Kind == delivery.Lost }
	confirmed := func(e delivery.Event) bool { return e.Kind == delivery.Confirmed }
	if i := slices.IndexFunc(events[began:], lost); i >= 0 {
		e := events[began+i]
		return fmt.Sprintf("client %s lost its connection %q: %s", e.Client, e.Link, e.Comment)
	}
	if !slices.ContainsFunc(events[half:], confirmed) {
		return "nothing was confirmed for " + (during - during/2).String()
	}
	return ""
}

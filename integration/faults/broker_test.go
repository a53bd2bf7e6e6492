package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/await"
	"github.com/rehop/rehop/internal/conformance/delivery"
)

// killBroker: kill -9 of the only node or, as when the power fails, of all nodes, and their restart.
func killBroker(t *testing.T, r *lab.Rabbit, seed uint64) delivery.Report {
	x := newTrial(t, r, seed)
	return kills(x, x.times(1, 10))
}

func kills(x *trial, n int) delivery.Report {
	x.start()
	x.Rabbit.Settle()
	for range n {
		x.Fault("broker killed", func(int) {
			for _, node := range x.Rabbit.Nodes() {
				x.Rabbit.Services("kill", node)
			}
			x.startAll()
		})
		x.whole()
	}
	x.Run(200)
	rules := x.Work.Rules()
	rules.Faults, rules.Witness, rules.DeadLetters, rules.Crashes = n, delivery.Sees(delivery.Lost), deadLetters(x.Work.Script), true
	return x.finish(rules)
}

// startAll starts all nodes at a time: the first may wait for the others.
func (x *trial) startAll() {
	x.T.Helper()
	started := make(chan error)
	for _, node := range x.Rabbit.Nodes() {
		go func() { started <- x.Rabbit.TryServices("start", node) }()
	}
	var failed []error
	for range x.Rabbit.Nodes() {
		failed = append(failed, <-started)
	}
	x.Must(errors.Join(failed...))
}

// restartBroker: the node is stopped in order and started again, and its application is stopped and
// started inside a node that lives on. Of several nodes each has its turn, so that each client is struck.
func restartBroker(t *testing.T, r *lab.Rabbit, seed uint64) delivery.Report {
	x := newTrial(t, r, seed)
	x.start()
	n := times(1, 8)
	if x.clustered() {
		n = 2
	}
	for i := range n {
		if i%2 == 0 {
			x.Fault("broker restarted", func(int) {
				for _, node := range r.Nodes() {
					r.Services("restart", node)
					x.whole()
				}
			})
			continue
		}
		x.Fault("broker's application restarted", func(int) {
			for _, node := range r.Nodes() {
				r.Services("ctl", node, "stop_app")
				r.Services("ctl", node, "start_app")
				x.whole()
			}
		})
	}
	x.Run(200)
	rules := x.Work.Rules()
	rules.Faults, rules.Witness, rules.DeadLetters = n, delivery.Sees(delivery.Lost), deadLetters(x.Work.Script)
	return x.finish(rules)
}

// killLeader: kill -9 of the node that leads a queue, in turn those of the subscription's queue and of
// the queues in which messages wait, while messages are being retried.
func killLeader(t *testing.T, r *lab.Rabbit, seed uint64) delivery.Report {
	x := newTrial(t, r, seed)
	return x.strikeLeaders(times(2, 9), "killed", delivery.Witnessed, func(queue, node string, began int) {
		t.Cleanup(func() { x.Rabbit.Services("start", node) }) // whatever happens meanwhile
		x.Rabbit.Services("kill", node)
		// The cluster must continue without it: before it is back, something new is confirmed.
		x.SeeOrCure(began, "a confirm with one node missing", delivery.Confirmed)
		x.newLeader(queue, node)
		// Clients of a busy machine may all have gone to other nodes.
		x.Books.Record(delivery.Event{Kind: delivery.Witnessed, Comment: "another node leads " + queue})
		x.Rabbit.Services("start", node)
	})
}

// strikeLeaders has a fault strike nodes that lead queues n times: in turn the leader of the subscription's queue and those of queues in which
// messages wait. An event of the kind shows that it has struck.
func (x *trial) strikeLeaders(n int, what string, witness delivery.Kind, strike func(queue, node string, began int)) delivery.Report {
	x.T.Helper()
	x.start()
	x.Rabbit.Settle()
	led := []string{x.Work.Script.Queues[0], "rehop.step.300ms", "rehop.delay.01"}
	for i := range n {
		queue := led[i%len(led)]
		node := x.leader(queue)
		x.Fault("leader "+node+" "+what, func(began int) { strike(queue, node, began) })
		x.whole()
	}
	x.Run(200)
	rules := x.Work.Rules()
	rules.Faults, rules.Witness, rules.DeadLetters = n, delivery.Sees(witness), deadLetters(x.Work.Script)
	return x.finish(rules)
}

// leader is the node that leads a queue, when one does.
func (x *trial) leader(queue string) (node string) {
	x.T.Helper()
	lab.Eventually(x.T, soon, "a leader of "+queue, func() bool {
		var err error
		node, err = x.Rabbit.Leader(queue)
		return err == nil
	})
	return node
}

// newLeader waits until a node other than old leads the queue.
func (x *trial) newLeader(queue, old string) {
	x.T.Helper()
	lab.Eventually(x.T, soon, "a new leader of "+queue, func() bool {
		node, err := x.Rabbit.Leader(queue)
		return err == nil && node != old
	})
}

// whole waits until all nodes of a cluster run and have all their queues: two at a time must not be missing.
func (x *trial) whole() {
	x.T.Helper()
	if !x.clustered() {
		return
	}
	lab.Eventually(x.T, 2*soon, "three running nodes", func() bool {
		var nodes []struct{ Running bool }
		if x.Rabbit.TryAPI("GET", "/api/nodes?columns=running", nil, &nodes) != nil {
			return false
		}
		running := 0
		for _, n := range nodes {
			if n.Running {
				running++
			}
		}
		return running == 3 && x.Rabbit.Expendable()
	})
}

// memoryAlarm: the broker takes no messages. Publishers must end with their contexts, and handlers
// must continue and ack.
func memoryAlarm(t *testing.T, r *lab.Rabbit, seed uint64) delivery.Report {
	x := newTrial(t, r, seed)
	x.Work.PublishTimeout = 2 * time.Second
	x.start()
	other, err := rehop.Open(x.T.Context(), x.Work.Config("delayed"))
	x.Must(err)
	t.Cleanup(func() { _ = other.Close(context.Background()) })
	n := x.times(1, 4)
	node, usual := r.Nodes()[0], "0.4" // the alarm of one node blocks the clients of all
	if x.clustered() {
		usual = "0.2"
	}
	for range n {
		x.Fault("memory alarm", func(began int) {
			x.Rabbit.Services("ctl", node, "set_vm_memory_high_watermark", "absolute", "1MB")
			t.Cleanup(func() { x.Rabbit.Services("ctl", node, "set_vm_memory_high_watermark", usual) })
			blocked := x.See(began, soon, "connection.blocked", func(e delivery.Event) bool {
				return e.Kind == delivery.Blocked && e.Client != "consume"
			})
			x.blockedPublishersEnd(began, blocked)
			x.delayedPublishEnds(other)
			// The others hold what they cannot move yet.
			x.acked(x.Work.Script.Queues[2])
			x.Rabbit.Services("ctl", node, "set_vm_memory_high_watermark", usual)
		})
	}
	x.Run(200)
	rules := x.Work.Rules()
	rules.Faults, rules.Witness = n, delivery.Sees(delivery.Blocked)
	return x.finish(rules)
}

// blockedPublishersEnd waits for a publish that began while the broker was blocked, and sees that it
// ended with its context.
func (x *trial) blockedPublishersEnd(after int, blocked delivery.Event) {
	x.T.Helper()
	attempt := x.See(after, soon, "an attempt to publish to a blocked broker", func(e delivery.Event) bool {
		return e.Kind == delivery.Attempt && e.Client == blocked.Client && e.At > blocked.At
	})
	end := x.See(after, soon, "the end of that attempt", func(e delivery.Event) bool {
		return e.ID == attempt.ID && e.At >= attempt.At && (e.Kind == delivery.NotSent || e.Kind == delivery.Unknown || e.Kind == delivery.Confirmed || e.Kind == delivery.Unclassified)
	})
	if end.Kind != delivery.NotSent {
		x.T.Errorf("publishing %s to a blocked broker ended as %q (%s), want %q", attempt.ID, end.Kind, end.Comment, delivery.NotSent)
	}
}

// delayedPublishEnds sees that a publish which must first declare something on the blocked broker ends
// with its context, too.
func (x *trial) delayedPublishEnds(client *rehop.Client) {
	x.T.Helper()
	for _, delay := range []time.Duration{0, time.Minute} { // the first one has the connection blocked
		ctx, cancel := x.Within(x.Work.PublishTimeout)
		ended := make(chan error, 1)
		go func() {
			ended <- client.Publish(ctx, rehop.Message{Key: x.Work.Script.Queues[2] + ".nobody", Delay: delay})
		}()
		if err := await.One(x.T, ended, soon, "end of a publish to a blocked broker, whose context has ended"); err == nil {
			x.T.Errorf("publishing with delay %v to a blocked broker: got nil, want an error", delay)
		}
		cancel()
	}
}

// acked waits until handlers have taken and acked all that is in a queue: the broker counts what is
// not acked.
func (x *trial) acked(queue string) {
	x.T.Helper()
	lab.Eventually(x.T, soon, "all messages of "+queue+" acked while the broker is blocked", func() bool {
		var state struct{ Messages int }
		return x.Rabbit.TryAPI("GET", "/api/queues/"+x.Rabbit.Vhost+"/"+queue, nil, &state) == nil && state.Messages == 0
	})
}

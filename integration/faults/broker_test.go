package faults

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/await"
	"github.com/rehop/rehop/internal/conformance/delivery"
)

// killBroker: kill -9 of the only node, and its restart.
func killBroker(t *testing.T, seed uint64) delivery.Report {
	return kills(newTrial(t, lab.Single(t), seed), times(1, 10))
}

func kills(x *trial, n int) delivery.Report {
	x.start()
	x.Rabbit.Settle()
	for range n {
		x.Fault("broker killed", func(int) {
			x.Rabbit.Services("kill", "single")
			x.Rabbit.Services("start", "single")
		})
	}
	x.Run(200)
	rules := x.Work.Rules()
	rules.Faults, rules.Witness, rules.DeadLetters, rules.Crashes = n, delivery.Sees(delivery.Lost), deadLetters(x.Work.Script), true
	return x.finish(rules)
}

// restartBroker: the node is stopped in order and started again, and its application is stopped and
// started inside a node that lives on.
func restartBroker(t *testing.T, seed uint64) delivery.Report {
	x := newTrial(t, lab.Single(t), seed)
	x.start()
	n := times(1, 8)
	for i := range n {
		if i%2 == 0 {
			x.Fault("broker restarted", func(int) { x.Rabbit.Services("restart", "single") })
			continue
		}
		x.Fault("broker's application restarted", func(int) {
			x.Rabbit.Services("ctl", "single", "stop_app")
			x.Rabbit.Services("ctl", "single", "start_app")
		})
	}
	x.Run(200)
	rules := x.Work.Rules()
	rules.Faults, rules.Witness, rules.DeadLetters = n, delivery.Sees(delivery.Lost), deadLetters(x.Work.Script)
	return x.finish(rules)
}

// killLeader: kill -9 of the node that leads a queue, in turn those of the subscription's queue and of
// the queues in which messages wait, while messages are being retried.
func killLeader(t *testing.T, seed uint64) delivery.Report {
	x := newTrial(t, lab.Cluster(t), seed)
	// Each client prefers another node, so that the death of any of them is felt.
	plain, next := x.Work.Config, 0
	x.Work.Config = func(role string) rehop.Config {
		config := plain(role)
		urls := slices.Clone(config.URLs)
		config.URLs = append(urls[next:], urls[:next]...)
		next = (next + 1) % len(urls)
		return config
	}
	x.Work.Unstick = x.cure
	x.start()
	x.Rabbit.Settle()
	led := []string{x.Work.Script.Queues[0], "rehop.step.300ms", "rehop.delay.01"}
	n := times(2, 9)
	for i := range n {
		var node string
		lab.Eventually(t, soon, "a leader of "+led[i%len(led)], func() bool {
			var err error
			node, err = x.Rabbit.Leader(led[i%len(led)])
			return err == nil
		})
		x.Fault("leader "+node+" killed", func(began int) {
			t.Cleanup(func() { x.Rabbit.Services("start", node) }) // whatever happens meanwhile
			x.Rabbit.Services("kill", node)
			// The cluster must continue without it: before it is back, something new is confirmed.
			x.SeeOrCure(began, "a confirm with one node missing", delivery.Confirmed)
			x.newLeader(led[i%len(led)], node)
			// Clients of a busy machine may all have gone to other nodes.
			x.Books.Record(delivery.Event{Kind: delivery.Witnessed, Comment: "another node leads " + led[i%len(led)]})
			x.Rabbit.Services("start", node)
		})
		x.clusterWhole()
	}
	x.Run(200)
	rules := x.Work.Rules()
	rules.Faults, rules.Witness, rules.DeadLetters = n, delivery.Sees(delivery.Witnessed), deadLetters(x.Work.Script)
	return x.finish(rules)
}

// newLeader waits until a node other than old leads the queue.
func (x *trial) newLeader(queue, old string) {
	x.T.Helper()
	lab.Eventually(x.T, soon, "a new leader of "+queue, func() bool {
		node, err := x.Rabbit.Leader(queue)
		return err == nil && node != old
	})
}

// clusterWhole waits until all nodes run and have all their queues: two at a time must not be missing.
func (x *trial) clusterWhole() {
	x.T.Helper()
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
func memoryAlarm(t *testing.T, seed uint64) delivery.Report {
	x := newTrial(t, lab.Single(t), seed)
	x.Work.PublishTimeout = 2 * time.Second
	x.start()
	other, err := rehop.Open(x.T.Context(), x.Work.Config("delayed"))
	x.Must(err)
	t.Cleanup(func() { _ = other.Close(context.Background()) })
	n := times(1, 4)
	for range n {
		x.Fault("memory alarm", func(began int) {
			x.Rabbit.Services("ctl", "single", "set_vm_memory_high_watermark", "absolute", "1MB")
			t.Cleanup(func() { x.Rabbit.Services("ctl", "single", "set_vm_memory_high_watermark", "0.4") })
			blocked := x.See(began, soon, "connection.blocked", func(e delivery.Event) bool {
				return e.Kind == delivery.Blocked && e.Client != "consume"
			})
			x.blockedPublishersEnd(began, blocked)
			x.delayedPublishEnds(other)
			// The others hold what they cannot move yet.
			x.acked(x.Work.Script.Queues[2])
			x.Rabbit.Services("ctl", "single", "set_vm_memory_high_watermark", "0.4")
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

package faults

import (
	"testing"
	"time"

	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/delivery"
	"github.com/rehop/rehop/internal/layouts"
)

// deleteQueue: somebody deletes a queue under its consumer, and another one whose messages wait for
// their retries. What is deleted is chosen so that nothing is lost by the deleter's own will: the
// first queue is empty at that moment, and the messages of the second wait elsewhere.
func deleteQueue(t *testing.T, r *lab.Rabbit, seed uint64) delivery.Report {
	x := doom(t, r, seed)
	n := x.times(1, 4)
	for range n {
		x.deleteUnderConsumer(x.Work.Script.Queues[2])
	}
	ch := x.Rabbit.Channel()
	lab.Eventually(t, soon+x.Work.Script.Doom, "the doomed messages among the orphans", func() bool {
		return x.Rabbit.Depth(ch, layouts.OrphansQueue) == doomedMessages
	})
	x.Run(200)
	rules := x.Work.Rules()
	rules.Faults = n + 1
	rules.Witness = delivery.Sees(delivery.Ceased, delivery.Witnessed)
	// Nothing is published while a queue is missing, so nothing waits then either.
	rules.NoRetries = true
	report := x.finish(rules)
	if report.Orphaned != doomedMessages {
		t.Errorf("%d messages of the deleted queue are in %s, want %d", report.Orphaned, layouts.OrphansQueue, doomedMessages)
	}
	return report
}

const (
	doomedMessages = 60
	longestDoom    = 16 * time.Minute
)

// doom begins a workload in which a queue was deleted while its messages waited. If the machine took longer for that than they
// wait, it begins again with messages that wait for twice as long.
func doom(t *testing.T, r *lab.Rabbit, seed uint64) *trial {
	t.Helper()
	for wait := time.Minute; wait <= longestDoom; wait *= 2 {
		x := newTrial(t, r, seed)
		x.Work.Script.Doomed, x.Work.Script.Doom = "audit-doomed", wait
		x.start()
		took := x.deleteWhileWaiting()
		if took <= wait {
			return x
		}
		t.Logf("deleting the queue took %v, and its messages wait for %v; once more with twice that", took, wait)
		ctx, cancel := x.Within(soon)
		x.Must(x.Work.Close(ctx))
		cancel()
		of := lab.Single
		if x.clustered() {
			of = lab.Cluster
		}
		r = of(t) // another virtual host, without those messages
	}
	t.Fatalf("inconclusive: the machine is too slow to delete a queue within %v", longestDoom)
	panic("unreachable")
}

// deleteWhileWaiting deletes a queue whose messages all wait, and returns how long that took since the first of them failed. They
// must end among the orphans, and those of other queues must return in time: they share the places where messages wait.
func (x *trial) deleteWhileWaiting() (took time.Duration) {
	x.T.Helper()
	queue := x.Work.Script.Doomed
	sub, err := x.Work.Subscribe(x.T.Context(), queue)
	x.Must(err)
	x.Fault("queue deleted while its messages wait", func(began int) {
		x.Work.PublishTo(x.T.Context(), queue, doomedMessages)
		failed, first := make(map[string]bool), int64(0)
		x.See(began, soon, "all doomed messages failed", func(e delivery.Event) bool {
			if e.Kind == delivery.Failed && e.Queue == queue {
				if first == 0 {
					first = e.At
				}
				failed[e.ID] = true
			}
			return len(failed) == doomedMessages
		})
		// Drained: all copies that wait are confirmed and their originals acked.
		x.Must(sub.Drain(x.T.Context()))
		x.Rabbit.API("DELETE", "/api/queues/"+x.Rabbit.Vhost+"/"+queue, nil, nil)
		took = time.Duration(delivery.Now() - first)
		x.Books.Record(delivery.Event{Kind: delivery.Witnessed, Comment: "deleted"})
	})
	return took
}

// deleteUnderConsumer deletes an empty queue that has a consumer, which must declare it again and go
// on by itself.
func (x *trial) deleteUnderConsumer(queue string) {
	x.T.Helper()
	x.Fault("queue deleted under its consumer", func(int) {
		ctx, cancel := x.Within(2 * soon)
		defer cancel()
		x.Must(x.Work.Pause(ctx))
		began := x.Books.Len()
		x.Rabbit.API("DELETE", "/api/queues/"+x.Rabbit.Vhost+"/"+queue, nil, nil)
		x.See(began, soon, "the consumer notices", func(e delivery.Event) bool {
			return e.Kind == delivery.Ceased && e.Queue == queue
		})
		x.See(began, soon, "the consumer goes on", func(e delivery.Event) bool {
			return e.Kind == delivery.Receiving && e.Queue == queue
		})
		x.Work.Resume()
	})
}

package faults

import (
	"testing"
	"time"

	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/delivery"
	"github.com/rehop/rehop/layout"
)

// deleteQueue: somebody deletes a queue under its consumer, and another one whose messages wait for
// their retries. What is deleted is chosen so that nothing is lost by the deleter's own will: the
// first queue is empty at that moment, and the messages of the second wait elsewhere.
func deleteQueue(t *testing.T, seed uint64) delivery.Report {
	x := newTrial(t, lab.Single(t), seed)
	x.work.Script.Doomed = "audit-doomed"
	x.start()
	n := times(1, 4)
	x.deleteWhileWaiting()
	for range n {
		x.deleteUnderConsumer(x.work.Script.Queues[2])
	}
	ch := x.rabbit.Channel()
	lab.Eventually(t, soon, "the doomed messages among the orphans", func() bool {
		return x.rabbit.Depth(ch, layout.OrphansQueue) == doomedMessages
	})
	x.run(200)
	rules := x.work.Rules()
	rules.Faults = n + 1
	rules.Witness = delivery.Sees(delivery.Ceased, delivery.Witnessed)
	// Nothing is published while a queue is missing, so nothing waits then either.
	rules.NoRetries = true
	report := x.finish(rules)
	if report.Orphaned != doomedMessages {
		t.Errorf("%d messages of the deleted queue are in %s, want %d", report.Orphaned, layout.OrphansQueue, doomedMessages)
	}
	return report
}

const doomedMessages = 60

// deleteWhileWaiting deletes a queue whose messages all wait. They must end among the orphans, and
// those of other queues must return in time: they share the places where messages wait.
func (x *trial) deleteWhileWaiting() {
	x.t.Helper()
	queue := x.work.Script.Doomed
	sub, err := x.work.Subscribe(x.ctx, queue)
	x.must(err)
	x.fault("queue deleted while its messages wait", func() {
		began := x.books.Len()
		x.work.PublishTo(x.ctx, queue, doomedMessages)
		failed, first := make(map[string]bool), int64(0)
		x.see(began, soon, "all doomed messages failed", func(e delivery.Event) bool {
			if e.Kind == delivery.Failed && e.Queue == queue {
				if first == 0 {
					first = e.At
				}
				failed[e.ID] = true
			}
			return len(failed) == doomedMessages
		})
		// Drained: all copies that wait are confirmed and their originals acked.
		x.must(sub.Drain(x.ctx))
		x.rabbit.API("DELETE", "/api/queues/"+x.rabbit.Vhost+"/"+queue, nil, nil)
		if took := time.Duration(delivery.Now() - first); took > x.work.Script.Doom {
			x.t.Fatalf("INCONCLUSIVE: deleting the queue took %v, and its messages wait for %v", took, x.work.Script.Doom)
		}
		x.books.Record(delivery.Event{Kind: delivery.Witnessed, Comment: "deleted"})
	})
}

// deleteUnderConsumer deletes an empty queue that has a consumer, which must declare it again and go
// on by itself.
func (x *trial) deleteUnderConsumer(queue string) {
	x.t.Helper()
	x.fault("queue deleted under its consumer", func() {
		ctx, cancel := x.within(2 * soon)
		defer cancel()
		x.must(x.work.Pause(ctx))
		began := x.books.Len()
		x.rabbit.API("DELETE", "/api/queues/"+x.rabbit.Vhost+"/"+queue, nil, nil)
		x.see(began, soon, "the consumer notices", func(e delivery.Event) bool {
			return e.Kind == delivery.Ceased && e.Queue == queue
		})
		x.see(began, soon, "the consumer goes on", func(e delivery.Event) bool {
			return e.Kind == delivery.Receiving && e.Queue == queue
		})
		x.work.Resume()
	})
}

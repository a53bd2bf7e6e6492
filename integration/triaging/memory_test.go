//go:build !race

package triaging

import (
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

// TestSQLiteLargeBodies shows that what a sweep, a keep and a restore have in memory is bounded by bytes, not by the number of messages. It is between 53 and
// 80 MiB on an idle machine. On a busy one the garbage collector takes longer, and counts all that is made meanwhile.
func TestSQLiteLargeBodies(t *testing.T) {
	b := newWorkbench(t, lab.Single(t), openSQLite(t))
	const n, size, most = 250, 1 << 20, 200 << 20
	for i := range n {
		body := make([]byte, size)
		copy(body, strconv.Itoa(i))
		b.must(b.ch.PublishWithContext(b.ctx, "", queue+".failed", true, false, amqp.Publishing{MessageId: strconv.Itoa(i), DeliveryMode: amqp.Persistent, Body: body}))
	}
	kit.WantDepth(t, b.Rabbit, b.ch, queue+".failed", n)
	for _, part := range []struct {
		name string
		do   func()
	}{
		{"sweep", b.reconcile},
		{"keep", func() { b.run(triage.RunPlan{Action: triage.ActionKeep}) }},
		{"restore", func() { b.run(triage.RunPlan{Action: triage.ActionRestore}) }},
		{"replay", func() { b.run(triage.RunPlan{Action: triage.ActionReplay}) }},
	} {
		heap := peak(part.do)
		t.Logf("%s: up to %d MiB of live heap for %d messages of 1 MiB", part.name, heap>>20, n)
		if heap > most {
			t.Errorf("%s: got %d MiB of heap, want at most %d", part.name, heap>>20, most>>20)
		}
	}
	kit.WantDepth(t, b.Rabbit, b.ch, queue, n)
}

// peak measures the largest live heap while something runs. What is garbage does not count: how much of that there is depends on how
// busy the machine is.
func peak(do func()) (most uint64) {
	stop := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		samples := time.NewTicker(20 * time.Millisecond)
		defer samples.Stop()
		for {
			runtime.GC()
			metrics.Read(live)
			most = max(most, live[0].Value.Uint64())
			select {
			case <-stop:
				return
			case <-samples.C:
			}
		}
	})
	do()
	close(stop)
	sampling.Wait()
	return most
}

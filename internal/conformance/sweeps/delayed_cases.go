package sweeps

import (
	"bytes"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/conformance/await"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

func delayedCases() []Case {
	return []Case{{"delayed/Reported", delayedReported}}
}

// delayedReported: from RabbitMQ 4.3 on a queue can hold back what was returned to it. A sweep does not see that, and reports how many there are.
func delayedReported(b *Bench) {
	const n, ready = 5, 2
	args := failedArgs(layout.Quorum)
	args["x-delayed-retry-type"], args["x-delayed-retry-min"] = "all", time.Hour.Milliseconds()
	b.declare(failed, args, queue)
	b.must(b.ch.ExchangeDeclare(layouts.ReturnExchange, "direct", true, false, false, false, nil))
	b.must(b.ch.QueueBind(queue, queue, layouts.ReturnExchange, false, nil))
	a := b.admin(b.managed)
	b.fill(failed, n)
	delayed := 0
	if strings.HasPrefix(b.release, "4.3.") {
		delayed = n
	}
	found, err := a.Failed(b.context(), queue, 2*n, admin.Filter{})
	b.must(err)
	b.wantIDs("the first list", idsOf(found), n, nil)
	await.True(b.t, limit, 50*time.Millisecond, "the broker to report how many messages are held back", func() bool {
		got, err := a.Delayed(b.context(), queue)
		b.must(err)
		return got == delayed && b.depth(failed) == n-delayed
	})
	all := admin.Filter{}
	if found, err = a.Failed(b.context(), queue, 2*n, all); err != nil || len(found) != n-delayed {
		b.t.Fatalf("list: got %d messages and %v, want %d", len(found), err, n-delayed)
	}
	if got, err := a.CountFailed(b.context(), queue, all); err != nil || got.Messages != n-delayed || got.Delayed != delayed {
		b.t.Errorf("count: got %+v and %v, want %d messages and %d delayed", got, err, n-delayed, delayed)
	}
	var lines bytes.Buffer
	if got, err := a.Export(b.context(), queue, &lines, all); err != nil || got != n-delayed {
		b.t.Errorf("export: got %d messages and %v, want %d", got, err, n-delayed)
	}
	await.True(b.t, limit, 50*time.Millisecond, "the overview, whose figures are late, to have one queue with all failed messages", func() bool {
		overview, err := a.Queues(b.context())
		b.must(err)
		return len(overview.Queues) == 1 && overview.Queues[0].Name == queue && overview.Queues[0].Failed == n
	})
	for range ready {
		b.publish(failed, amqp091.Publishing{DeliveryMode: amqp091.Persistent}, true)
	}
	if p, err := a.Replay(b.context(), queue, admin.Options{}); err != nil || p.Done != n+ready-delayed || p.Delayed != delayed {
		b.t.Errorf("replay: got %+v and %v, want %d done and %d delayed", p, err, n+ready-delayed, delayed)
	}
	if p, err := a.Discard(b.context(), queue, admin.Options{}); err != nil || p.Done != 0 || p.Delayed != delayed {
		b.t.Errorf("discard: got %+v and %v, want none done and %d delayed", p, err, delayed)
	}
}

package triaging

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/triage"
)

// eachIndex runs a test with the index in two databases, one of which limits the length of names.
func eachIndex(t *testing.T, test func(b *workbench)) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *lab.Database{"Postgres": lab.Postgres, "MySQL": lab.MySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newWorkbench(t, lab.Embedded(t), open(t)))
		})
	}
}

// A message whose headers record longer names than AMQP has keeps no others out of the index.
func TestLongNames(t *testing.T) {
	eachIndex(t, func(b *workbench) {
		long := strings.Repeat("k", 300)
		for id, name := range map[string]string{"key": envelope.Key, "exchange": envelope.Exchange, "kind": envelope.Kind} {
			b.must(b.ch.PublishWithContext(b.ctx, "", queue+".failed", true, false, amqp.Publishing{MessageId: id, Headers: amqp.Table{envelope.Queue: queue, name: long}, Body: []byte("{}")}))
		}
		kit.WantDepth(b.t, b.Rabbit, b.ch, queue+".failed", 3)
		b.fillMany(2)
		b.want(0, 5, map[string]int{"state:failed": 5, "key:kkkk*": 1})
		if sent := b.run(triage.RunPlan{Action: triage.ActionDiscard}); sent.Counts.Sent != 5 {
			b.t.Errorf("got %+v, want 5 messages discarded", sent.Counts)
		}
	})
}

// A message whose failure has a time in the far future is deleted when its retention is over, as others are.
func TestFarFuture(t *testing.T) {
	eachIndex(t, func(b *workbench) {
		m := triage.Message{ID: "future", Queue: queue, FailedQueue: queue + ".failed", Kind: "error", FailedAt: time.Now().AddDate(20, 0, 0)}
		b.must(b.store.Put(b.ctx, []triage.Message{m}))
		b.reconcile()
		b.want(0, 0, map[string]int{"state:gone": 1})
		_, err := b.store.Clean(b.ctx, 0)
		b.must(err)
		b.want(0, 0, map[string]int{"": 0})
	})
}

// A message was delivered to two queues and has failed in both. What becomes of it in one of them is not recorded for the other.
func TestOutcomesOfTwoQueues(t *testing.T) {
	eachIndex(t, func(b *workbench) {
		const n = 8
		client := kit.Open(b.t, rehop.Config{URL: b.URL, Reports: true})
		kit.Drain(b.t, kit.Subscribe(b.t, client, rehop.Subscriber{Queue: "billing", Handler: kit.Nop}))
		var all []exported
		for i := range n {
			one := failedMessage(string(rune('a'+i)), i, 0, `{}`)
			other := failedMessage(string(rune('a'+i)), i, 0, `{}`)
			other["queue"], other["key"] = "billing", "billing"
			all = append(all, one, other)
		}
		b.fill(all...)
		_, err := b.service().Reconcile(b.ctx, "billing.failed")
		b.must(err)
		r := b.start(triage.RunPlan{Action: triage.ActionReplay})
		defer b.work()()
		b.until(r, "all are sent", func(r triage.Run) bool { return r.Counts.Sent == 2*n })
		kit.Subscribe(b.t, client, rehop.Subscriber{Queue: queue, Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })})
		b.until(r, "the outcomes of one queue", func(r triage.Run) bool { return r.Counts.Succeeded == n })
		b.want(0, 0, map[string]int{"queue:" + queue + " state:succeeded": n, "queue:billing state:replayed": n})
	})
}

// A message without an id, as other programs publish them, is the same message in the index when it has failed again after a replay, and so are two that are equal.
func TestWithoutIDAgain(t *testing.T) {
	eachIndex(t, func(b *workbench) {
		client := kit.Open(b.t, rehop.Config{URL: b.URL, Reports: true})
		for range 2 {
			b.must(b.ch.PublishWithContext(b.ctx, "", queue+".failed", true, false, amqp.Publishing{Headers: amqp.Table{envelope.Queue: queue}, Body: []byte("{}")}))
		}
		kit.WantDepth(b.t, b.Rabbit, b.ch, queue+".failed", 2)
		b.reconcile()
		before := b.found("state:failed")
		kit.Subscribe(b.t, client, rehop.Subscriber{Queue: queue, Retry: rehop.NoRetry(), Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return errors.New("no") })})
		defer b.work()()
		for range 2 {
			r := b.start(triage.RunPlan{Action: triage.ActionReplay})
			b.until(r, "both have failed again", func(r triage.Run) bool { return r.State == triage.Done && r.Counts.Failed == 2 })
			kit.WantDepth(b.t, b.Rabbit, b.ch, queue+".failed", 2)
			b.reconcile()
			b.want(0, 2, map[string]int{"": 2, "state:failed": 2})
		}
		refs := make(map[string]bool)
		for _, m := range append(before, b.found("")...) {
			refs[m.Ref] = true
		}
		if len(refs) != 2 {
			b.t.Errorf("got refs %v, want the same two before and afterwards", refs)
		}
	})
}

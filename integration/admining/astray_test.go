package admining

import (
	"context"
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/layouts"
)

// Messages that found no queue after they had waited have the kind unrouted, or that of their last failure, and a replay takes them where they were to go:
// the broker's record is about rehop's own queues, in which they waited.
func TestAstrayAfterWaiting(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		client := kit.Open(t, rehop.Config{URL: r.URL, Exchanges: []rehop.Exchange{{Name: "order"}}})
		ctx, ch := kit.Timeout(t, 5*kit.Limit), r.Channel()
		a, err := admin.Open(ctx, admin.Config{URL: r.URL, Management: r.Management()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		// A delayed message for which no queue is bound, one whose queue is deleted, and one that has failed and whose queue is deleted.
		kit.Publish(t, client, rehop.Message{ID: "unbound", Exchange: "order", Key: "order.1", Delay: 100 * time.Millisecond})
		kit.Queue(t, ch, "doomed", nil)
		kit.Publish(t, client, rehop.Message{ID: "delayed", Key: "doomed", Delay: time.Second})
		kit.DeleteQueue(t, ch, "doomed")
		failed := make(chan *rehop.Delivery, 1)
		sub := kit.Subscribe(t, client, rehop.Subscriber{Queue: "retried", Retry: rehop.Steps(2 * time.Second), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			failed <- d
			return errors.New("not today")
		})})
		kit.Publish(t, client, rehop.Message{ID: "retry", Key: "retried"})
		kit.Receive(t, failed, "the first attempt")
		kit.Drain(t, sub)
		kit.DeleteQueue(t, ch, "retried")

		// One that the broker dead-lettered from a queue that is called like one of rehop's, and is not.
		kit.Queue(t, ch, "runway.landing", amqp.Table{"x-message-ttl": int32(1), "x-dead-letter-exchange": layouts.ReturnExchange, "x-dead-letter-routing-key": "gone"})
		kit.Publish(t, client, rehop.Message{ID: "dead", Key: "runway.landing"})

		kit.WantDepth(t, r, ch, layouts.UnroutedQueue, 1)
		kit.WantDepth(t, r, ch, layouts.OrphansQueue, 3)
		for _, want := range []struct{ from, id, kind, reason, queue, exchange, key string }{
			{layouts.UnroutedQueue, "unbound", "unrouted", "no queue was bound for it", "", "order", "order.1"},
			{layouts.OrphansQueue, "delayed", "unrouted", "its queue did not exist when its delay was over", "doomed", "", "doomed"},
			{layouts.OrphansQueue, "retry", "error", "not today", "retried", "", "retried"},
			{layouts.OrphansQueue, "dead", "dead", "dead-lettered by the broker: expired", "runway.landing", "", "runway.landing"},
		} {
			found, err := a.Failed(ctx, want.from, 10, admin.Filter{IDs: []string{want.id}})
			if err != nil || len(found) != 1 {
				t.Fatalf("%s in %s: got %v and %v, want it", want.id, want.from, found, err)
			}
			if m := found[0]; string(m.Kind) != want.kind || m.Error != want.reason || m.Queue != want.queue || m.Exchange != want.exchange || m.Key != want.key || m.FailedAt.IsZero() {
				t.Errorf("%s: got kind %q, error %q, queue %q, exchange %q, key %q, failed at %v, want %+v", want.id, m.Kind, m.Error, m.Queue, m.Exchange, m.Key, m.FailedAt, want)
			}
		}

		kit.Queue(t, ch, "bound", nil, [2]string{"order", "order.1"})
		kit.DeleteQueue(t, ch, "runway.landing")
		for _, queue := range []string{"doomed", "retried", "runway.landing"} {
			kit.Queue(t, ch, queue, nil)
		}
		for from, n := range map[string]int{layouts.UnroutedQueue: 1, layouts.OrphansQueue: 3} {
			if p, err := a.Replay(ctx, from, admin.Options{}); err != nil || p.Done != n {
				t.Errorf("replay %s: got %+v and %v, want %d", from, p, err, n)
			}
		}
		for queue, id := range map[string]string{"bound": "unbound", "doomed": "delayed", "retried": "retry", "runway.landing": "dead"} {
			kit.WantDepth(t, r, ch, queue, 1)
			if got := kit.TakeAll(t, ch, queue); len(got) != 1 || got[0].MessageId != id {
				t.Errorf("queue %q: got %v, want %s", queue, got, id)
			}
		}
	})
}

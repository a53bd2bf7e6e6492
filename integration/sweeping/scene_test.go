package sweeping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/layouts"
)

const (
	queue    = "orders"
	bodySize = 256
	// publishers publish at once, each batches of this size.
	publishers, publishedAtOnce = 8, 250
	timeout                     = 20 * time.Minute
)

var failed = layouts.FailedQueue(queue)

// scene is a queue with a failed queue.
type scene struct {
	t      *testing.T
	ctx    context.Context
	rabbit *lab.Rabbit
	client *rehop.Client
	admin  *admin.Admin
	ch     *amqp.Channel
	sample amqp.Delivery // a failed message
}

func newScene(t *testing.T) *scene {
	t.Helper()
	return sceneOn(t, lab.Single(t))
}

func sceneOn(t *testing.T, r *lab.Rabbit) *scene {
	t.Helper()
	s := &scene{t: t, ctx: kit.Timeout(t, timeout), rabbit: r, client: kit.Open(t, rehop.Config{URL: r.URL}), ch: r.Channel()}
	a, err := admin.Open(s.ctx, admin.Config{URL: r.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	s.admin = a
	sub := kit.Subscribe(t, s.client, rehop.Subscriber{Queue: queue, Exchange: "shop", Retry: rehop.NoRetry(),
		Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return errors.New("no such customer") })})
	kit.Publish(t, s.client, rehop.Message{ID: "sample", Exchange: "shop", Key: "order.placed", Body: bytes.Repeat([]byte("x"), bodySize)})
	kit.WantDepth(t, r, s.ch, failed, 1)
	kit.Drain(t, sub)
	s.sample = kit.Take(t, s.ch, failed)
	return s
}

// publish publishes messages to the queue, many at once, and waits until all are confirmed.
func (s *scene) publish(n int) (int, error) {
	var confirmed, next atomic.Int64
	var group sync.WaitGroup
	faults := make([]error, publishers)
	body := bytes.Repeat([]byte("x"), bodySize)
	for p := range publishers {
		group.Go(func() {
			for faults[p] == nil {
				end := int(next.Add(publishedAtOnce))
				batch := make([]rehop.Message, 0, publishedAtOnce)
				for i := end - publishedAtOnce; i < min(end, n); i++ {
					batch = append(batch, rehop.Message{Exchange: "shop", Key: "order.placed", Body: body})
				}
				if len(batch) == 0 {
					return
				}
				if faults[p] = s.client.PublishBatch(s.ctx, batch); faults[p] == nil {
					confirmed.Add(int64(len(batch)))
				}
			}
		})
	}
	group.Wait()
	return int(confirmed.Load()), errors.Join(faults...)
}

// fill puts messages into the failed queue, with the ids 0, 1, 2 and so on, as if they had failed. Those with odd ids have the header
// odd.
func (s *scene) fill(n int) {
	s.t.Helper()
	ch := s.rabbit.Channel()
	if err := ch.Confirm(false); err != nil {
		s.t.Fatal(err)
	}
	odd := maps.Clone(s.sample.Headers)
	odd["odd"] = "yes"
	for i := range n {
		headers := s.sample.Headers
		if i%2 == 1 {
			headers = odd
		}
		confirm, err := ch.PublishWithDeferredConfirmWithContext(s.ctx, "", failed, true, false, amqp.Publishing{
			MessageId: fmt.Sprint(i), Headers: headers, Body: s.sample.Body, DeliveryMode: amqp.Persistent, Timestamp: s.sample.Timestamp,
		})
		if err != nil {
			s.t.Fatal(err)
		}
		if i%1000 == 999 || i == n-1 {
			if ok, err := confirm.WaitContext(s.ctx); err != nil || !ok {
				s.t.Fatalf("message %d was not confirmed: %v", i, err)
			}
		}
	}
	if err := ch.Close(); err != nil {
		s.t.Fatal(err)
	}
	kit.WantDepth(s.t, s.rabbit, s.ch, failed, n)
}

func (s *scene) purge(queue string) {
	s.t.Helper()
	if _, err := s.ch.QueuePurge(queue, false); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) depth(queue string) int {
	s.t.Helper()
	return s.rabbit.Depth(s.ch, queue)
}

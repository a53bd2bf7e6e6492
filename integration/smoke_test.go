package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/lab"
)

func TestSmoke(t *testing.T) {
	r := lab.Single(t)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := rehop.Open(ctx, rehop.Config{URL: r.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	got := make(chan *rehop.Delivery, 10)
	sub, err := c.Subscribe(ctx, rehop.Subscription{Queue: "q", Exchange: "order", Concurrency: 4,
		Retry: rehop.Steps(300*time.Millisecond, 500*time.Millisecond),
		Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			got <- d
			t.Logf("%v attempt %d %s %s %v", time.Now(), d.Attempt, d.Exchange, d.Key, d.Headers)
			if d.Attempt == 1 {
				return errors.New("boom")
			}
			if d.Attempt == 2 {
				return rehop.RetryAfter(1700*time.Millisecond, errors.New("later"))
			}
			return errors.New("bang")
		})})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Publish(ctx, rehop.Message{Exchange: "order", Key: "order.created", Body: []byte("hi"), Headers: map[string]any{"a": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		select {
		case <-got:
		case <-ctx.Done():
			t.Fatal("timeout")
		}
	}
	ch := r.Channel()
	lab.Eventually(t, 5*time.Second, "in failed", func() bool { return r.Depth(ch, "q.failed") == 1 })
	d, _, _ := ch.Get("q.failed", true)
	t.Log(d.Headers)
	err = c.Publish(ctx, rehop.Message{Exchange: "nix", Key: "order.created", Body: []byte("hi")})
	t.Log(err)
	if err := sub.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	ch.QueueUnbind("q", "#", "order", nil)
	err = c.Publish(ctx, rehop.Message{Exchange: "order", Key: "order.created", Body: []byte("hi")})
	t.Log(err)
	err = c.Publish(ctx, rehop.Message{Exchange: "order", Key: "order.created", Body: []byte("hi"), Headers: map[string]any{"a": "b"}})
	t.Log(err)
}

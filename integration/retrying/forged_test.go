package retrying

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/internal/layouts"
)

// Anybody can write rehop's headers; nonsense in them harms the message at most.
func TestForgedHeaders(t *testing.T) {
	t.Parallel()
	const limit = 3 // attempts
	for header, values := range map[string][]any{
		"rehop-attempt":      {int32(-5), int64(math.MinInt64), int64(math.MaxInt64), "text", []any{1}},
		"rehop-returns":      {int32(-5), int64(math.MaxInt64)},
		"rehop-replays":      {int32(-5), int64(math.MaxInt64)},
		"rehop-due":          {int64(math.MinInt64), int64(math.MaxInt64)},
		"rehop-first-failed": {int64(math.MinInt64), int64(math.MaxInt64)},
	} {
		for _, forged := range values {
			t.Run(fmt.Sprint(header, "=", forged), func(t *testing.T) {
				t.Parallel()
				_, ch, rec, c := kit.Setup(t)
				kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(100*time.Millisecond, 100*time.Millisecond),
					Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
						if d.Attempt < 1 || d.Replays < 0 {
							t.Errorf("delivery: got attempt %d, %d replays; want from 1 and from 0 on", d.Attempt, d.Replays)
						}
						if d.ID == "good" {
							return nil
						}
						return errors.New("again")
					})})
				err := ch.PublishWithContext(kit.Context(t), "", "q", false, false, amqp.Publishing{MessageId: "forged",
					Headers: amqp.Table{"rehop-queue": "q", "rehop-key": "q", header: forged}})
				if err != nil {
					t.Fatal(err)
				}
				for n := 1; ; n++ {
					got := kit.Receive(t, rec.Results, "result")
					if got.Outcome == rehop.OutcomeFailed {
						break
					}
					if got.Outcome != rehop.OutcomeRetry || n == limit {
						t.Fatalf("result %d: got %s, want retries, and failed by the third attempt", n, got.Outcome)
					}
				}
				if d := kit.Take(t, ch, "q.failed"); d.MessageId != "forged" {
					t.Errorf("failed message: got %q, want forged", d.MessageId)
				}
				kit.Publish(t, c, rehop.Message{ID: "good", Key: "q"})
				if got := kit.Receive(t, rec.Results, "result of a good message"); got.Outcome != rehop.OutcomeDone {
					t.Errorf("result of a good message: got %s (%v), want done", got.Outcome, got.Err)
				}
			})
		}
	}
}

// What a handler does to its delivery is its own affair.
func TestHandlerAltersItsDelivery(t *testing.T) {
	t.Parallel()
	eachWay(t, 130*time.Millisecond, func(t *testing.T, _ string, answer error) {
		const attempts = 3
		r, ch, rec, c := kit.Setup(t)
		seen := make(chan rehop.Delivery, 10)
		kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Exchange: "x", Keys: []string{"k"}, Retry: rehop.Steps(100*time.Millisecond, 100*time.Millisecond),
			Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				seen <- *d
				d.Attempt, d.MaxAttempts, d.Key, d.Exchange, d.Queue = 1, 100, "other", "other", "other"
				d.Transient, d.Replays, d.FirstFailed, d.Expiration = true, 7, time.Time{}, time.Millisecond
				return answer
			})})
		kit.Publish(t, c, rehop.Message{ID: "m", Exchange: "x", Key: "k", Body: []byte("body")})
		for attempt := 1; attempt <= attempts; attempt++ {
			d := kit.Receive(t, seen, "attempt")
			if d.Attempt != attempt || d.MaxAttempts != attempts || d.Exchange != "x" || d.Key != "k" || d.Queue != "q" || d.ID != "m" {
				t.Errorf("attempt %d: got attempt %d of %d, exchange %q, key %q, queue %q, id %q; want them as they were: x, k, q, m",
					attempt, d.Attempt, d.MaxAttempts, d.Exchange, d.Key, d.Queue, d.ID)
			}
			if d.Transient || d.Replays != 0 || d.Expiration != 0 || string(d.Body) != "body" {
				t.Errorf("attempt %d: got transient %v, %d replays, expiration %v, body %q; want false, none, none, body",
					attempt, d.Transient, d.Replays, d.Expiration, d.Body)
			}
			want := rehop.OutcomeRetry
			if attempt == attempts {
				want = rehop.OutcomeFailed
			}
			if got := kit.Receive(t, rec.Results, "result"); got.Outcome != want {
				t.Fatalf("attempt %d: got %s, want %s", attempt, got.Outcome, want)
			}
		}
		if f := kit.Failure(kit.Take(t, ch, "q.failed")); f.Attempt != attempts || f.Exchange != "x" || f.Key != "k" || f.Queue != "q" || f.Replays != 0 {
			t.Errorf("failed message: got attempt %d, exchange %q, key %q, queue %q, %d replays; want %d, x, k, q, 0",
				f.Attempt, f.Exchange, f.Key, f.Queue, f.Replays, attempts)
		}
		kit.WantDepth(t, r, ch, layouts.OrphansQueue, 0)
	})
}

// The way back is declared anew without the queue itself, which only its own connection may touch.
func TestExclusiveQueueWhoseStepIsDeleted(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	r, ch, rec, c := kit.Setup(t)
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Exclusive: true, Retry: rehop.Steps(delay),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.Attempt == 1 {
				return errors.New("again")
			}
			return nil
		})})
	for range 2 { // the second time what is declared anew is known already
		kit.DeleteQueue(t, ch, layouts.StepQueue(delay))
		kit.Publish(t, c, rehop.Message{Key: "q"})
		for _, want := range []rehop.Outcome{rehop.OutcomeRetry, rehop.OutcomeDone} {
			if got := kit.Receive(t, rec.Results, "result"); got.Outcome != want {
				t.Fatalf("result: got %s (%v), want %s", got.Outcome, got.Err, want)
			}
		}
	}
	kit.WantDepth(t, r, ch, layouts.OrphansQueue, 0)
}

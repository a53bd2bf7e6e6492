package subscribing

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/layout"
)

func TestConcurrencyIsBounded(t *testing.T) {
	t.Parallel()
	const concurrency, messages = 4, 200
	r := lab.Single(t)
	c := kit.OpenQuick(t, r, rehop.Config{})
	var inside crowd
	var seen kit.Tally
	full := make(chan struct{})
	var once sync.Once
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: concurrency, Prefetch: 50,
		Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			inside.enter()
			defer inside.leave()
			if inside.inside() == concurrency {
				once.Do(func() { close(full) })
			}
			select { // the first ones wait for each other, so that all slots are seen in use
			case <-full:
			case <-ctx.Done():
			}
			seen.Add(d.ID)
			return nil
		})})
	kit.Publish(t, c, kit.Numbered("q", messages)...)
	lab.Eventually(t, kit.Limit, "all messages handled", func() bool { return seen.Len() == messages })
	if got := inside.most(); got != concurrency {
		t.Errorf("handlers at once: got %d, want %d", got, concurrency)
	}
	seen.WantSum(t, "handler calls", messages)
}

// Handlers of the lost session still run when the new one delivers: they count.
func TestConcurrencyIsBoundedAcrossReconnect(t *testing.T) {
	t.Parallel()
	const concurrency, messages = 3, 30
	r := lab.Single(t)
	var w wire
	rec := kit.NewRecorder()
	c := kit.OpenQuick(t, r, rehop.Config{Dial: w.Dial, Hooks: rec.Hooks()})
	var inside crowd
	var seen kit.Tally
	release := make(chan struct{})
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: concurrency, Prefetch: 10,
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			inside.enter()
			defer inside.leave()
			<-release
			seen.Add(d.ID)
			return nil
		})})
	kit.Publish(t, c, kit.Numbered("q", messages)...)
	lab.Eventually(t, kit.Limit, "all slots in use", func() bool { return inside.inside() == concurrency })

	for round := range 2 {
		w.cut()
		awaitReturn(t, rec)
		if got := inside.inside(); got != concurrency {
			t.Errorf("round %d: handlers at once after the reconnect: got %d, want %d", round, got, concurrency)
		}
	}
	close(release)
	lab.Eventually(t, kit.Limit, "all messages handled", func() bool { return seen.Len() == messages })
	if got := inside.most(); got > concurrency {
		t.Errorf("handlers at once: got %d, want at most %d", got, concurrency)
	}
	// Each of those that ran when the connection was lost is delivered once more per loss, no other.
	if got, limit := seen.Sum(), messages+concurrency; got > limit {
		t.Errorf("handler calls: got %d, want at most %d", got, limit)
	}
}

// awaitReturn waits until a subscription is down, and then until it is up again.
func awaitReturn(t *testing.T, rec *kit.Recorder) {
	t.Helper()
	for kit.Receive(t, rec.Consumers, "consumer is down").Up {
	}
	for !kit.Receive(t, rec.Consumers, "consumer is back").Up {
	}
}

func TestPrefetchIsRespected(t *testing.T) {
	t.Parallel()
	const messages, prefetch, concurrency = 40, 7, 2
	for name, test := range map[string]struct {
		warm bool
		most int
	}{
		"at first": {false, prefetch + 1}, // one more is allowed in the first moments
		"later":    {true, prefetch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := lab.Single(t)
			ch := r.Channel()
			c := kit.OpenQuick(t, r, rehop.Config{})
			var inside crowd
			release, first := make(chan struct{}), make(chan struct{})
			kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: concurrency, Prefetch: prefetch,
				Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					if d.ID == "first" {
						close(first)
						return nil
					}
					inside.enter()
					defer inside.leave()
					<-release
					return nil
				})})
			if test.warm {
				kit.Publish(t, c, rehop.Message{ID: "first", Key: "q"})
				kit.Receive(t, first, "first message handled")
				kit.WantDepth(t, r, ch, "q", 0)
			}
			kit.Publish(t, c, kit.Numbered("q", messages)...)
			lab.Eventually(t, kit.Limit, "handlers run", func() bool { return inside.inside() == concurrency })
			// What is not ready has been sent to the only consumer and is not acked.
			least := messages
			lab.Eventually(t, kit.Limit, "as many sent ahead as allowed", func() bool {
				least = min(least, r.Depth(ch, "q"))
				return least <= messages-prefetch
			})
			for range 20 { // and it stays so
				least = min(least, r.Depth(ch, "q"))
			}
			if got := messages - least; got < prefetch || got > test.most {
				t.Errorf("messages sent and not acked: got %d, want from %d to %d", got, prefetch, test.most)
			}
			close(release)
			kit.WantDepth(t, r, ch, "q", 0)
		})
	}
}

func TestHandlerTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 200 * time.Millisecond
	r := lab.Single(t)
	rec := kit.NewRecorder()
	c := kit.OpenQuick(t, r, rehop.Config{Hooks: rec.Hooks()})
	type ended struct {
		err, cause error
		after      time.Duration
		left       time.Duration
	}
	ends, last := make(chan ended, 10), make(chan *rehop.Delivery, 10)
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Timeout: timeout, Retry: rehop.Steps(100 * time.Millisecond),
		Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			if d.Attempt > 1 {
				last <- d
				return nil
			}
			began := time.Now()
			deadline, _ := ctx.Deadline()
			<-ctx.Done()
			ends <- ended{ctx.Err(), context.Cause(ctx), time.Since(began), deadline.Sub(began)}
			return errors.New("gave up")
		})})
	kit.Publish(t, c, kit.Numbered("q", 1)...)

	end := kit.Receive(t, ends, "context ended")
	if !errors.Is(end.err, context.DeadlineExceeded) {
		t.Errorf("ctx.Err(): got %v, want %v", end.err, context.DeadlineExceeded)
	}
	if end.left > timeout {
		t.Errorf("time to ctx.Deadline(): got %v, want up to %v", end.left, timeout)
	}
	if end.after < end.left {
		t.Errorf("context ended after: got %v, want its deadline, %v", end.after, end.left)
	}
	got := kit.Receive(t, rec.Results, "first result")
	if got.Outcome != rehop.OutcomeRetry || got.Kind != "timeout" || got.Delay != 100*time.Millisecond {
		t.Errorf("result: got %s, kind %s, delay %v; want retry, timeout, 100ms", got.Outcome, got.Kind, got.Delay)
	}
	d := kit.Receive(t, last, "second attempt")
	if d.Attempt != 2 || d.LastError != "gave up" {
		t.Errorf("second attempt: got number %d, last error %q; want 2, %q", d.Attempt, d.LastError, "gave up")
	}
	if got := kit.Receive(t, rec.Results, "second result"); got.Outcome != rehop.OutcomeDone {
		t.Errorf("second result: got %s, want %s", got.Outcome, rehop.OutcomeDone)
	}
}

// One worker handles the messages of one publisher in their order.
func TestOneWorkerKeepsOrder(t *testing.T) {
	t.Parallel()
	const messages = 200
	kit.EachType(t, func(t *testing.T, kind layout.QueueType) {
		r := lab.Single(t)
		s := rehop.Subscriber{Queue: "q", QueueType: kind, Concurrency: 1, Prefetch: 20}
		fill(t, r, s, messages)
		c := kit.OpenQuick(t, r, rehop.Config{})
		got := make(chan *rehop.Delivery, 2*messages)
		s.Handler = kit.Into(got)
		kit.Subscribe(t, c, s)
		for i := range messages {
			if d := kit.Receive(t, got, "message"); d.ID != strconv.Itoa(i) {
				t.Fatalf("message %d: got %s", i, d.ID)
			}
		}
	})
}

// A handler can see that a message may have been handled before.
func TestRedelivered(t *testing.T) {
	t.Parallel()
	kit.EachType(t, func(t *testing.T, kind layout.QueueType) {
		r := lab.Single(t)
		ch := r.Channel()
		var w wire
		c := kit.OpenQuick(t, r, rehop.Config{Dial: w.Dial})
		got := make(chan rehop.Delivery, 10)
		release := make(chan struct{})
		sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", QueueType: kind, Retry: rehop.NoRetry(),
			Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				got <- *d
				<-release
				return nil
			})})
		kit.Publish(t, c, kit.Numbered("q", 1)...)
		if d := kit.Receive(t, got, "first delivery"); d.Redelivered || d.Attempt != 1 {
			t.Errorf("first delivery: got redelivered %v, attempt %d; want false, 1", d.Redelivered, d.Attempt)
		}
		w.cut()
		close(release)
		if d := kit.Receive(t, got, "second delivery"); !d.Redelivered || d.Attempt != 1 || d.ID != "0" || d.Key != "q" || d.Exchange != "" {
			t.Errorf("second delivery: got redelivered %v, attempt %d, id %s, exchange %q, key %q; want true, 1, 0, none, q", d.Redelivered, d.Attempt, d.ID, d.Exchange, d.Key)
		}
		kit.Drain(t, sub)
		wantGone(t, r, ch, "q")
		kit.WantDepth(t, r, ch, "q.failed", 0)
	})
}

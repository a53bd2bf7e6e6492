package rehop_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// slowly makes a handler that takes this long, and notices when its context ends.
func slowly(d time.Duration) *logbook {
	return newLogbook(func(ctx context.Context, _ *rehop.Delivery) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// Drain lets what has been received finish, and returns when it has.
func TestDrainWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := slowly(time.Minute)
		sub := subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log})
		publish(t, b.Client, rehop.Message{Key: "q"})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := sub.Drain(ctx); err != nil {
			t.Errorf("drain: got %v, want nil", err)
		}
		within(t, "drained after", log.now(), time.Minute, time.Minute+time.Second)
		if ready, unacked := b.Depth("q"); ready+unacked != 0 {
			t.Errorf("left: got %d ready and %d unacked, want none", ready, unacked)
		}
	})
}

// When its time is up, Drain cancels the handlers. What they do not finish goes back, and no attempt is used.
func TestDrainDeadline(t *testing.T) {
	const limit = 5 * time.Minute
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := slowly(time.Hour)
		sub := subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log, Timeout: 2 * time.Hour})
		publish(t, b.Client, rehop.Message{Key: "q"})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		if err := sub.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drain: got %v, want that the deadline is exceeded", err)
		}
		within(t, "drained after", log.now(), limit, limit+time.Second)
		messages := b.Messages("q")
		if len(messages) != 1 || messages[0].Attempts != 0 {
			t.Fatalf("left: got %+v, want one message that has not failed", messages)
		}
		again := newLogbook(func(context.Context, *rehop.Delivery) error { return nil })
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: again})
		b.AwaitEmpty("q")
		if runs := again.all(); len(runs) != 1 || runs[0].Attempt != 1 {
			t.Errorf("next runs: got %+v, want one, attempt 1", runs)
		}
	})
}

// A handler that ignores its context does not keep Drain: its message goes back while it runs on.
func TestDrainDoesNotWaitForTheDeaf(t *testing.T) {
	const limit = time.Minute
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(func(context.Context, *rehop.Delivery) error {
			time.Sleep(time.Hour)
			return nil
		})
		sub := subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log})
		publish(t, b.Client, rehop.Message{Key: "q"})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		if err := sub.Drain(ctx); err == nil {
			t.Error("drain: got nil, want an error")
		}
		within(t, "drained after", log.now(), limit, limit+10*time.Second)
		if ready, unacked := b.Depth("q"); ready != 1 || unacked != 0 {
			t.Errorf("left: got %d ready and %d unacked, want 1 and 0", ready, unacked)
		}
		time.Sleep(time.Hour)
	})
}

// A handler that does not end is reported, its context canceled, its attempt counted, and its place given to another worker.
func TestStuckHandler(t *testing.T) {
	const timeout, grace = 10 * time.Minute, time.Minute
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(func(_ context.Context, d *rehop.Delivery) error {
			if d.Attempt == 1 {
				time.Sleep(3 * time.Hour)
			}
			return nil
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log, Timeout: timeout, StuckAfter: grace, Retry: rehop.Steps(time.Hour)})
		publish(t, b.Client, rehop.Message{Key: "q"})
		b.AwaitEmpty("q")
		runs := log.all()
		if len(runs) != 2 || runs[1].Attempt != 2 {
			t.Fatalf("runs: got %+v, want two, the second attempt 2", runs)
		}
		if want := timeout + grace + time.Hour; runs[1].at != want {
			t.Errorf("second attempt: got %v, want %v", runs[1].at, want)
		}
		time.Sleep(3 * time.Hour)
	}, rehoptest.WithTimeout(time.Hour))
}

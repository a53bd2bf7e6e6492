package rehop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// succeed is the answer of a handler that has nothing to do.
func succeed(context.Context, *rehop.Delivery) error { return nil }

// outcome is what became of the message with an index, and when.
type outcome struct {
	index int
	err   error
	at    time.Duration
}

// each publishes in the background. What it returns is closed at the end.
func each(ctx context.Context, c *rehop.Client, messages ...rehop.Message) <-chan outcome {
	outcomes, clock := make(chan outcome, len(messages)), startClock()
	go func() {
		defer close(outcomes)
		c.PublishEach(ctx, messages, func(i int, err error) { outcomes <- outcome{i, err, clock.now()} })
	}()
	return outcomes
}

// A message that is not confirmed keeps no other from being told of, wherever it is in the batch.
func TestEachByItself(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		for _, q := range []string{"slow", "quick"} {
			subscribe(t, b.Client, rehop.Subscription{Queue: q, Handler: newLogbook(succeed)})
		}
		b.HoldConfirmsOf(func(_, key string) bool { return key == "slow" })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		outcomes := each(ctx, b.Client, rehop.Message{Key: "slow"}, rehop.Message{Key: "quick"}, rehop.Message{Exchange: "missing"}, rehop.Message{Key: "quick"})
		for o := range outcomes {
			switch {
			case o.index == 0 && (!errors.Is(o.err, rehop.ErrUnknown) || o.at != 10*time.Second):
				t.Errorf("slow one: got %v after %v, want ErrUnknown after 10s", o.err, o.at)
			case o.index == 2 && (!errors.Is(o.err, rehop.ErrUnroutable) || o.at > time.Second):
				t.Errorf("one without an exchange: got %v after %v, want ErrUnroutable at once", o.err, o.at)
			case o.index%2 == 1 && (o.err != nil || o.at > time.Second):
				t.Errorf("quick one: got %v after %v, want nil at once", o.err, o.at)
			}
		}
	})
}

// A message whose id is under way does not hold up those behind it, and is sent when the other one has its answer.
func TestEachWithTheIDOfAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		for _, q := range []string{"slow", "quick"} {
			subscribe(t, b.Client, rehop.Subscription{Queue: q, Handler: newLogbook(succeed)})
		}
		b.HoldConfirmsOf(func(_, key string) bool { return key == "slow" })
		first := each(t.Context(), b.Client, rehop.Message{ID: "same", Key: "slow"})
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		second := each(ctx, b.Client, rehop.Message{ID: "same", Key: "slow"}, rehop.Message{Key: "quick"})
		if o := <-second; o.index != 1 || o.err != nil || o.at > time.Second {
			t.Errorf("got message %d with %v after %v, want the one with another id at once", o.index, o.err, o.at)
		}
		if o := <-second; !errors.Is(o.err, rehop.ErrUnknown) {
			t.Errorf("while the first is not confirmed: got %v, want ErrUnknown", o.err)
		}
		third := each(t.Context(), b.Client, rehop.Message{ID: "same", Key: "quick"})
		time.Sleep(time.Second)
		b.HoldConfirmsOf(nil)
		for name, outcomes := range map[string]<-chan outcome{"first": first, "third": third} {
			if o := <-outcomes; o.err != nil {
				t.Errorf("%s: got %v, want nil when the first is confirmed", name, o.err)
			}
		}
	})
}

// Messages with the same id in one batch are sent one after the other.
func TestEachWithOneID(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(succeed)
		subscribe(t, b.Client, rehop.Subscription{Queue: "q", Handler: log})
		if err := b.Client.PublishBatch(t.Context(), []rehop.Message{{ID: "same", Key: "q"}, {ID: "same", Key: "q"}, {ID: "same", Key: "q"}}); err != nil {
			t.Errorf("got %v, want nil", err)
		}
		b.AwaitEmpty("q")
		if got := len(log.all()); got != 3 {
			t.Errorf("handled: got %d, want 3", got)
		}
	})
}

package rehop_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// outcomes counts the results that hooks receive.
type outcomes struct {
	mu   sync.Mutex
	seen map[rehop.Outcome]int
	then func(rehop.Result)
}

func (o *outcomes) OnResult(_ context.Context, _ *rehop.Delivery, r rehop.Result) {
	o.mu.Lock()
	if o.seen == nil {
		o.seen = make(map[rehop.Outcome]int)
	}
	o.seen[r.Outcome]++
	o.mu.Unlock()
	if o.then != nil {
		o.then(r)
	}
}

func (o *outcomes) of(what rehop.Outcome) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen[what]
}

// Acks are sent together, a little later. A message is done when its ack has been sent, and not before: if the connection is lost in
// between, the broker delivers it again.
func TestDoneMeansAcked(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		const messages = 4
		told := new(outcomes)
		config := b.Config()
		config.Hooks = append(config.Hooks, rehop.Hooks{OnResult: told.OnResult})
		client, err := rehop.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(context.Background())
		var mu sync.Mutex
		runs, handled := 0, make(chan struct{}, 100)
		subscribe(t, client, rehop.Subscriber{Queue: "q", Prefetch: 100, Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			runs++
			handled <- struct{}{}
			return nil
		})})
		publish(t, client, rehop.Message{Key: "q"}) // from now on it has its full prefetch
		<-handled
		b.AwaitEmpty("q")
		time.Sleep(time.Minute)
		for range messages {
			publish(t, b.Client, rehop.Message{Key: "q"})
		}
		for range messages {
			<-handled
		}
		time.Sleep(time.Millisecond) // the acks wait for others
		if ready, unacked := b.Depth("q"); ready != 0 || unacked != messages {
			t.Fatalf("before the acks: got %d ready and %d unacked, want 0 and %d", ready, unacked, messages)
		}
		if got := told.of(rehop.OutcomeDone); got != 1 {
			t.Errorf("done before the acks: got %d, want 1, the first", got)
		}
		b.Drop()
		time.Sleep(time.Minute)
		b.AwaitEmpty("q")
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if want := 1 + 2*messages; runs != want {
			t.Errorf("runs: got %d, want %d", runs, want)
		}
		if done, lost := told.of(rehop.OutcomeDone), told.of(rehop.OutcomeLost); done != 1+messages || lost != messages {
			t.Errorf("hooks: got %d done and %d lost, want %d and %d", done, lost, 1+messages, messages)
		}
	})
}

// When Drain returns, hooks have received everything.
func TestDrainTellsAll(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		const messages = 50
		told := &outcomes{then: func(rehop.Result) { time.Sleep(time.Second) }}
		config := b.Config()
		config.Hooks = append(config.Hooks, rehop.Hooks{OnResult: told.OnResult})
		client, err := rehop.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(context.Background())
		sub := subscribe(t, client, rehop.Subscriber{Queue: "q", Prefetch: 100, Concurrency: 5, Handler: slowly(time.Minute)})
		for range messages {
			publish(t, client, rehop.Message{Key: "q"})
		}
		time.Sleep(2*time.Minute + time.Second)
		if err := sub.Drain(context.Background()); err != nil {
			t.Errorf("drain: got %v, want nil", err)
		}
		ready, unacked := b.Depth("q")
		if got, want := told.of(rehop.OutcomeDone), messages-ready-unacked; got != want || unacked != 0 {
			t.Errorf("done: got %d, want %d; unacked: %d, want 0", got, want, unacked)
		}
	})
}

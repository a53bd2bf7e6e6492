package rehop_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// openUnbroken opens a client that must not lose a connection.
func openUnbroken(t *testing.T, b *rehoptest.Broker) *rehop.Client {
	t.Helper()
	var lost atomic.Bool
	return openWith(t, b, func(c *rehop.Config) {
		c.Hooks = append(c.Hooks, rehop.Hooks{OnState: func(c rehop.StateChange) {
			if c.State == rehop.StateRecovering && !lost.Swap(true) {
				t.Errorf("a connection was lost: %v", c.Err)
			}
		}})
	})
}

// A subscription that is stopped as soon as it has begun leaves no copies, and the connection stays, which others use.
func TestStopAtOnce(t *testing.T) {
	for _, release := range releases {
		t.Run(release.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				const messages, stops = 20, 20
				client := openUnbroken(t, b)
				defer client.Close(context.Background())
				neighbour := newLogbook(func(context.Context, *rehop.Delivery) error {
					time.Sleep(time.Second)
					return nil
				})
				subscribe(t, client, rehop.Subscriber{Queue: "neighbour", Handler: neighbour})
				stopped := rehop.Subscriber{Queue: "q", Handler: newLogbook(func(ctx context.Context, _ *rehop.Delivery) error {
					<-ctx.Done()
					return ctx.Err()
				})}
				sub := subscribe(t, client, stopped)
				publishMany(t, client, "q", messages)
				publishMany(t, client, "neighbour", messages)
				synctest.Wait()
				for i := range stops {
					if err := sub.Stop(); err != nil {
						t.Errorf("stop %d: got %v, want nil", i, err)
					}
					time.Sleep(200 * time.Millisecond)
					if ready, unacked := b.Depth("q"); ready+unacked != messages {
						t.Fatalf("after %d stops: got %d messages in the queue, want %d", i+1, ready+unacked, messages)
					}
					sub = subscribe(t, client, stopped)
				}
				time.Sleep(time.Minute)
				if n := len(neighbour.all()); n != messages {
					t.Errorf("another subscription: got %d runs, want %d", n, messages)
				}
			}, following(release))
		})
	}
}

// Stops and drains at any moment, without a fault: each message is handled once, and no connection is lost.
func TestStopsAtRandom(t *testing.T) {
	batches := rehop.Batch{Size: 5, Wait: 50 * time.Millisecond}
	for _, release := range releases {
		for name, s := range map[string]rehop.Subscriber{
			"quorum": {}, "classic": {QueueType: layout.Classic}, "two": {Concurrency: 2}, "single active": {SingleActiveConsumer: true},
			"batch": {Batch: batches}, "two batches": {Concurrency: 2, Batch: batches}, "classic batch": {QueueType: layout.Classic, Batch: batches},
			"rate": {Rate: 20, Prefetch: 10}, "dlx": {Layout: layout.DLX{}}, "sneakers": {Layout: layout.Sneakers{}},
		} {
			t.Run(release.String()+" "+name, func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(t *testing.T, b *rehoptest.Broker) { stopAtRandom(t, b, s) }, following(release), rehoptest.WithTimeout(time.Hour))
			})
		}
	}
}

func stopAtRandom(t *testing.T, b *rehoptest.Broker, s rehop.Subscriber) {
	const messages = 60
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	below := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	handled := make(map[string]int)
	handle := func(ctx context.Context, d *rehop.Delivery) error {
		switch below(6) {
		case 0:
			select {
			case <-time.After(time.Duration(below(100)) * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
		case 1:
			return rehop.Unavailable(errNotYet)
		case 2:
			return rehop.Postpone(100*time.Millisecond, errNotYet)
		}
		mu.Lock()
		defer mu.Unlock()
		handled[d.ID]++
		return nil
	}
	s.Queue, s.Exchange, s.Keys, s.ProbeMin = "q", "x", []string{"k"}, 10*time.Millisecond
	s.Handler = rehop.HandlerFunc(handle)
	if s.Batch.Size > 0 {
		s.Handler = nil
		s.Batch.Handle = func(ctx context.Context, all []*rehop.Delivery) error {
			err := &rehop.BatchError{Errors: make([]error, len(all))}
			for i, d := range all {
				err.Errors[i] = handle(ctx, d)
			}
			return err
		}
	}
	client := openUnbroken(t, b)
	defer client.Close(context.Background())
	sub := subscribe(t, client, s)
	for i := range messages {
		publish(t, client, rehop.Message{ID: fmt.Sprint(i), Exchange: "x", Key: "k"})
		if i%2 == 0 {
			continue
		}
		if below(4) == 0 {
			time.Sleep(time.Duration(below(60)) * time.Millisecond)
		}
		for range below(200) {
			runtime.Gosched()
		}
		end := sub.Stop
		if below(2) == 0 {
			end = func() error { return sub.Drain(t.Context()) }
		}
		if err := end(); err != nil {
			t.Errorf("end of subscription %d: got %v, want nil", i, err)
		}
		sub = subscribe(t, client, s)
	}
	b.AwaitEmpty("q")
	mu.Lock()
	defer mu.Unlock()
	for i := range messages {
		if n := handled[fmt.Sprint(i)]; n != 1 {
			t.Errorf("message %d: handled %d times, want once", i, n)
		}
	}
}

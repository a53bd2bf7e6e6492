package rehop_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// A handler that is canceled at a stop has time to clean up before its message goes to another consumer.
func TestStopWaitsForCleanup(t *testing.T) {
	for name, test := range map[string]struct {
		grace, cleanup time.Duration
		waits          bool
	}{
		"by default":     {0, 4 * time.Second, true},
		"as long as set": {20 * time.Minute, 19 * time.Minute, true},
		"but no longer":  {time.Minute, 2 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				var at atomic.Int64
				log := newLogbook(nil)
				log.answer = func(ctx context.Context, _ *rehop.Delivery) error {
					<-ctx.Done()
					time.Sleep(test.cleanup)
					at.Store(int64(log.now()))
					return ctx.Err()
				}
				sub := subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log, StopGrace: test.grace, Timeout: 2 * time.Hour})
				publish(t, b.Client, rehop.Message{Key: "q"})
				synctest.Wait()
				again := newLogbook(succeed)
				subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: again})
				err := sub.Stop()
				if (err == nil) != test.waits {
					t.Errorf("stop: got %v, want nil: %v", err, test.waits)
				}
				b.AwaitEmpty("q")
				time.Sleep(time.Hour) // the handler has ended
				runs := again.all()
				if len(runs) != 1 || runs[0].Attempt != 1 {
					t.Fatalf("runs elsewhere: got %+v, want one, attempt 1", runs)
				}
				cleaned := time.Duration(at.Load())
				if after := runs[0].at >= cleaned; after != test.waits {
					t.Errorf("handled elsewhere at %v, when the handler had cleaned up at %v: got %v, want %v", runs[0].at, cleaned, after, test.waits)
				}
			})
		})
	}
}

// A stop waits for handlers, not for messages that cannot be moved.
func TestStopDoesNotWaitWithoutHandlers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(fail)
		sub := subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log, StopGrace: time.Hour})
		publish(t, b.Client, rehop.Message{Key: "q"})
		b.Block() // what has failed cannot be published
		synctest.Wait()
		began := time.Now()
		if err := sub.Stop(); err != nil {
			t.Errorf("stop: got %v, want nil", err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("stop took %v, want a few seconds", took)
		}
		b.Unblock()
	})
}

// insider calls what must not be called from hooks.
type insider struct{ call func(from string) }

func (i *insider) hooks() rehop.Hooks {
	return rehop.Hooks{OnState: i.OnState, OnHandleStart: i.OnHandleStart, OnHandleEnd: i.OnHandleEnd, OnResult: i.OnResult,
		OnConsumer: i.OnConsumer, OnMove: i.OnMove, OnPause: i.OnPause}
}

func (i *insider) OnState(rehop.StateChange) { i.call("OnState") }
func (i *insider) OnHandleStart(ctx context.Context, _ *rehop.Delivery) context.Context {
	i.call("OnHandleStart")
	return ctx
}
func (i *insider) OnHandleEnd(context.Context, *rehop.Delivery, time.Duration, error) {
	i.call("OnHandleEnd")
}
func (i *insider) OnResult(context.Context, *rehop.Delivery, rehop.Result) { i.call("OnResult") }
func (i *insider) OnConsumer(e rehop.ConsumerEvent) {
	if e.Ended {
		i.call("OnConsumer at the end")
	} else {
		i.call("OnConsumer")
	}
}
func (i *insider) OnPause(rehop.PauseEvent) { i.call("OnPause") }
func (i *insider) OnMove(context.Context, *rehop.Delivery, rehop.Result, map[string]any) {
	i.call("OnMove")
}

// A handler or hook that would wait for its own end gets an error, and everything continues.
func TestStopFromInside(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var mu sync.Mutex
		var client *rehop.Client
		var sub *rehop.Subscription
		called := make(map[string]int)
		call := func(from string) {
			mu.Lock()
			called[from]++
			client, sub := client, sub
			mu.Unlock()
			if client == nil || sub == nil {
				return
			}
			calls := map[string]func() error{"close": func() error { return client.Close(context.Background()) }}
			if from != "OnState" { // which belongs to no subscription, and may wait for one
				calls["drain"] = func() error { return sub.Drain(context.Background()) }
				calls["stop"] = sub.Stop
			}
			for what, try := range calls {
				if err := try(); err == nil || !strings.Contains(err.Error(), "from another goroutine") {
					t.Errorf("%s in %s: got %v, want an error that names the reason", what, from, err)
				}
			}
		}
		config := b.Config()
		config.Hooks = append(config.Hooks, (&insider{call}).hooks())
		opened, err := rehop.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		paused := false
		log := newLogbook(func(_ context.Context, d *rehop.Delivery) error {
			call("Handle")
			switch {
			case d.ID == "paused" && !paused:
				paused = true
				return rehop.Unavailable(errNotYet)
			case d.Attempt == 1:
				return errNotYet
			}
			return nil
		})
		began := subscribe(t, opened, rehop.Subscriber{Queue: "q", Handler: log, Retry: rehop.Steps(time.Second)})
		mu.Lock()
		client, sub = opened, began
		mu.Unlock()
		publish(t, opened, rehop.Message{Key: "q"})
		b.AwaitEmpty("q")
		b.Drop()
		time.Sleep(time.Minute)
		publish(t, opened, rehop.Message{Key: "q", ID: "paused"})
		b.AwaitEmpty("q")
		if runs := log.all(); len(runs) != 5 {
			t.Errorf("runs: got %d, want 5", len(runs))
		}
		if err := sub.Drain(context.Background()); err != nil {
			t.Errorf("drain from outside: got %v, want nil", err)
		}
		if err := client.Close(context.Background()); err != nil {
			t.Errorf("close from outside: got %v, want nil", err)
		}
		for _, from := range []string{"OnState", "OnHandleStart", "OnHandleEnd", "OnResult", "OnConsumer", "OnConsumer at the end", "OnMove", "OnPause", "Handle"} {
			if called[from] == 0 {
				t.Errorf("%s was not called", from)
			}
		}
	})
}

// A handler may end another subscription, and a hook of a connection any.
func TestStopOfAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		other := subscribe(t, b.Client, rehop.Subscriber{Queue: "other", Handler: newLogbook(succeed)})
		var err = errors.New("not called")
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(func(ctx context.Context, _ *rehop.Delivery) error {
			err = other.Drain(ctx)
			return nil
		})})
		publish(t, b.Client, rehop.Message{Key: "q"})
		b.AwaitEmpty("q")
		if err != nil {
			t.Errorf("drain another: got %v, want nil", err)
		}
	})
}

// A hook that receives a stuck handler, and takes long or calls Drain, delays no timeout of another handler.
func TestStopFromStuckHook(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var sub *rehop.Subscription
		drained := make(chan error, 10)
		config := b.Config()
		var told atomic.Bool
		config.Hooks = append(config.Hooks, rehop.Hooks{OnStuck: func(rehop.StuckHandler) {
			if told.CompareAndSwap(false, true) { // not again when the handler returns
				drained <- sub.Drain(context.Background())
				time.Sleep(time.Hour)
			}
		}})
		client, err := rehop.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		release, took := make(chan struct{}), make(chan time.Duration, 10)
		sub = subscribe(t, client, rehop.Subscriber{Queue: "q", Concurrency: 2, Timeout: 10 * time.Second, StuckAfter: 20 * time.Second, Retry: rehop.NoRetry(),
			Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
				if d.ID == "stuck" {
					<-release
					return nil
				}
				began := time.Now()
				<-ctx.Done()
				took <- time.Since(began)
				return ctx.Err()
			})})
		publish(t, client, rehop.Message{ID: "stuck", Key: "q"})
		time.Sleep(25 * time.Second)
		publish(t, client, rehop.Message{ID: "slow", Key: "q"}) // its time is up while the hook runs
		if got := <-took; got != 10*time.Second {
			t.Errorf("the other handler was canceled after %v, want 10s", got)
		}
		if err := <-drained; err == nil {
			t.Error("drain by the hook: got nil, want an error")
		}
		close(release)
		if err := client.Close(context.Background()); err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
	})
}

// However often a subscription stops, also while it replaces its first consumer, which gets one message, by another: what it gives back is not
// suspected of killing processes.
func TestManyStopsAreNotCrashes(t *testing.T) {
	for _, kind := range []layout.QueueType{layout.Classic, layout.Quorum} {
		t.Run(string(kind), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				begun := make(chan *rehop.Delivery)
				s := rehop.Subscriber{Queue: "q", QueueType: kind, CrashLimit: 3, Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
					begun <- d
					<-ctx.Done()
					return ctx.Err()
				})}
				for i := range 100 {
					sub := subscribe(t, b.Client, s)
					if i == 0 {
						publish(t, b.Client, rehop.Message{Key: "q"})
					}
					select {
					case <-begun:
					case <-time.After(time.Hour):
						t.Fatalf("start %d: the message is not handled; failed: %v", i, b.Messages("q.failed"))
					}
					if err := sub.Stop(); err != nil {
						t.Fatal(err)
					}
					if ready, unacked := b.Depth("q"); ready != 1 || unacked != 0 {
						t.Fatalf("stop %d: got %d messages in the queue and %d unacked, want one", i, ready, unacked)
					}
				}
			})
		})
	}
}

package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// TestOrderLongWait: a message that waits for hours is handled on time and with its attempt, through many sessions,
// and those that follow it are handled after it.
func TestOrderLongWait(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newLogbook(func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "a/1" && d.Attempt < 3 {
				return errNotYet
			}
			return nil
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: book, OrderBy: byKey, Retry: rehop.Steps(time.Hour, 10*time.Hour)})
		publishKeys(t, b, "orders", "a/1", "a/2", "a/3")
		time.Sleep(12 * time.Hour)
		synctest.Wait()
		var got []string
		for _, r := range book.all() {
			got = append(got, fmt.Sprint(r.ID, " ", r.Attempt))
		}
		if want := []string{"a/1 1", "a/1 2", "a/1 3", "a/2 1", "a/3 1"}; !slices.Equal(got, want) {
			t.Fatalf("runs %v, want %v", got, want)
		}
		at := book.times()
		within(t, "second attempt", at[1]-at[0], time.Hour, time.Hour+5*time.Second)
		within(t, "third attempt", at[2]-at[1], 10*time.Hour, 10*time.Hour+5*time.Second)
	})
}

// TestOrderPause: while the handler returns Unavailable, one message finds out when that is over, and the order is
// kept.
func TestOrderPause(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var up atomic.Bool
		log := &orderLog{answer: func(context.Context, *rehop.Delivery) error {
			if !up.Load() {
				return rehop.Unavailable(errNotYet)
			}
			return nil
		}}
		var pauses atomic.Int32
		config := b.Config()
		config.Hooks = []rehop.Hooks{{OnPause: func(e rehop.PauseEvent) {
			if e.Paused {
				pauses.Add(1)
			}
		}}}
		c, err := rehop.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(context.Background()) }()
		subscribe(t, c, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Concurrency: 3})
		publishKeys(t, b, "orders", "a/1", "a/2", "b/1", "c/1", "d/1")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		log.mu.Lock()
		runs := len(log.begun)
		log.mu.Unlock()
		if runs > 3+12+5 {
			t.Errorf("%d runs in 5 minutes of a pause, want about one in 30 s", runs)
		}
		up.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, want := log.of("a"), []string{"a/1", "a/2"}; !slices.Equal(got, want) {
			t.Errorf("of a have ended %v, want %v", got, want)
		}
		if n := len(log.of("b")) + len(log.of("c")) + len(log.of("d")); n != 3 {
			t.Errorf("%d of the others have ended, want 3", n)
		}
		if n := pauses.Load(); n != 1 {
			t.Errorf("%d pauses were reported, want 1", n)
		}
	})
}

// TestOrderFull: when the held queue is full, nothing is lost or overtaken.
func TestOrderFull(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
			if strings.HasSuffix(d.ID, "/1") && d.Attempt < 3 {
				return errNotYet
			}
			return nil
		}}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Concurrency: 4, Prefetch: 16, MaxHeld: 3,
			Retry: rehop.Steps(time.Minute, time.Minute)})
		for n := range 5 {
			for k := range 10 {
				publishKeys(t, b, "orders", fmt.Sprintf("k%d/%d", k, n+1))
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for k := range 10 {
			key := fmt.Sprint("k", k)
			if got := log.of(key); len(got) != 5 || !slices.IsSorted(got) {
				t.Errorf("of %s have ended %v, want 1 to 5", key, got)
			}
		}
	})
}

// TestOrderWithoutKey: messages without a key, or without an id, are handled, retried and failed like others.
func TestOrderWithoutKey(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
			if string(d.Body) == "bad" {
				return errNotYet
			}
			return nil
		}}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, Concurrency: 2, Retry: rehop.Steps(time.Minute),
			OrderBy: func(d *rehop.Delivery) string { return "" }})
		for _, body := range []string{"bad", "good", "bad", "good"} {
			publish(t, b.Client, rehop.Message{Key: "orders", Body: []byte(body)})
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		log.mu.Lock()
		ended := len(log.ended)
		log.mu.Unlock()
		if ended != 2 {
			t.Errorf("%d have ended while others wait, want 2", ended)
		}
		time.Sleep(2 * time.Minute)
		if failed := b.AwaitFailed("orders", 2); len(failed) != 2 {
			t.Errorf("failed are %v, want two", failed)
		}
	})
}

// TestOrderAnswers: Permanent, Discard and Postpone have their effect, and hooks see it.
func TestOrderAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		answers := map[string]error{"a/1": rehop.Discard(errNotYet), "a/2": rehop.Permanent(errNotYet), "a/3": rehop.Postpone(time.Hour, errNotYet)}
		log := &orderLog{}
		log.answer = func(_ context.Context, d *rehop.Delivery) error {
			log.mu.Lock()
			defer log.mu.Unlock()
			err := answers[d.ID]
			delete(answers, d.ID)
			return err
		}
		results := make(chan string, 100)
		config := b.Config()
		config.Hooks = []rehop.Hooks{{OnResult: func(_ context.Context, d *rehop.Delivery, r rehop.Result) {
			results <- fmt.Sprint(d.ID, " ", r.Outcome)
		}}}
		c, err := rehop.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(context.Background()) }()
		subscribe(t, c, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Retry: rehop.Steps(time.Second)})
		publishKeys(t, b, "orders", "a/1", "a/2", "a/3", "a/4")
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		close(results)
		var got []string
		for r := range results {
			got = append(got, r)
		}
		if want := []string{"a/1 discarded", "a/2 failed", "a/3 postponed", "a/3 done", "a/4 done"}; !slices.Equal(got, want) {
			t.Errorf("results %v, want %v", got, want)
		}
	})
}

// TestOrderStuck: a handler that ignores its context is replaced, and its message is retried.
func TestOrderStuck(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		release := make(chan struct{})
		defer close(release)
		log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "a/1" && d.Attempt == 1 {
				<-release
			}
			return nil
		}}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Timeout: time.Minute, Retry: rehop.Steps(time.Minute)})
		publishKeys(t, b, "orders", "a/1", "a/2")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got, want := log.of("a"), []string{"a/1", "a/2"}; !slices.Equal(got, want) {
			t.Errorf("have ended %v, want %v", got, want)
		}
	})
}

// TestOrderStop: a stop cancels handlers, and the next subscription begins with their messages, in order.
func TestOrderStop(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var stopped atomic.Bool
		log := &orderLog{answer: func(ctx context.Context, _ *rehop.Delivery) error {
			if stopped.Load() {
				return nil
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		settings := rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Concurrency: 2}
		sub := subscribe(t, b.Client, settings)
		publishKeys(t, b, "orders", "a/1", "a/2", "b/1", "b/2", "c/1")
		synctest.Wait()
		if err := sub.Stop(); err != nil {
			t.Error(err)
		}
		stopped.Store(true)
		subscribe(t, b.Client, settings)
		time.Sleep(time.Minute)
		synctest.Wait()
		for key, want := range map[string][]string{"a": {"a/1", "a/2"}, "b": {"b/1", "b/2"}, "c": {"c/1"}} {
			if got := log.of(key); !slices.Equal(got, want) {
				t.Errorf("of %s have ended %v, want %v", key, got, want)
			}
		}
	})
}

// TestOrderRate: a rate holds for all keys together.
func TestOrderRate(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newLogbook(func(context.Context, *rehop.Delivery) error { return nil })
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: book, OrderBy: byKey, Concurrency: 4, Rate: 1})
		for i := range 10 {
			publishKeys(t, b, "orders", fmt.Sprintf("k%d/1", i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		at := book.times()
		if len(at) != 10 {
			t.Fatalf("%d runs, want 10", len(at))
		}
		within(t, "ten runs", at[9]-at[0], 9*time.Second, 10*time.Second)
	})
}

// TestOrderFaults: what cannot be combined with OrderBy is refused with a reason.
func TestOrderFaults(t *testing.T) {
	b := rehoptest.Open(t)
	handler := rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })
	for name, change := range map[string]func(*rehop.Subscriber){
		"Layout":           func(s *rehop.Subscriber) { s.Layout = layout.Sneakers{} },
		"layout.Classic":   func(s *rehop.Subscriber) { s.QueueType = layout.Classic },
		"ExistingQueue":    func(s *rehop.Subscriber) { s.ExistingQueue = true },
		"Exclusive":        func(s *rehop.Subscriber) { s.Exclusive = true },
		"AutoDelete":       func(s *rehop.Subscriber) { s.AutoDelete = true },
		"MessageTTL":       func(s *rehop.Subscriber) { s.MessageTTL = time.Hour },
		"drop-head":        func(s *rehop.Subscriber) { s.Overflow = "drop-head" },
		"MaxPriority":      func(s *rehop.Subscriber) { s.MaxPriority = 5 },
		"ConsumerPriority": func(s *rehop.Subscriber) { s.ConsumerPriority = 5 },
		"PolicyPriority":   func(s *rehop.Subscriber) { s.PolicyPriority = 5 },
		"x-delivery-limit": func(s *rehop.Subscriber) { s.QueueArgs = map[string]any{"x-delivery-limit": 5} },
		"MaxHeld":          func(s *rehop.Subscriber) { s.MaxHeld = -1 },
		"OrderBy is not":   func(s *rehop.Subscriber) { s.MaxHeld, s.OrderBy = 5, nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := rehop.Subscriber{Queue: "orders", Handler: handler, OrderBy: byKey}
			change(&s)
			if _, err := b.Client.Subscribe(t.Context(), s); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v, want an error with %q", err, name)
			}
		})
	}
}

// TestOrderLargeMessage: a message that is too large to wait, with its history, goes to the failed queue, and those
// that follow are handled.
func TestOrderLargeMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "a/1" {
				return errors.New(strings.Repeat("long ", 1000))
			}
			return nil
		}}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Retry: rehop.Steps(time.Minute)})
		headers := map[string]any{"large": strings.Repeat("x", 128_000)}
		publish(t, b.Client, rehop.Message{Key: "orders", ID: "a/1", Headers: headers})
		publishKeys(t, b, "orders", "a/2")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := log.of("a"); !slices.Contains(got, "a/2") {
			t.Errorf("have ended %v, want a/2 among them", got)
		}
		if failed := b.AwaitFailed("orders", 1); failed[0].ID != "a/1" {
			t.Errorf("failed are %v, want a/1", failed)
		}
	})
}

// TestOrderByPanics: a message whose key cannot be found goes to the failed queue, and others are handled.
func TestOrderByPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: func(context.Context, *rehop.Delivery) error { return nil }}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: func(d *rehop.Delivery) string { return d.Headers["order"].(string) }})
		publishKeys(t, b, "orders", "a/1")
		publish(t, b.Client, rehop.Message{Key: "orders", ID: "a/2", Headers: map[string]any{"order": "7"}})
		failed := b.AwaitFailed("orders", 1)
		if failed[0].ID != "a/1" || rehop.Kind(failed[0].Kind) != rehop.KindPanic || !strings.Contains(failed[0].Error, "OrderBy") {
			t.Errorf("failed is %+v, want a/1 with a panic of OrderBy", failed[0])
		}
		synctest.Wait()
		if got := log.of("a"); !slices.Equal(got, []string{"a/2"}) {
			t.Errorf("have ended %v, want a/2", got)
		}
	})
}

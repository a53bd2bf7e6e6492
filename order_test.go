package rehop_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// byKey orders by the part of the message's id before the slash, as in "a/1".
func byKey(d *rehop.Delivery) string {
	key, _, _ := strings.Cut(d.ID, "/")
	return key
}

// orderLog is a handler that writes down what begins and ends.
type orderLog struct {
	answer func(ctx context.Context, d *rehop.Delivery) error
	mu     sync.Mutex
	ended  []string // ids of messages that were handled, or failed for good
	begun  []string
}

func (l *orderLog) Handle(ctx context.Context, d *rehop.Delivery) error {
	l.mu.Lock()
	l.begun = append(l.begun, d.ID)
	answer := l.answer
	l.mu.Unlock()
	err := answer(ctx, d)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil || d.Attempt == d.MaxAttempts {
		l.ended = append(l.ended, d.ID)
	}
	return err
}

// set changes the answer.
func (l *orderLog) set(answer func(ctx context.Context, d *rehop.Delivery) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = answer
}

// of returns what has ended with a key.
func (l *orderLog) of(key string) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range l.ended {
		if strings.HasPrefix(id, key+"/") {
			ids = append(ids, id)
		}
	}
	return ids
}

func publishKeys(t *testing.T, b *rehoptest.Broker, queue string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		publish(t, b.Client, rehop.Message{Key: queue, ID: id})
	}
}

// TestOrderWithRetries: a message that fails holds up its own key, and no other.
func TestOrderWithRetries(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "a/1" && d.Attempt < 3 {
				return errNotYet
			}
			return nil
		}}
		sub := subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Concurrency: 4,
			Retry: rehop.Steps(10*time.Second, 10*time.Second)})
		publishKeys(t, b, "orders", "a/1", "b/1", "a/2", "b/2", "a/3", "c/1")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := log.of("a"); len(got) > 0 {
			t.Errorf("of a have ended %v while its first one waits, want none", got)
		}
		if got := log.of("b"); !slices.Equal(got, []string{"b/1", "b/2"}) {
			t.Errorf("of b have ended %v, want both", got)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if got, want := log.of("a"), []string{"a/1", "a/2", "a/3"}; !slices.Equal(got, want) {
			t.Errorf("of a have ended %v, want %v", got, want)
		}
		if err := sub.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(log.begun); n != 8 {
			t.Errorf("%d runs, want 8: %v", n, log.begun)
		}
	})
}

// TestOrderTakeover: another process takes over what waits when one stops.
func TestOrderTakeover(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var fixed atomic.Bool
		log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
			if !fixed.Load() && d.ID == "a/1" {
				return errNotYet
			}
			return nil
		}}
		settings := rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Concurrency: 4, Retry: rehop.Steps(time.Minute, time.Minute, time.Minute)}
		first := subscribe(t, b.Client, settings)
		second := subscribe(t, b.Client, settings)
		for i := range 20 {
			publishKeys(t, b, "orders", fmt.Sprint("a/", i+1), fmt.Sprint("b/", i+1))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if err := first.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		fixed.Store(true)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for _, key := range []string{"a", "b"} {
			var want []string
			for i := range 20 {
				want = append(want, fmt.Sprint(key, "/", i+1))
			}
			if got := log.of(key); !slices.Equal(got, want) {
				t.Errorf("of %s have ended %v, want %v", key, got, want)
			}
		}
		if err := second.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestOrderSkip: after a message has failed for good, those of its key are handled.
func TestOrderSkip(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "a/1" {
				return errNotYet
			}
			return nil
		}}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Retry: rehop.Steps(time.Second)})
		publishKeys(t, b, "orders", "a/1", "a/2")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got, want := log.of("a"), []string{"a/1", "a/2"}; !slices.Equal(got, want) {
			t.Errorf("have ended %v, want %v", got, want)
		}
		if failed := b.AwaitFailed("orders", 1); len(failed) != 1 || failed[0].ID != "a/1" {
			t.Errorf("failed are %v, want a/1", failed)
		}
	})
}

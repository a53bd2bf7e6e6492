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

// results counts what hooks see of each run.
type results struct {
	mu      sync.Mutex
	runs    map[string]int
	results map[string][]rehop.Outcome
	moves   map[string]int
}

func (r *results) hooks() rehop.Hooks {
	r.runs, r.results, r.moves = map[string]int{}, map[string][]rehop.Outcome{}, map[string]int{}
	return rehop.Hooks{
		OnHandleStart: func(ctx context.Context, d *rehop.Delivery) context.Context {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.runs[d.ID]++
			return ctx
		},
		OnResult: func(_ context.Context, d *rehop.Delivery, res rehop.Result) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.results[d.ID] = append(r.results[d.ID], res.Outcome)
		},
		OnMove: func(_ context.Context, d *rehop.Delivery, _ rehop.Result, _ map[string]any) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.moves[d.ID]++
		},
	}
}

func (r *results) client(t *testing.T, b *rehoptest.Broker) *rehop.Client {
	config := b.Config()
	config.Hooks = []rehop.Hooks{r.hooks()}
	c, err := rehop.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// TestOrderedNoResult is about a defect that there was: OnResult is not called for a message that was handled
// and is the newest when the connection is lost.
func TestOrderedNoResult(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var r results
		c := r.client(t, b)
		log := &orderLog{answer: succeed}
		subscribe(t, c, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey})
		time.Sleep(5 * time.Second)
		publishKeys(t, b, "orders", "a/1")
		time.Sleep(100 * time.Millisecond)
		b.Drop()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.runs["a/1"] != len(r.results["a/1"]) {
			t.Errorf("%d runs, results %v", r.runs["a/1"], r.results["a/1"])
		}
	})
}

// TestOrderedManyResults is about a defect that there was: OnResult is called many times for a message when the
// subscription stops.
func TestOrderedManyResults(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var r results
		c := r.client(t, b)
		log := &orderLog{answer: succeed}
		sub := subscribe(t, c, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Concurrency: 8, Rate: 0.01})
		for i := range 20 {
			publishKeys(t, b, "orders", fmt.Sprintf("k%d/1", i))
		}
		synctest.Wait()
		if err := sub.Stop(); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for id, all := range r.results {
			if len(all) > 1 {
				t.Errorf("%s: %d results: %v", id, len(all), all[:min(len(all), 5)])
			}
		}
	})
}

// TestOrderedRedelivered is about a defect that there was: what waits for longer than a session has
// Redelivered, although no consumer has crashed.
func TestOrderedRedelivered(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			var ups atomic.Int32
			config := b.Config()
			config.Hooks = []rehop.Hooks{{OnConsumer: func(e rehop.ConsumerEvent) {
				if e.Err == nil {
					ups.Add(1)
				}
			}}}
			c, err := rehop.Open(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close(context.Background()) }()
			book := newLogbook(func(_ context.Context, d *rehop.Delivery) error {
				if d.Attempt == 1 {
					return errNotYet
				}
				return nil
			})
			s := rehop.Subscriber{Queue: "orders", Handler: book, Retry: rehop.Steps(time.Hour)}
			if ordered {
				s.OrderBy = byKey
			}
			subscribe(t, c, s)
			publishKeys(t, b, "orders", "a/1")
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			if runs := book.all(); len(runs) != 2 || runs[1].Redelivered {
				t.Errorf("ordered %v: the second attempt has Redelivered", ordered)
			}
			if n := ups.Load(); n > 2 {
				t.Errorf("ordered %v: OnConsumer has reported %d starts in 2 h, and no end", ordered, n)
			}
		})
	}
}

// TestOrderedDrainFromHooks: Drain is refused in every hook, on whatever goroutine it runs.
func TestOrderedDrainFromHooks(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var sub atomic.Pointer[rehop.Subscription]
		var wrong atomic.Int32
		call := func() {
			if s := sub.Load(); s != nil {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
				defer cancel()
				if err := s.Drain(ctx); err == nil || !strings.Contains(err.Error(), "nothing was done") {
					wrong.Add(1)
				}
			}
		}
		config := b.Config()
		config.Hooks = []rehop.Hooks{{
			OnResult: func(context.Context, *rehop.Delivery, rehop.Result) { call() },
			OnMove:   func(context.Context, *rehop.Delivery, rehop.Result, map[string]any) { call() },
			OnPause:  func(rehop.PauseEvent) { call() },
			OnHeld:   func(rehop.HeldEvent) { call() },
		}}
		c, err := rehop.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(context.Background()) }()
		var runs atomic.Int32
		s := subscribe(t, c, rehop.Subscriber{Queue: "orders", Concurrency: 8, OrderBy: byKey, Retry: rehop.Steps(10 * time.Millisecond), Handler: rehop.HandlerFunc(
			func(context.Context, *rehop.Delivery) error {
				time.Sleep(time.Millisecond)
				switch runs.Add(1) % 3 {
				case 0:
					return errNotYet
				case 1:
					if runs.Load()%50 == 1 {
						return rehop.Unavailable(errNotYet)
					}
				}
				return nil
			})})
		sub.Store(s)
		for round := range 12 {
			for i := range 60 {
				publishKeys(t, b, "orders", fmt.Sprintf("k%d/%d", i, round))
			}
			if round%4 == 3 {
				continue
			}
			b.Drop()
		}
		time.Sleep(3 * time.Second)
		if n := wrong.Load(); n > 0 {
			t.Errorf("%d calls of Drain by hooks were not refused", n)
		}
		sub.Store(nil)
	})
}

// TestOrderFullCounts: messages that fail while the held queue is full are counted through all sessions, and OnMove is
// called once for each move.
func TestOrderFullCounts(t *testing.T) {
	for _, after := range []rehop.AfterFail{rehop.Skip, rehop.Halt} {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			var r results
			c := r.client(t, b)
			book := newLogbook(fail)
			subscribe(t, c, rehop.Subscriber{Queue: "orders", Handler: book, OrderBy: byKey, AfterFail: after, Prefetch: 4, Concurrency: 4, MaxHeld: 1,
				Retry: rehop.Steps(25*time.Minute, 25*time.Minute)})
			publishKeys(t, b, "orders", "a/1", "b/1", "c/1", "d/1")
			time.Sleep(time.Hour)
			b.AwaitFailed("orders", 4)
			attempts := map[string][]int{}
			for _, run := range book.all() {
				attempts[run.ID] = append(attempts[run.ID], run.Attempt)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, id := range []string{"a/1", "b/1", "c/1", "d/1"} {
				if got := attempts[id]; !slices.Equal(got, []int{1, 2, 3}) {
					t.Errorf("%s: attempts %v, want 1 2 3", id, got)
				}
				if r.moves[id] != 3 {
					t.Errorf("%s: OnMove was called %d times, want 3", id, r.moves[id])
				}
			}
		})
	}
}

// TestOrderMoveOfLostSession: OnMove is not called for a message that is not moved because its session was lost.
func TestOrderMoveOfLostSession(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var r results
		c := r.client(t, b)
		runs := 0
		book := newLogbook(func(ctx context.Context, _ *rehop.Delivery) error {
			if runs++; runs == 1 {
				<-ctx.Done()
				return errNotYet
			}
			return nil
		})
		subscribe(t, c, rehop.Subscriber{Queue: "orders", Handler: book, OrderBy: byKey, Retry: rehop.Steps(time.Minute)})
		publishKeys(t, b, "orders", "a/1")
		time.Sleep(time.Second)
		b.Drop()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if n := len(book.all()); n != 2 || r.moves["a/1"] != 0 {
			t.Errorf("%d runs and %d calls of OnMove, want 2 and none", n, r.moves["a/1"])
		}
	})
}

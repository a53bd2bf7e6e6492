package rehop_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/rehoptest"
)

// heldLog keeps what OnHeld has reported.
type heldLog struct {
	mu  sync.Mutex
	all []rehop.HeldEvent
}

func (l *heldLog) add(e rehop.HeldEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

func (l *heldLog) last() rehop.HeldEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		return rehop.HeldEvent{}
	}
	return l.all[len(l.all)-1]
}

func openAdmin(t *testing.T, b *rehoptest.Broker) *admin.Admin {
	t.Helper()
	a, err := admin.Open(t.Context(), admin.Config{Dial: b.Config().Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// TestOrderHalt: messages wait for one that has failed for good, through many sessions, until it is replayed, or
// skipped.
func TestOrderHalt(t *testing.T) {
	for _, skips := range []bool{false, true} {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			var fixed atomic.Bool
			log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
				if d.ID == "a/1" && !fixed.Load() {
					return rehop.Permanent(errNotYet)
				}
				return nil
			}}
			var held heldLog
			config := b.Config()
			config.Hooks = []rehop.Hooks{{OnHeld: held.add}}
			c, err := rehop.Open(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			subscribe(t, c, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, AfterFail: rehop.Halt, Concurrency: 4})
			defer func() {
				if err := c.Close(context.Background()); err != nil {
					t.Error(err)
				}
				if last := held.last(); last.Owner || last.Messages > 0 {
					t.Errorf("the last report is %+v, want nothing", last)
				}
			}()
			publishKeys(t, b, "orders", "a/1", "b/1", "a/2", "a/3", "b/2")
			time.Sleep(2 * time.Hour)
			publishKeys(t, b, "orders", "a/4", "b/3")
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := log.of("a"); len(got) > 0 {
				t.Errorf("of a have ended %v, want none while its first one is in the failed queue", got)
			}
			if got, want := log.of("b"), []string{"b/1", "b/2", "b/3"}; !slices.Equal(got, want) {
				t.Errorf("of b have ended %v, want %v", got, want)
			}
			operator := openAdmin(t, b)
			if last := held.last(); !last.Owner || last.Messages != 4 || last.Blocked != 1 {
				t.Errorf("the last report is %+v, want 4 messages, and a key that is blocked", last)
			}
			waiting, total, err := operator.Held(t.Context(), "orders")
			if err != nil || total != 4 || waiting[0].ID != "a/1" || !waiting[0].Blocks || waiting[3].ID != "a/4" || waiting[3].Key != "a" || waiting[3].Blocks {
				t.Errorf("held are %v, %d in all, %v; want a/1, which blocks the other three", waiting, total, err)
			}
			want := []string{"a/1", "a/2", "a/3", "a/4"}
			if skips {
				if err := operator.Skip(t.Context(), "orders", "a/1"); err != nil {
					t.Error(err)
				}
				want = want[1:]
			} else {
				fixed.Store(true)
				if _, err := operator.Replay(t.Context(), "orders", admin.Options{}); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := log.of("a"); !slices.Equal(got, want) {
				t.Errorf("of a have ended %v, want %v", got, want)
			}
		})
	}
}

// TestOrderHaltAgain: a replay that fails again blocks its key again.
func TestOrderHaltAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var fixed atomic.Bool
		log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "a/1" && !fixed.Load() {
				return errNotYet
			}
			return nil
		}}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, AfterFail: rehop.Halt, Retry: rehop.Steps(time.Minute)})
		publishKeys(t, b, "orders", "a/1", "a/2")
		operator := openAdmin(t, b)
		for range 3 {
			time.Sleep(10 * time.Minute)
			b.AwaitFailed("orders", 1)
			if done, err := operator.Replay(t.Context(), "orders", admin.Options{}); err != nil || done.Done != 1 {
				t.Fatalf("replayed %d, %v, want 1", done.Done, err)
			}
		}
		fixed.Store(true)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		ended := log.of("a")
		if !slices.Equal(ended[len(ended)-2:], []string{"a/1", "a/2"}) || slices.Contains(ended[:len(ended)-1], "a/2") {
			t.Errorf("have ended %v, want a/2 after the last a/1", ended)
		}
	})
}

// TestSkipUnorderedQueue: what is not handled in order cannot be skipped.
func TestSkipUnorderedQueue(t *testing.T) {
	b := rehoptest.Open(t)
	if err := openAdmin(t, b).Skip(t.Context(), "nothing", "1"); !errors.Is(err, admin.ErrNoQueue) {
		t.Errorf("got %v, want ErrNoQueue", err)
	}
	if _, _, err := openAdmin(t, b).Held(t.Context(), "nothing"); !errors.Is(err, admin.ErrNoQueue) {
		t.Errorf("got %v, want ErrNoQueue", err)
	}
}

// TestHeldWithoutProcess: nobody can answer when nobody handles the messages.
func TestHeldWithoutProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		sub := subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: &orderLog{}, OrderBy: byKey})
		if err := sub.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, _, err := openAdmin(t, b).Held(ctx, "orders"); !errors.Is(err, admin.ErrNoAnswer) {
			t.Errorf("got %v, want ErrNoAnswer", err)
		}
	})
}

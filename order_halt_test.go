package rehop_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
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
			if last := held.last(); !last.Owner || last.Messages != 4 || last.Keys != 1 || last.Blocked != 1 {
				t.Errorf("the last report is %+v, want 4 messages of one key, which is blocked", last)
			}
			waiting, total, err := operator.Held(t.Context(), "orders")
			if err != nil || total != 4 || waiting[0].ID != "a/1" || !waiting[0].Blocks || waiting[3].ID != "a/4" || waiting[3].Key != "a" || waiting[3].Blocks {
				t.Errorf("held are %v, %d in all, %v; want a/1, which blocks the other three", waiting, total, err)
			}
			if m, err := operator.HeldMessage(t.Context(), "orders", "a/4"); err != nil || m.ID != "a/4" || m.Queue != "orders" || m.Attempts != 0 {
				t.Errorf("a/4 is %+v, %v", m, err)
			}
			if _, err := operator.HeldMessage(t.Context(), "orders", "a/1"); !errors.Is(err, admin.ErrNotHeld) || !strings.Contains(err.Error(), "it blocks its key") {
				t.Errorf("a/1, which blocks its key: got %v, want ErrNotHeld", err)
			}
			if _, err := operator.HeldMessage(t.Context(), "orders", "b/1"); !errors.Is(err, admin.ErrNotHeld) {
				t.Errorf("b/1, which does not wait: got %v, want ErrNotHeld", err)
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

// TestHeldMessage: a message that waits for its next attempt is shown with all that its publisher has sent, and its failure.
func TestHeldMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: func(context.Context, *rehop.Delivery) error { return errNotYet }}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Retry: rehop.Steps(time.Hour)})
		began := time.Now()
		sent := rehop.Message{ID: "a/1", Key: "orders", Body: []byte{0, 255}, Headers: map[string]any{"tenant": "acme"}, ContentType: "text/odd",
			CorrelationID: "c", ReplyTo: "r", Type: "a"}
		if err := b.Client.Publish(t.Context(), sent); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		m, err := openAdmin(t, b).HeldMessage(t.Context(), "orders", "a/1")
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(m.Headers, sent.Headers) || !bytes.Equal(m.Body, sent.Body) || m.Key != sent.Key || m.ContentType != sent.ContentType ||
			m.CorrelationID != sent.CorrelationID || m.ReplyTo != sent.ReplyTo || m.Type != sent.Type {
			t.Errorf("got %+v, want what was sent: %+v", m, sent)
		}
		if m.Queue != "orders" || m.Attempts != 1 || m.Error != errNotYet.Error() || m.Kind != rehop.KindError || m.Due.Before(began.Add(30*time.Minute)) {
			t.Errorf("got %+v, want its failure, and its next attempt in about an hour", m)
		}
	})
}

// TestHeldKeys: the keys are counted of which messages wait. A message without a key has none.
func TestHeldKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "c/1" {
				return nil
			}
			return errNotYet
		}}
		var held heldLog
		config := b.Config()
		config.Hooks = []rehop.Hooks{{OnHeld: held.add}}
		c, err := rehop.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(context.Background()) }()
		subscribe(t, c, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Retry: rehop.Steps(time.Hour)})
		publishKeys(t, b, "orders", "a/1", "a/2", "b/1", "c/1", "/1", "/2")
		time.Sleep(time.Minute)
		synctest.Wait()
		if last := held.last(); last.Messages != 5 || last.Keys != 2 || last.Blocked != 0 {
			t.Errorf("the last report is %+v, want 5 messages of 2 keys", last)
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
	if _, err := openAdmin(t, b).HeldMessage(t.Context(), "nothing", "1"); !errors.Is(err, admin.ErrNoQueue) {
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
		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := openAdmin(t, b).HeldMessage(ctx, "orders", "1"); !errors.Is(err, admin.ErrNoAnswer) {
			t.Errorf("got %v, want ErrNoAnswer", err)
		}
	})
}

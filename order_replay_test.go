package rehop_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/rehoptest"
)

// failsUntil is a handler that fails a/1 for good until that is fixed, and a/2 the first time.
func failsUntil(fixed *atomic.Bool) *orderLog {
	return &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
		if !fixed.Load() && d.ID == "a/1" {
			return rehop.Permanent(errNotYet)
		}
		if d.ID == "a/2" && d.Attempt == 1 {
			return errNotYet
		}
		return nil
	}}
}

// TestOrderedSkipThenReplay is about a defect that there was: a message that was skipped keeps its number in
// the failed queue, and numbers begin at 1 again when the held queue was empty at a takeover. When it is
// replayed, it takes the place of another message with this number, which is lost.
func TestOrderedSkipThenReplay(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var fixed atomic.Bool
		log := failsUntil(&fixed)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, AfterFail: rehop.Halt, Retry: rehop.Steps(time.Hour)})
		publishKeys(t, b, "orders", "a/1")
		time.Sleep(time.Second)
		operator := openAdmin(t, b)
		if err := operator.Skip(t.Context(), "orders", "a/1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute) // some sessions later
		publishKeys(t, b, "orders", "a/2")
		time.Sleep(time.Minute)
		fixed.Store(true)
		if done, err := operator.Replay(t.Context(), "orders", admin.Options{}); err != nil || done.Done != 1 {
			t.Fatal(done, err)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if got := log.of("a"); !slices.Contains(got, "a/2") || !slices.Contains(got, "a/1") {
			t.Errorf("have ended %v, want a/1 and a/2; begun %v\n%v", got, log.begun, b)
		}
	})
}

// TestOrderedSkipThenReplayLiftsBlock is about a defect that there was: in the same way, a block of another
// message is lifted.
func TestOrderedSkipThenReplayLiftsBlock(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "a/1" && d.Replays == 0 || d.ID == "a/2" {
				return rehop.Permanent(errNotYet)
			}
			return nil
		}}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, AfterFail: rehop.Halt, Retry: rehop.Steps(time.Hour)})
		publishKeys(t, b, "orders", "a/1")
		time.Sleep(time.Second)
		operator := openAdmin(t, b)
		if err := operator.Skip(t.Context(), "orders", "a/1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		publishKeys(t, b, "orders", "a/2", "a/3")
		time.Sleep(time.Minute)
		if done, err := operator.Replay(t.Context(), "orders", admin.Options{Filter: admin.Filter{IDs: []string{"a/1"}}}); err != nil || done.Done != 1 {
			t.Fatal(done, err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := log.of("a"); slices.Contains(got, "a/3") {
			t.Errorf("have ended %v, want no a/3: a/2 is in the failed queue and was neither replayed nor skipped", got)
		}
	})
}

// TestOrderedHaltWithoutKey is about a defect that there was: with Halt a message without a key that fails
// leaves a block, which blocks nothing but counts.
func TestOrderedHaltWithoutKey(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newLogbook(func(_ context.Context, d *rehop.Delivery) error { return rehop.Permanent(errNotYet) })
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: book, OrderBy: func(*rehop.Delivery) string { return "" }, AfterFail: rehop.Halt, MaxHeld: 10})
		for i := range 30 {
			publishKeys(t, b, "orders", fmt.Sprint("a/", i))
		}
		time.Sleep(time.Hour)
		operator := openAdmin(t, b)
		if _, err := operator.Discard(t.Context(), "orders", admin.Options{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, total, err := operator.Held(t.Context(), "orders"); err != nil || total != 0 {
			t.Errorf("%d wait (%v), want none: the messages have no key, and were discarded from the failed queue", total, err)
		}
	})
}

// TestOrderedSkipRunning is about a defect that there was: a message that an operator skips while it runs is
// retried.
func TestOrderedSkipRunning(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newLogbook(func(_ context.Context, d *rehop.Delivery) error {
			time.Sleep(10 * time.Second)
			return errNotYet
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: book, OrderBy: byKey, Retry: rehop.Steps(time.Minute, time.Minute, time.Minute, time.Minute)})
		publishKeys(t, b, "orders", "a/1")
		time.Sleep(75 * time.Second) // its second attempt runs
		if err := openAdmin(t, b).Skip(t.Context(), "orders", "a/1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(book.all()); n != 2 {
			t.Errorf("%d runs, want 2: it was skipped during the second", n)
		}
	})
}

// TestOrderedStaleFailedCopy is about a defect that there was: a copy of a message in the failed queue is left
// over when a process dies before the block is written; the message is handled again by the next process. When
// the copy is replayed later, it takes the place of another message.
func TestOrderedStaleFailedCopy(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var fixed atomic.Bool
		log := failsUntil(&fixed)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, AfterFail: rehop.Halt, Retry: rehop.Steps(time.Hour)})
		time.Sleep(time.Second)
		b.Refuse(func(_, key string) bool { return key == "orders.held" }) // the block does not arrive
		publishKeys(t, b, "orders", "a/1")
		time.Sleep(time.Second)
		fixed.Store(true)
		b.Drop()
		b.Refuse(nil)
		time.Sleep(30 * time.Minute)
		publishKeys(t, b, "orders", "a/2")
		time.Sleep(time.Minute)
		if done, err := openAdmin(t, b).Replay(t.Context(), "orders", admin.Options{}); err != nil || done.Done != 1 {
			t.Fatal(done, err)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if got := log.of("a"); !slices.Contains(got, "a/2") {
			t.Errorf("have ended %v, want a/2; begun %v\n%v", got, log.begun, b)
		}
	})
}

package rehop_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// TestOrderedHandlerOfLostSession is about a defect that there was: a handler continues when its session was
// lost, and messages that follow begin meanwhile.
func TestOrderedHandlerOfLostSession(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var runs atomic.Int32
		var first, second atomic.Bool
		handler := rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			switch {
			case d.ID == "a/1" && runs.Add(1) == 1:
				first.Store(true)
				select {
				case <-ctx.Done():
				case <-time.After(4 * time.Minute):
				}
				first.Store(false)
			case d.ID == "a/2" && first.Load():
				second.Store(true)
			}
			return nil
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: handler, OrderBy: byKey, Concurrency: 4})
		publishKeys(t, b, "orders", "a/1", "a/2")
		time.Sleep(time.Second)
		b.Drop()
		time.Sleep(2 * time.Minute)
		if second.Load() {
			t.Error("a/2 has begun while the handler of a/1 runs in the same process, which knows that its session was lost")
		}
		time.Sleep(5 * time.Minute)
	})
}

// TestOrderedDeleted is about a defect that there was: the queues are deleted.
func TestOrderedDeleted(t *testing.T) {
	for _, queue := range []string{"orders.held", "orders", "orders.failed"} {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
				if strings.HasPrefix(d.ID, "bad") {
					return errNotYet
				}
				return nil
			}}
			subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Retry: rehop.Steps(time.Minute)})
			publishKeys(t, b, "orders", "a/1")
			time.Sleep(time.Second)
			if _, err := channel(t, b).QueueDelete(queue, false, false, false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			publishKeys(t, b, "orders", "a/2", "bad/1")
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if got := log.of("a"); !slices.Contains(got, "a/2") {
				t.Errorf("%s: handled %v, want a/2", queue, got)
			}
			b.AwaitFailed("orders", 1)
		})
	}
}

// TestOrderedProbesPileUp is about a defect that there was: while all of the prefetch waits, a probe is
// published every 5 s, and none is received.
func TestOrderedProbesPileUp(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: fail}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Concurrency: 4, Prefetch: 8, MaxHeld: 1, Retry: rehop.Steps(10 * time.Hour)})
		for i := range 20 {
			publishKeys(t, b, "orders", fmt.Sprintf("k%d/1", i))
		}
		time.Sleep(9 * time.Hour)
		synctest.Wait()
		if ready, _ := b.Depth("orders"); ready > 300 {
			t.Errorf("%d messages in the queue after 9 h, want few", ready)
		}
	})
}

// TestOrderedNewestRepeated is about a defect that there was: when the prefetch is full, the newest message is
// not acked at the end of a session, and is handled again in each.
func TestOrderedNewestRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newLogbook(func(_ context.Context, d *rehop.Delivery) error {
			if strings.HasPrefix(d.ID, "bad") {
				return errNotYet
			}
			return nil
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: book, OrderBy: byKey, Prefetch: 4, Concurrency: 4, MaxHeld: 1, Retry: rehop.Steps(10 * time.Hour)})
		publishKeys(t, b, "orders", "bad0/1", "bad1/1", "bad2/1", "bad3/1", "good/1", "good/2")
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		n := map[string]int{}
		for _, r := range book.all() {
			n[r.ID]++
		}
		if n["good/1"] > 1 {
			t.Errorf("runs in 3 h, in which no process or connection ended: %v", n)
		}
	})
}

// TestOrderedPrefetchIsConcurrency is about a defect that there was: a prefetch that is equal to the
// concurrency: the newest message, which is handled, takes the place of another.
func TestOrderedPrefetchIsConcurrency(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "a/1" {
				time.Sleep(4 * time.Minute)
			}
			return nil
		}}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Prefetch: 2, Concurrency: 2})
		publishKeys(t, b, "orders", "a/1", "b/1", "b/2", "b/3")
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if got := log.of("b"); len(got) != 3 {
			t.Errorf("handled of b: %v, want three: one of two workers is idle", got)
		}
		time.Sleep(2 * time.Minute)
	})
}

// TestOrderedInnocent is about a defect that there was: the note that a session writes before it tries a
// message counts as a crash of that message if it comes back before the message is taken. With a CrashLimit of
// 4 or less, messages go to the failed queue that have crashed nobody.
func TestOrderedInnocent(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: succeed}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, CrashLimit: 4})
		for range 3 { // three connections are lost while no handler runs
			time.Sleep(10 * time.Second)
			b.Drop()
		}
		time.Sleep(10 * time.Second)
		publishKeys(t, b, "orders", "a/1", "b/1", "c/1", "d/1", "e/1")
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(b.Messages("orders.failed")); n > 0 {
			t.Errorf("%d of 5 messages are in the failed queue, %v were handled; no handler has ever crashed", n, log.begun)
		}
	})
}

// TestOrderDueLater: messages in the queue that are due later do not take the place of others in the prefetch.
func TestOrderDueLater(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newLogbook(succeed)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: book, OrderBy: byKey, Prefetch: 4})
		due, ch := time.Now().Add(time.Hour), channel(t, b)
		for i := range 8 {
			raw(t, ch, "orders", amqp091.Publishing{MessageId: fmt.Sprintf("k%d/1", i),
				Headers: amqp091.Table{"rehop-queue": "orders", "rehop-attempt": int32(1), "rehop-due": due.UnixMilli()}})
		}
		publishKeys(t, b, "orders", "a/1")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if runs := book.all(); len(runs) != 1 || runs[0].ID != "a/1" {
			t.Errorf("%d runs before the others are due, want that of a/1", len(runs))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(book.all()); n != 9 {
			t.Errorf("%d runs, want 9", n)
		}
		for _, run := range book.all()[1:] {
			if run.Attempt != 2 {
				t.Errorf("%s has attempt %d, want 2", run.ID, run.Attempt)
			}
		}
	})
}

// TestOrderCrashAmongPostponed: of many messages that are postponed again and again and one during which the connection
// is lost each time, that one goes to the failed queue, and no other.
func TestOrderCrashAmongPostponed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var crashes atomic.Int32
		log := &orderLog{answer: func(ctx context.Context, d *rehop.Delivery) error {
			if d.ID != "z/1" {
				return rehop.Postpone(time.Second, errNotYet)
			}
			crashes.Add(1)
			b.Drop()
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Concurrency: 4, CrashLimit: 5})
		for i := range 15 {
			publishKeys(t, b, "orders", fmt.Sprintf("k%02d/1", i))
		}
		time.Sleep(10 * time.Second)
		publishKeys(t, b, "orders", "z/1")
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		failed := b.Messages("orders.failed")
		if len(failed) != 1 || failed[0].ID != "z/1" {
			t.Errorf("failed are %v, want z/1", failed)
		}
		if n := crashes.Load(); n != 5 {
			t.Errorf("%d crashes, want 5", n)
		}
	})
}

package rehop_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/rehoptest"
)

// TestOrderedPauseBackoff is about a defect that there was: a short outage pauses for long if several handlers
// notice it.
func TestOrderedPauseBackoff(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			began := time.Now()
			book := newLogbook(func(context.Context, *rehop.Delivery) error {
				if time.Since(began) < 4*time.Second {
					return rehop.Unavailable(errNotYet)
				}
				return nil
			})
			s := rehop.Subscriber{Queue: "orders", Handler: book, Concurrency: 16}
			if ordered {
				s.OrderBy = byKey
			}
			subscribe(t, b.Client, s)
			for i := range 100 {
				publishKeys(t, b, "orders", fmt.Sprintf("k%d/1", i))
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			at := book.times()
			t.Log("ordered", ordered, "last run", at[len(at)-1], "runs", len(at))
			if last := at[len(at)-1]; last > 15*time.Second {
				t.Errorf("ordered %v: an outage of 4 s lasts %v", ordered, last)
			}
		})
	}
}

// TestOrderedPauseAndReplay is about a defect that there was: a replay of the same key hides the message that
// finds out whether a pause is over.
func TestOrderedPauseAndReplay(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var up atomic.Bool
		log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "a/0" && d.Replays == 0 {
				return rehop.Permanent(errNotYet)
			}
			if !up.Load() {
				return rehop.Unavailable(errNotYet)
			}
			return nil
		}}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, AfterFail: rehop.Halt, Concurrency: 4})
		publishKeys(t, b, "orders", "a/0")
		time.Sleep(time.Second)
		operator := openAdmin(t, b)
		if err := operator.Skip(t.Context(), "orders", "a/0"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		publishKeys(t, b, "orders", "a/1", "b/1", "c/1")
		time.Sleep(5 * time.Second)
		if _, err := operator.Replay(t.Context(), "orders", admin.Options{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		up.Store(true)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := append(log.of("b"), log.of("c")...); len(got) != 2 {
			t.Errorf("handled %v 5 minutes after the outage, want b/1 and c/1", got)
		}
	})
}

// TestOrderedPauseReports is about a defect that there was: during an outage each session reports the end of
// the pause, and a new one.
func TestOrderedPauseReports(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var ends atomic.Int32
		config := b.Config()
		config.Hooks = []rehop.Hooks{{OnPause: func(e rehop.PauseEvent) {
			if !e.Paused {
				ends.Add(1)
			}
		}}}
		c, err := rehop.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(context.Background()) }()
		book := newLogbook(func(context.Context, *rehop.Delivery) error { return rehop.Unavailable(errNotYet) })
		subscribe(t, c, rehop.Subscriber{Queue: "orders", Handler: book, OrderBy: byKey, Concurrency: 16})
		for i := range 100 {
			publishKeys(t, b, "orders", fmt.Sprintf("k%d/1", i))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := ends.Load(); n > 0 {
			t.Errorf("the end of the pause was reported %d times in an outage of an hour, want never (%d runs)", n, len(book.all()))
		}
	})
}

// TestOrderedPauseWithRate is about a defect that there was: with a rate, workers that wait for their token run
// in a pause.
func TestOrderedPauseWithRate(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			began := time.Now()
			var down atomic.Int32
			book := newLogbook(func(context.Context, *rehop.Delivery) error {
				if time.Since(began) < 3*time.Second {
					return nil
				}
				down.Add(1)
				return rehop.Unavailable(errNotYet)
			})
			s := rehop.Subscriber{Queue: "orders", Handler: book, Concurrency: 32, Rate: 1, ProbeMin: 30 * time.Second}
			if ordered {
				s.OrderBy = byKey
			}
			subscribe(t, b.Client, s)
			for i := range 50 {
				publishKeys(t, b, "orders", fmt.Sprintf("k%d/1", i))
			}
			time.Sleep(25 * time.Second)
			synctest.Wait()
			if n := down.Load(); n > 3 { // one more may have its token when the pause begins
				t.Errorf("ordered %v: %d runs in a pause, want one or two", ordered, n)
			}
		})
	}
}

// TestOrderedLowRate is about a defect that there was: a low rate keeps the end of a session waiting for longer
// than the broker allows.
func TestOrderedLowRate(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newLogbook(succeed)
		var lost atomic.Int32
		config := b.Config()
		config.Hooks = []rehop.Hooks{{OnConsumer: func(e rehop.ConsumerEvent) {
			if e.Err != nil {
				lost.Add(1)
			}
		}}}
		c, err := rehop.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(context.Background()) }()
		subscribe(t, c, rehop.Subscriber{Queue: "orders", Handler: book, OrderBy: byKey, Concurrency: 16, Rate: 0.005})
		for i := range 40 {
			publishKeys(t, b, "orders", fmt.Sprintf("k%d/1", i))
		}
		time.Sleep(55 * time.Minute)
		if n := len(book.all()); lost.Load() > 0 {
			t.Errorf("%d runs, and the consumer was lost %d times", n, lost.Load())
		}
	})
}

// TestOrderedBlocked is about a defect that there was: while the broker accepts no messages, consumers continue
// without OrderBy.
func TestOrderedBlocked(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			book := newLogbook(func(context.Context, *rehop.Delivery) error { time.Sleep(time.Second); return nil })
			s := rehop.Subscriber{Queue: "orders", Handler: book, Concurrency: 1}
			if ordered {
				s.OrderBy = byKey
			}
			subscribe(t, b.Client, s)
			for i := range 600 {
				publishKeys(t, b, "orders", fmt.Sprintf("k%d/1", i))
			}
			time.Sleep(10 * time.Second)
			b.Block()
			before := len(book.all())
			time.Sleep(5 * time.Minute)
			during := len(book.all()) - before
			b.Unblock()
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			t.Logf("ordered %v: %d were handled while the broker was blocked for 300 s, %d runs in all", ordered, during, len(book.all()))
			if during < 200 {
				t.Errorf("ordered %v: %d were handled while the broker was blocked for 300 s", ordered, during)
			}
		})
	}
}

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

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/rehoptest"
)

// raw publishes as a program without rehop does.
func raw(t *testing.T, ch *amqp091.Channel, queue string, p amqp091.Publishing) {
	t.Helper()
	p.DeliveryMode = 2
	if err := ch.PublishWithContext(t.Context(), "", queue, true, false, p); err != nil {
		t.Fatal(err)
	}
}

// failsFirst fails the messages with the ids the first time.
func failsFirst(ids ...string) func(context.Context, *rehop.Delivery) error {
	return func(_ context.Context, d *rehop.Delivery) error {
		if slices.Contains(ids, d.ID) && d.Attempt == 1 {
			return errNotYet
		}
		return nil
	}
}

// TestOrderedSeqMillion is about a defect that there was: numbers of the held queue are read with
// envelope.Count, which has a maximum of 1,000,000. The copy that has the number 1,000,001 is not recognized
// when it comes back, is acked, and so is the original.
func TestOrderedSeqMillion(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: failsFirst("a/1")}
		settings := rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Retry: rehop.Steps(10*time.Second, 10*time.Second)}
		first := subscribe(t, b.Client, settings)
		time.Sleep(time.Second)
		if err := first.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		// A message that waits, unchanged when a million were moved before it.
		raw(t, channel(t, b), "orders.held", amqp091.Publishing{MessageId: "z/1", Headers: amqp091.Table{"rehop-order-kind": "copy", "rehop-order-key": "z",
			"rehop-order-seq": int64(1_000_000), "rehop-order-epoch": int64(2), "rehop-order-session": "before"}})
		subscribe(t, b.Client, settings)
		publishKeys(t, b, "orders", "a/1", "a/2")
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if got := log.of("z"); !slices.Equal(got, []string{"z/1"}) {
			t.Errorf("z: %v", got)
		}
		if got, want := log.of("a"), []string{"a/1", "a/2"}; !slices.Equal(got, want) {
			t.Errorf("have ended %v, want %v; begun %v\n%v", got, want, log.begun, b)
		}
	})
}

// TestOrderedSkipThenReplay is about a defect that there was: a message that was skipped keeps its number in
// the failed queue, and numbers begin at 1 again when the held queue was empty at a takeover. When it is
// replayed, it takes the place of another message with this number, which is lost.
func TestOrderedSkipThenReplay(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var fixed atomic.Bool
		log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
			if !fixed.Load() && d.ID == "a/1" {
				return rehop.Permanent(errNotYet)
			}
			if d.ID == "a/2" && d.Attempt == 1 {
				return errNotYet
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
	b := rehoptest.Open(t)
	var r results
	c := r.client(t, b)
	log := &orderLog{answer: succeed}
	sub := subscribe(t, c, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Concurrency: 8, Rate: 0.01})
	for i := range 20 {
		publishKeys(t, b, "orders", fmt.Sprintf("k%d/1", i))
	}
	time.Sleep(500 * time.Millisecond)
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
}

// TestOrderedEqualIDs is about a defect that there was: two messages with the same id and body, and other
// routing keys and headers: the second is taken for the first.
func TestOrderedEqualIDs(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var mu sync.Mutex
		var done []string
		handler := rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			event, _ := d.Headers["event"].(string)
			if event == "placed" && d.Attempt == 1 {
				return errNotYet
			}
			mu.Lock()
			defer mu.Unlock()
			done = append(done, event)
			return nil
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: handler, OrderBy: func(d *rehop.Delivery) string { return d.ID }, Retry: rehop.Steps(time.Second)})
		publish(t, b.Client, rehop.Message{Key: "orders", ID: "order-7", Type: "", Headers: map[string]any{"event": "placed"}})
		publish(t, b.Client, rehop.Message{Key: "orders", ID: "order-7", Headers: map[string]any{"event": "paid"}})
		time.Sleep(100 * time.Millisecond)
		b.Drop()
		time.Sleep(time.Hour)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(done, "paid") || !slices.Contains(done, "placed") {
			t.Errorf("handled %v, want placed and paid", done)
		}
	})
}

// TestOrderedForgedKinds is about a defect that there was: messages whose publisher has written rehop-order-
// kind.
func TestOrderedForgedKinds(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: succeed}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey})
		ch := channel(t, b)
		var want []string
		for _, kind := range []string{"copy", "block", "replay", "probe", "hello", "mark", "bye", "calm", "trial", "skip", "list", "other", ""} {
			want = append(want, "a/"+kind)
			raw(t, ch, "orders", amqp091.Publishing{MessageId: "a/" + kind, Body: []byte("payload"), Headers: amqp091.Table{"rehop-order-kind": kind}})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := log.of("a"); !slices.Equal(got, want) {
			t.Errorf("handled %v, want %v", got, want)
		}
	})
}

// TestOrderedForeignHeld is about a defect that there was: messages in the held queue that are not rehop's: all
// but one of a key are lost.
func TestOrderedForeignHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: succeed}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey})
		time.Sleep(time.Second)
		ch := channel(t, b)
		b.Client.Publish(t.Context(), rehop.Message{Key: "orders", ID: "a/0"})
		time.Sleep(time.Second)
		slow := make(chan struct{})
		log.set(func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "a/1" {
				<-slow
			}
			return nil
		})
		for i := range 5 {
			raw(t, ch, "orders.held", amqp091.Publishing{MessageId: fmt.Sprint("a/", i+1), Body: []byte("payload")})
		}
		time.Sleep(time.Second)
		close(slow)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := log.of("a"); len(got) != 6 {
			t.Errorf("handled %v, want a/0 to a/5", got)
		}
	})
}

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
		time.Sleep(55 * time.Minute) // not longer: see TestOrderedTrialSpins
		if n := len(book.all()); lost.Load() > 0 {
			t.Errorf("%d runs, and the consumer was lost %d times", n, lost.Load())
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

// TestOrderedLargeKey is about a defect that there was: a key that does not fit into the headers of a block:
// after a session, nothing is handled any more.
func TestOrderedLargeKey(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "a/1" {
				return rehop.Permanent(errNotYet)
			}
			return nil
		}}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: func(d *rehop.Delivery) string { return string(d.Body) }, AfterFail: rehop.Halt, Concurrency: 4})
		publish(t, b.Client, rehop.Message{Key: "orders", ID: "a/1", Body: []byte(strings.Repeat("x", 140_000))})
		time.Sleep(15 * time.Minute)
		publishKeys(t, b, "orders", "b/1")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := log.of("b"); len(got) != 1 {
			t.Errorf("handled of b: %v, want b/1\n%v", got, b)
		}
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

// TestOrderedStaleFailedCopy is about a defect that there was: a copy of a message in the failed queue is left
// over when a process dies before the block is written; the message is handled again by the next process. When
// the copy is replayed later, it takes the place of another message.
func TestOrderedStaleFailedCopy(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var fixed atomic.Bool
		log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
			if !fixed.Load() && d.ID == "a/1" {
				return rehop.Permanent(errNotYet)
			}
			if d.ID == "a/2" && d.Attempt == 1 {
				return errNotYet
			}
			return nil
		}}
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

// TestOrderedDrainFromHooks is about a defect that there was: a hook that calls Drain is refused, on whatever
// goroutine it runs.
func TestOrderedDrainFromHooks(t *testing.T) {
	b := rehoptest.Open(t)
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

package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// batchRun is one call of a batch handler.
type batchRun struct {
	at  time.Duration
	ids []string
	all []rehop.Delivery
}

// batchbook writes down the calls of a batch handler.
type batchbook struct {
	clock
	answer func(ctx context.Context, all []*rehop.Delivery) error
	mu     sync.Mutex
	runs   []batchRun
}

func newBatchbook(answer func(ctx context.Context, all []*rehop.Delivery) error) *batchbook {
	return &batchbook{clock: startClock(), answer: answer}
}

func (b *batchbook) handle(ctx context.Context, all []*rehop.Delivery) error {
	r := batchRun{at: b.now()}
	for _, d := range all {
		r.ids, r.all = append(r.ids, d.ID), append(r.all, *d)
	}
	b.mu.Lock()
	b.runs = append(b.runs, r)
	b.mu.Unlock()
	if b.answer == nil {
		return nil
	}
	return b.answer(ctx, all)
}

func (b *batchbook) calls() []batchRun {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.runs)
}

// ids are those of each call.
func (b *batchbook) ids() (all [][]string) {
	for _, r := range b.calls() {
		all = append(all, r.ids)
	}
	return all
}

// counts is how often each message was handled.
func (b *batchbook) counts() map[string]int {
	n := make(map[string]int)
	for _, r := range b.calls() {
		for _, id := range r.ids {
			n[id]++
		}
	}
	return n
}

func (b *batchbook) want(t *testing.T, want ...[]string) {
	t.Helper()
	if got := b.ids(); !reflect.DeepEqual(got, want) {
		t.Errorf("batches: got %v, want %v", got, want)
	}
}

// batches subscribes, and returns when the consumer has its whole prefetch: the first message comes alone.
func batches(t *testing.T, c *rehop.Client, s rehop.Subscriber) *rehop.Subscription {
	t.Helper()
	book := s.Batch.Handle
	first := make(chan struct{})
	var once sync.Once
	s.Batch.Handle = func(ctx context.Context, all []*rehop.Delivery) error {
		if len(all) == 1 && all[0].ID == "first" {
			once.Do(func() { close(first) })
			return nil
		}
		return book(ctx, all)
	}
	sub := subscribe(t, c, s)
	publish(t, c, rehop.Message{ID: "first", Key: s.Queue})
	<-first
	synctest.Wait()
	return sub
}

func publishNumbers(t *testing.T, c *rehop.Client, queue string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		publish(t, c, rehop.Message{ID: id, Key: queue})
	}
}

// recordResults returns a client whose results are recorded.
func recordResults(t *testing.T, b *rehoptest.Broker, more ...rehop.Hooks) (*rehop.Client, func(id string) []rehop.Result) {
	t.Helper()
	var mu sync.Mutex
	results := make(map[string][]rehop.Result)
	config := b.Config()
	config.Hooks = append(append(config.Hooks, more...), rehop.Hooks{OnResult: func(_ context.Context, d *rehop.Delivery, r rehop.Result) {
		mu.Lock()
		defer mu.Unlock()
		results[d.ID] = append(results[d.ID], r)
	}})
	client, err := rehop.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(context.Background()) })
	return client, func(id string) []rehop.Result {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(results[id])
	}
}

// A batch is handled when it is full, or when its first message has waited for long enough.
func TestBatchFillsOrWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newBatchbook(func(ctx context.Context, _ []*rehop.Delivery) error {
			if d := rehop.DeliveryFrom(ctx); d != nil {
				t.Errorf("DeliveryFrom: got %v, want nil", d)
			}
			return nil
		})
		batches(t, b.Client, rehop.Subscriber{Queue: "q", Batch: rehop.Batch{Size: 3, Wait: 10 * time.Second, Handle: book.handle}})
		book.clock = startClock()
		publishNumbers(t, b.Client, "q", "1", "2", "3", "4", "5", "6", "7")
		time.Sleep(4 * time.Second)
		publishNumbers(t, b.Client, "q", "8")
		time.Sleep(20 * time.Second)
		book.want(t, []string{"1", "2", "3"}, []string{"4", "5", "6"}, []string{"7", "8"})
		for i, from := range []time.Duration{0, 0, 10 * time.Second} {
			within(t, "batch", book.calls()[i].at, from, from+time.Second)
		}
		b.AwaitEmpty("q")
	})
}

// Several workers do not share the messages of a batch among each other, and handle several batches at once.
func TestBatchesOfSeveralWorkers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newBatchbook(func(context.Context, []*rehop.Delivery) error {
			time.Sleep(time.Minute)
			return nil
		})
		batches(t, b.Client, rehop.Subscriber{Queue: "q", Concurrency: 4, Batch: rehop.Batch{Size: 4, Wait: 10 * time.Second, Handle: book.handle}})
		book.clock = startClock()
		for i := range 3 {
			publishNumbers(t, b.Client, "q", fmt.Sprint(i))
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		publishNumbers(t, b.Client, "q", "3", "4", "5", "6")
		synctest.Wait()
		book.want(t, []string{"0", "1", "2"}, []string{"3", "4", "5", "6"})
		time.Sleep(2 * time.Minute)
		b.AwaitEmpty("q")
	})
}

// Each message has its own outcome.
func TestBatchOutcomes(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		cause := errors.New("cause")
		answers := map[string]error{"plain": cause, "permanent": rehop.Permanent(cause), "after": rehop.RetryAfter(7*time.Minute, cause),
			"postpone": rehop.Postpone(time.Hour, cause), "discard": rehop.Discard(cause)}
		book := newBatchbook(func(_ context.Context, all []*rehop.Delivery) error {
			err := &rehop.BatchError{Errors: make([]error, len(all))}
			for i, d := range all {
				if d.Attempt == 1 && d.Headers["done"] == nil {
					err.Errors[i] = answers[d.ID]
				}
			}
			return err
		})
		var mu sync.Mutex
		starts, ends := make(map[string]int), make(map[string]error)
		client, results := recordResults(t, b, rehop.Hooks{
			OnHandleStart: func(ctx context.Context, d *rehop.Delivery) context.Context {
				mu.Lock()
				defer mu.Unlock()
				starts[d.ID]++
				if rehop.DeliveryFrom(ctx) != d {
					t.Errorf("context of OnHandleStart for message %s: got another delivery", d.ID)
				}
				return ctx
			},
			OnHandleEnd: func(ctx context.Context, d *rehop.Delivery, _ time.Duration, err error) {
				mu.Lock()
				defer mu.Unlock()
				ends[d.ID] = err
			},
		})
		sub := batches(t, client, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Minute), Batch: rehop.Batch{Size: 6, Handle: book.handle}})
		publishNumbers(t, client, "q", "ok", "plain", "permanent", "after", "postpone", "discard")
		synctest.Wait()
		time.Sleep(time.Second)
		for id, want := range map[string]rehop.Result{
			"ok": {Outcome: rehop.OutcomeDone}, "plain": {Outcome: rehop.OutcomeRetry, Kind: rehop.KindError, Delay: time.Minute},
			"permanent": {Outcome: rehop.OutcomeFailed, Kind: rehop.KindPermanent}, "after": {Outcome: rehop.OutcomeRetry, Kind: rehop.KindError, Delay: 7 * time.Minute},
			"postpone": {Outcome: rehop.OutcomePostponed, Delay: time.Hour}, "discard": {Outcome: rehop.OutcomeDiscarded},
		} {
			got := results(id)
			if len(got) != 1 || got[0].Outcome != want.Outcome || got[0].Kind != want.Kind || got[0].Delay != want.Delay {
				t.Errorf("message %s: got %+v, want once %+v", id, got, want)
			}
			mu.Lock()
			if starts[id] != 1 || !errors.Is(ends[id], answers[id]) {
				t.Errorf("message %s: got %d calls of OnHandleStart and error %v in OnHandleEnd, want 1 and %v", id, starts[id], ends[id], answers[id])
			}
			mu.Unlock()
		}
		if got := len(book.calls()); got != 1 {
			t.Errorf("calls of the handler: got %d, want 1", got)
		}
		if err := sub.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// Only what has failed is tried again, at once or later.
func TestBatchRetries(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newBatchbook(func(_ context.Context, all []*rehop.Delivery) error {
			err := &rehop.BatchError{Errors: make([]error, len(all))}
			for i, d := range all {
				if d.ID == "2" || d.ID == "3" {
					err.Errors[i] = errNotYet
				}
			}
			return err
		})
		batches(t, b.Client, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Minute).WithImmediate(1), Batch: rehop.Batch{Size: 4, Handle: book.handle}})
		publishNumbers(t, b.Client, "q", "1", "2", "3", "4")
		b.AwaitFailed("q", 2)
		all := book.ids()
		if len(all) < 3 || !slices.Equal(all[0], []string{"1", "2", "3", "4"}) || !slices.Equal(all[1], []string{"2", "3"}) {
			t.Errorf("batches: got %v, want all four, then 2 and 3 at once, and these later", all)
		}
		if want := map[string]int{"1": 1, "2": 3, "3": 3, "4": 1}; !maps.Equal(book.counts(), want) {
			t.Errorf("runs: got %v, want %v", book.counts(), want)
		}
	})
}

// A panic, runtime.Goexit and a timeout are failures of the whole batch, and the worker continues.
func TestBatchFailures(t *testing.T) {
	for name, test := range map[string]struct {
		handle func(ctx context.Context, all []*rehop.Delivery) error
		kind   rehop.Kind
	}{
		"panic":     {func(context.Context, []*rehop.Delivery) error { panic("no") }, "panic"},
		"typed nil": {func(context.Context, []*rehop.Delivery) error { return (*rehop.BatchError)(nil) }, "panic"},
		"Goexit": {func(context.Context, []*rehop.Delivery) error {
			runtime.Goexit()
			return nil
		}, "panic"},
		"timeout": {func(ctx context.Context, _ []*rehop.Delivery) error {
			<-ctx.Done()
			return errors.New("too late")
		}, "timeout"},
		"wrong length": {func(context.Context, []*rehop.Delivery) error { return &rehop.BatchError{} }, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				batches(t, b.Client, rehop.Subscriber{Queue: "q", Timeout: 5 * time.Second, Retry: rehop.NoRetry(), Batch: rehop.Batch{Size: 3, Handle: test.handle}})
				publishNumbers(t, b.Client, "q", "1", "2", "3", "4", "5", "6", "7")
				for _, m := range b.AwaitFailed("q", 7) {
					if m.Kind != test.kind {
						t.Errorf("message %s: got kind %q (%s), want %q", m.ID, m.Kind, m.Error, test.kind)
					}
				}
				b.AwaitEmpty("q")
			})
		})
	}
}

// A batch whose handler does not return is reported once, and replaced. What it was given has failed.
func TestStuckBatch(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var mu sync.Mutex
		var stuck []rehop.StuckHandler
		client, results := recordResults(t, b, rehop.Hooks{OnStuck: func(s rehop.StuckHandler) {
			mu.Lock()
			defer mu.Unlock()
			stuck = append(stuck, s)
		}})
		book := newBatchbook(func(_ context.Context, all []*rehop.Delivery) error {
			if all[0].ID == "1" && all[0].Attempt == 1 {
				time.Sleep(time.Hour)
			}
			return nil
		})
		batches(t, client, rehop.Subscriber{Queue: "q", Timeout: time.Minute, StuckAfter: time.Minute, Retry: rehop.Steps(10 * time.Minute),
			Batch: rehop.Batch{Size: 3, Handle: book.handle}})
		publishNumbers(t, client, "q", "1", "2", "3", "4")
		time.Sleep(2 * time.Hour)
		for _, id := range []string{"1", "2", "3"} {
			got := results(id)
			if len(got) != 2 || got[0].Kind != rehop.KindTimeout || got[1].Outcome != rehop.OutcomeDone {
				t.Errorf("message %s: got %+v, want a timeout, then done", id, got)
			}
		}
		if got := results("4"); len(got) != 1 || got[0].Outcome != rehop.OutcomeDone {
			t.Errorf("message 4: got %+v, want done", got)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(stuck) != 2 || stuck[0].Messages != 3 || stuck[0].MessageID != "1" || !stuck[0].Replaced || !stuck[1].Returned {
			t.Errorf("reports: got %+v, want one of 3 messages that is replaced, and its return", stuck)
		}
	})
}

// A batch that waits for more is handled at once when the subscription drains, and goes back when it stops. Neither uses an attempt.
func TestBatchAtEnd(t *testing.T) {
	for _, end := range []string{"drain", "stop"} {
		t.Run(end, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				book := newBatchbook(nil)
				sub := batches(t, b.Client, rehop.Subscriber{Queue: "q", Batch: rehop.Batch{Size: 10, Wait: 5 * time.Minute, Handle: book.handle}})
				publishNumbers(t, b.Client, "q", "1", "2", "3")
				synctest.Wait()
				ending := startClock()
				if end == "drain" {
					if err := sub.Drain(t.Context()); err != nil {
						t.Error(err)
					}
					book.want(t, []string{"1", "2", "3"})
				} else {
					if err := sub.Stop(); err != nil {
						t.Error(err)
					}
					book.want(t)
					if ready, _ := b.Depth("q"); ready != 3 {
						t.Errorf("messages in the queue: got %d, want 3", ready)
					}
					again := newLogbook(succeed)
					subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: again})
					b.AwaitEmpty("q")
					for _, r := range again.all() {
						if r.Attempt != 1 {
							t.Errorf("message %s: got attempt %d, want 1", r.ID, r.Attempt)
						}
					}
				}
				within(t, end, ending.now(), 0, 10*time.Second)
				b.AwaitEmpty("q")
			})
		})
	}
}

// A batch that ignores its context at a stop goes back as a whole.
func TestBatchIgnoresStop(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newBatchbook(func(context.Context, []*rehop.Delivery) error {
			time.Sleep(time.Hour)
			return nil
		})
		client, results := recordResults(t, b)
		sub := batches(t, client, rehop.Subscriber{Queue: "q", Timeout: 2 * time.Hour, Batch: rehop.Batch{Size: 2, Handle: book.handle}})
		publishNumbers(t, client, "q", "1", "2")
		synctest.Wait()
		if err := sub.Stop(); err == nil || !strings.Contains(err.Error(), "1 handlers still run") {
			t.Errorf("stop: got %v, want an error about one handler", err)
		}
		if ready, _ := b.Depth("q"); ready != 2 {
			t.Errorf("messages in the queue: got %d, want 2", ready)
		}
		for _, id := range []string{"1", "2"} {
			if got := results(id); len(got) != 1 || got[0].Outcome != rehop.OutcomeReturned {
				t.Errorf("message %s: got %+v, want returned", id, got)
			}
		}
		time.Sleep(2 * time.Hour)
	})
}

// No batch has a message twice: neither copies of it, nor, after a lost connection, itself and its redelivery. What the broker has taken back
// is not handled before it comes again.
func TestBatchHasNoMessageTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newBatchbook(nil)
		batches(t, b.Client, rehop.Subscriber{Queue: "q", Batch: rehop.Batch{Size: 10, Wait: 30 * time.Second, Handle: book.handle}})
		publishNumbers(t, b.Client, "q", "1", "2", "1", "3", "1")
		time.Sleep(5 * time.Minute)
		book.want(t, []string{"1", "2"}, []string{"1", "3"}, []string{"1"})

		publishNumbers(t, b.Client, "q", "4", "5", "6")
		synctest.Wait()
		b.Drop()
		time.Sleep(5 * time.Minute)
		b.AwaitEmpty("q")
		for _, ids := range book.ids() {
			sorted := slices.Sorted(slices.Values(ids))
			if len(slices.Compact(sorted)) != len(ids) {
				t.Errorf("batch %v has a message twice", ids)
			}
		}
		counts := book.counts()
		for _, id := range []string{"4", "5", "6"} {
			if counts[id] != 1 {
				t.Errorf("message %s, whose connection was lost while its batch waited: got it handled %d times, want once", id, counts[id])
			}
		}
	})
}

// One Batch in two subscriptions handles the messages of each by themselves.
func TestBatchOfTwoSubscriptions(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		book := newBatchbook(nil)
		batch := rehop.Batch{Size: 10, Wait: 10 * time.Second, Handle: book.handle}
		for _, queue := range []string{"a", "b"} {
			batches(t, b.Client, rehop.Subscriber{Queue: queue, Batch: batch})
		}
		for i := range 6 {
			publishNumbers(t, b.Client, []string{"a", "b"}[i%2], fmt.Sprint(i))
		}
		b.AwaitEmpty("a")
		b.AwaitEmpty("b")
		for _, r := range book.calls() {
			for _, d := range r.all {
				if d.Queue != r.all[0].Queue {
					t.Errorf("batch %v: got messages of the queues %s and %s", r.ids, r.all[0].Queue, d.Queue)
				}
			}
		}
		if got := len(book.calls()); got != 2 {
			t.Errorf("batches: got %v, want 2", book.ids())
		}
	})
}

// Of a batch that kills its process, every message is suspect, and each is handled alone until the one is found.
func TestBatchCrash(t *testing.T) {
	const limit = 6
	for _, kind := range []layout.QueueType{layout.Quorum, layout.Classic} {
		t.Run(string(kind), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				book := newBatchbook(func(_ context.Context, all []*rehop.Delivery) error {
					for _, d := range all {
						if d.ID == "bad" {
							b.Drop()
						}
					}
					return nil
				})
				batches(t, b.Client, rehop.Subscriber{Queue: "q", QueueType: kind, Concurrency: 2, CrashLimit: limit, Batch: rehop.Batch{Size: 4, Handle: book.handle}})
				publishNumbers(t, b.Client, "q", "good 1", "bad", "good 2", "good 3")
				b.AwaitEmpty("q")
				failed := b.AwaitFailed("q", 1)
				if len(failed) != 1 || failed[0].ID != "bad" || failed[0].Kind != "crash" {
					t.Errorf("failed: got %+v, want only the bad message, of kind crash", failed)
				}
				alone := 0
				for _, ids := range book.ids() {
					if len(ids) == 1 && ids[0] == "bad" {
						alone++
					}
				}
				counts := book.counts()
				if counts["bad"] != limit || alone < limit-3 {
					t.Errorf("the bad message: got %d runs, %d of them alone, want %d and at least %d", counts["bad"], alone, limit, limit-3)
				}
				for _, id := range []string{"good 1", "good 2", "good 3"} {
					if counts[id] == 0 {
						t.Errorf("message %q was never handled", id)
					}
				}
			})
		})
	}
}

// What cannot work is refused, with the reason.
func TestBatchRefused(t *testing.T) {
	handle := func(context.Context, []*rehop.Delivery) error { return nil }
	pass := func(h rehop.Handler) rehop.Handler { return h }
	for name, test := range map[string]struct {
		s    rehop.Subscriber
		want string // "": it is not refused
	}{
		"defaults":        {rehop.Subscriber{Batch: rehop.Batch{Handle: handle}}, ""},
		"huge":            {rehop.Subscriber{Concurrency: 10, Batch: rehop.Batch{Size: 65535, Handle: handle}}, ""},
		"with Handler":    {rehop.Subscriber{Handler: rehop.HandlerFunc(succeed), Batch: rehop.Batch{Handle: handle}}, "both set"},
		"with Middleware": {rehop.Subscriber{Middleware: []rehop.Middleware{pass}, Batch: rehop.Batch{Handle: handle}}, "Middleware cannot be combined with Batch"},
		"with Classify":   {rehop.Subscriber{Classify: func(_ *rehop.Delivery, err error) error { return err }, Batch: rehop.Batch{Handle: handle}}, ""},
		"with Rate":       {rehop.Subscriber{Rate: 1. / 300, Batch: rehop.Batch{Handle: handle}}, ""},
		"low Rate":        {rehop.Subscriber{Rate: 1. / 301, Batch: rehop.Batch{Handle: handle}}, "a message could wait for 10m2s"},
		"many batches":    {rehop.Subscriber{Rate: .1, Prefetch: 5900, Batch: rehop.Batch{Handle: handle}}, ""},
		"too many":        {rehop.Subscriber{Rate: .1, Prefetch: 6000, Batch: rehop.Batch{Handle: handle}}, "a message could wait for 10m10s"},
		"no Handle":       {rehop.Subscriber{Batch: rehop.Batch{Size: 5}}, "Batch.Handle is nil"},
		"Size":            {rehop.Subscriber{Batch: rehop.Batch{Size: -1, Handle: handle}}, "Batch.Size -1"},
		"large Size":      {rehop.Subscriber{Batch: rehop.Batch{Size: 65536, Handle: handle}}, "Batch.Size 65536"},
		"Wait":            {rehop.Subscriber{Batch: rehop.Batch{Wait: -1, Handle: handle}}, "Batch.Wait"},
		"long Wait":       {rehop.Subscriber{Batch: rehop.Batch{Wait: time.Hour, Handle: handle}}, "Batch.Wait"},
		"Prefetch":        {rehop.Subscriber{Prefetch: 99, Batch: rehop.Batch{Handle: handle}}, "Prefetch 99 must be at least Batch.Size, 100"},
	} {
		t.Run(name, func(t *testing.T) {
			test.s.Queue = "q"
			_, err := rehop.Topology(rehop.Config{}, test.s)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

package retrying

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// Retries go to the subscriber that failed, and to no other.
func TestRetriesReachOneSubscriberOnly(t *testing.T) {
	t.Parallel()
	const messages, every = 70, 7
	r := lab.Single(t)
	c := kit.OpenQuick(t, r, rehop.Config{})
	calls := make(map[string]*kit.Tally)
	var subs []*rehop.Subscription
	for _, queue := range []string{"billing", "mail", "search"} {
		seen := &kit.Tally{}
		calls[queue] = seen
		subs = append(subs, kit.Subscribe(t, c, rehop.Subscriber{Queue: queue, Exchange: "order", Keys: []string{"order.created"}, Concurrency: 4,
			Retry: rehop.Steps(100*time.Millisecond, 200*time.Millisecond),
			Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				seen.Add(d.ID + "/" + strconv.Itoa(d.Attempt))
				n, _ := strconv.Atoi(d.ID)
				if queue == "mail" && n%every == 0 && d.Attempt < 3 {
					return errors.New("not yet")
				}
				return nil
			})}))
	}
	batch := kit.Numbered("order.created", messages)
	for i := range batch {
		batch[i].Exchange = "order"
	}
	kit.Publish(t, c, batch...)
	const failing = messages / every
	lab.Eventually(t, kit.Limit, "all third attempts", func() bool { return calls["mail"].Sum() >= messages+2*failing })
	for _, s := range subs {
		kit.Drain(t, s)
	}
	for queue, want := range map[string]int{"billing": messages, "mail": messages + 2*failing, "search": messages} {
		if got := calls[queue].Sum(); got != want {
			t.Errorf("%s: got %d handler calls, want %d", queue, got, want)
		}
		if got := calls[queue].Len(); got != want { // each message and attempt once
			t.Errorf("%s: got %d different attempts, want %d", queue, got, want)
		}
	}
	ch := r.Channel()
	for queue := range calls {
		kit.WantDepth(t, r, ch, queue, 0)
		kit.WantDepth(t, r, ch, queue+".failed", 0)
	}
	kit.WantDepth(t, r, ch, layouts.OrphansQueue, 0)
}

func long(s string) string { return strings.Repeat(s, 255/len(s)+1)[:255] }

func TestNamesReturnToThemselves(t *testing.T) {
	t.Parallel()
	names := []string{
		"a.b.c", "a.*.c", "a.#", "#", "*", "*.*.*", "a.b.c ", " a.b.c", " ", "two words", "a/b?c=d&e%20", "tab\there",
		"名前.キュー", "ß€😀", "e\u0301", "é", long("x"), long("x")[:254] + "y", strings.Repeat("ä", 127) + "x", "exchange rehop.return", "queue",
	}
	eachWay(t, 130*time.Millisecond, func(t *testing.T, _ string, answer error) {
		r := lab.Single(t)
		rec := kit.NewRecorder()
		c := kit.OpenQuick(t, r, rehop.Config{Hooks: rec.Hooks()})
		ch := r.Channel()
		var calls kit.Tally // by "queue \x00 id \x00 attempt"
		for i, name := range names {
			kit.Subscribe(t, c, rehop.Subscriber{Queue: name, Retry: rehop.Steps(100 * time.Millisecond),
				Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					calls.Add(d.Queue + "\x00" + d.ID + "\x00" + strconv.Itoa(d.Attempt))
					if d.Key != name || d.Exchange != "" {
						t.Errorf("queue %q, attempt %d: got exchange %q, key %q; want none, %q", name, d.Attempt, d.Exchange, d.Key, name)
					}
					return answer
				})})
			kit.Publish(t, c, rehop.Message{ID: strconv.Itoa(i), Key: name})
		}
		for i, name := range names {
			d := kit.Take(t, ch, layouts.FailedQueue(name))
			if f := kit.Failure(d); d.MessageId != strconv.Itoa(i) || f.Queue != name || f.Attempt != 2 {
				t.Errorf("failed queue of %q: got message %s of %q, attempt %d; want %d, its own, 2", name, d.MessageId, f.Queue, f.Attempt, i)
			}
			for _, attempt := range []string{"1", "2"} {
				if got := calls.Of(name + "\x00" + strconv.Itoa(i) + "\x00" + attempt); got != 1 {
					t.Errorf("queue %q: got %d runs of attempt %s, want 1", name, got, attempt)
				}
			}
		}
		calls.WantSum(t, "handler calls in all queues", 2*len(names))
		kit.WantDepth(t, r, ch, layouts.OrphansQueue, 0)
		for len(rec.States) > 0 {
			if s := <-rec.States; s.State == rehop.StateRecovering {
				t.Errorf("a name cost the connection: %v", s.Err)
			}
		}
	})
}

func TestCCDoesNotMultiply(t *testing.T) {
	t.Parallel()
	eachWay(t, 130*time.Millisecond, func(t *testing.T, _ string, answer error) {
		r := lab.Single(t)
		ch := r.Channel()
		c := kit.OpenQuick(t, r, rehop.Config{})
		var other kit.Tally
		kit.Subscribe(t, c, rehop.Subscriber{Queue: "q2", Exchange: "x", Keys: []string{"k2"}, Handler: &other})
		cc := make(chan any, 10)
		kit.Subscribe(t, c, rehop.Subscriber{Queue: "q1", Exchange: "x", Keys: []string{"k1"}, Retry: rehop.Steps(100*time.Millisecond, 100*time.Millisecond),
			Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				cc <- d.Headers["CC"]
				if d.Key != "k1" {
					t.Errorf("attempt %d: got key %q, want k1", d.Attempt, d.Key)
				}
				return answer
			})})
		// The second CC key names a queue that would get a copy from the returning exchange.
		kit.Publish(t, c, rehop.Message{ID: "m", Exchange: "x", Key: "k1", Headers: map[string]any{"CC": []string{"k2", "q2"}}})
		for attempt := 1; attempt <= 3; attempt++ {
			if got, want := fmt.Sprint(kit.Receive(t, cc, "attempt")), fmt.Sprint([]any{"k2", "q2"}); got != want {
				t.Errorf("attempt %d: got CC %v, want %v", attempt, got, want)
			}
		}
		d := kit.Take(t, ch, "q1.failed")
		if f := kit.Failure(d); fmt.Sprint(f.CC) != fmt.Sprint([]any{"k2", "q2"}) || d.Headers["CC"] != nil {
			t.Errorf("failed: got CC %v and header %v, want it kept aside", f.CC, d.Headers["CC"])
		}
		if got := other.Sum(); got != 1 {
			t.Errorf("deliveries to the other queue: got %d, want 1", got)
		}
		kit.WantDepth(t, r, ch, "q2", 0)
		kit.WantDepth(t, r, ch, "q2.failed", 0)
		kit.WantDepth(t, r, ch, layouts.OrphansQueue, 0)
	})
}

func TestExpirationDoesNotCutTheWait(t *testing.T) {
	t.Parallel()
	const expiration, delay = 100 * time.Millisecond, 500 * time.Millisecond
	eachWay(t, delay-time.Millisecond, func(t *testing.T, _ string, answer error) {
		r := lab.Single(t)
		c := kit.OpenQuick(t, r, rehop.Config{})
		type run struct {
			at time.Time
			d  *rehop.Delivery
		}
		runs := make(chan run, 2)
		kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(delay),
			Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				runs <- run{time.Now(), d}
				if d.Attempt == 1 {
					return answer
				}
				return nil
			})})
		kit.Publish(t, c, rehop.Message{Key: "q", Expiration: expiration})
		first, second := kit.Receive(t, runs, "first attempt"), kit.Receive(t, runs, "second attempt")
		if got := second.at.Sub(first.at); got < delay-10*time.Millisecond {
			t.Errorf("wait: got %v, want at least %v", got, delay)
		}
		for _, x := range []run{first, second} {
			if x.d.Expiration != expiration {
				t.Errorf("attempt %d: got expiration %v, want %v", x.d.Attempt, x.d.Expiration, expiration)
			}
		}
	})
}

func TestSharedStep(t *testing.T) {
	t.Parallel()
	const messages, delay = 20, 200 * time.Millisecond
	r := lab.Single(t)
	ch := r.Channel()
	a, b := kit.OpenQuick(t, r, rehop.Config{}), kit.OpenQuick(t, r, rehop.Config{})
	var calls kit.Tally
	for queue, c := range map[string]*rehop.Client{"qa": a, "qb": b} {
		kit.Subscribe(t, c, rehop.Subscriber{Queue: queue, Retry: rehop.Steps(delay), Concurrency: 3,
			Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				if !strings.HasPrefix(string(d.Body), d.Queue) {
					t.Errorf("queue %s: got message %q, want its own", d.Queue, d.Body)
				}
				calls.Add(string(d.Body) + "/" + strconv.Itoa(d.Attempt))
				if d.Attempt == 1 {
					return errors.New("again")
				}
				return nil
			})})
		for i := range messages {
			kit.Publish(t, c, rehop.Message{Key: queue, Body: []byte(queue + strconv.Itoa(i))})
		}
	}
	lab.Eventually(t, kit.Limit, "all second attempts", func() bool { return calls.Len() == 2*2*messages })
	kit.WantDepth(t, r, ch, layouts.StepQueue(delay), 0)
	calls.WantSum(t, "handler calls", 2*2*messages)
}

// Long waits do not hold up short ones, and no wait is shorter than it should be.
func TestDelaysAreKept(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := kit.OpenQuick(t, r, rehop.Config{})
	delays := []time.Duration{1500, 1234, 900, 800, 700, 399, 300, 250, 101, 100, 1, 0} // ms, the longest first
	type run struct {
		first, second time.Time
		delay         time.Duration
	}
	var mu sync.Mutex
	runs := make(map[string]*run)
	done := make(chan string, 100)
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: 4, Retry: rehop.Steps(300*time.Millisecond, 800*time.Millisecond),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			ms, _ := strconv.Atoi(d.Type)
			if d.Attempt == 1 {
				delay := time.Duration(ms) * time.Millisecond
				runs[d.ID] = &run{first: time.Now(), delay: delay}
				return rehop.RetryAfter(delay, errors.New("later"))
			}
			runs[d.ID].second = time.Now()
			done <- d.ID
			return nil
		})})
	kit.Publish(t, c, rehop.Message{Key: "q", Type: strconv.Itoa(int(time.Hour / time.Millisecond))}) // ahead of all, and not waited for
	const each = 4
	for range each {
		for _, d := range delays {
			kit.Publish(t, c, rehop.Message{Key: "q", Type: strconv.Itoa(int(d))})
		}
	}
	for range each * len(delays) {
		kit.Receive(t, done, "all second attempts")
	}
	mu.Lock()
	defer mu.Unlock()
	for id, x := range runs {
		if x.delay == time.Hour {
			continue
		}
		if got := x.second.Sub(x.first); got < x.delay-10*time.Millisecond {
			t.Errorf("message %s: waited %v, want %v at least", id, got, x.delay)
		}
	}
	if got, want := len(runs), 1+each*len(delays); got != want {
		t.Errorf("messages: got %d, want %d", got, want)
	}
}

// A queue that was deleted while its messages wait must not hold up those of others.
func TestMissingDestination(t *testing.T) {
	t.Parallel()
	const messages, shortest = 40, 1500 * time.Millisecond // more than the 32 that jam a broker
	for _, way := range []string{"step", "cascade"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			untilShown(t, shortest, func(delay time.Duration) bool {
				answer := errors.New("again")
				if way == "cascade" {
					answer = rehop.RetryAfter(delay-30*time.Millisecond, answer)
				}
				return missingDestination(t, messages, delay, answer)
			})
		})
	}
}

// missingDestination reports whether the queue was deleted while messages waited.
func missingDestination(t *testing.T, messages int, delay time.Duration, answer error) bool {
	r, ch, rec, c := kit.Setup(t)
	var back kit.Tally
	s := rehop.Subscriber{Concurrency: 8, Retry: rehop.Steps(delay),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.Attempt == 1 {
				return answer
			}
			back.Add(d.Queue)
			return nil
		})}
	s.Queue = "gone"
	gone := kit.Subscribe(t, c, s)
	kit.Publish(t, c, kit.Numbered("gone", messages)...)
	for waiting := 0; waiting < messages; {
		switch got := kit.Receive(t, rec.Results, "result"); got.Outcome {
		case rehop.OutcomeRetry:
			waiting++
		case rehop.OutcomeDone: // came back on a slow machine
		default:
			t.Fatalf("result: got %s, want retry", got.Outcome)
		}
	}
	kit.Stop(t, gone)
	returned := r.Depth(ch, "gone")
	if n, err := ch.QueueDelete("gone", false, false, false); err != nil {
		t.Fatal(err)
	} else {
		returned = max(returned, n) // they are gone with the queue, as whoever deletes it wants
	}
	s.Queue = "here"
	kit.Subscribe(t, c, s)
	kit.Publish(t, c, kit.Numbered("here", messages)...)
	lab.Eventually(t, kit.Limit, "all messages of the other queue are back", func() bool { return back.Of("here") == messages })
	orphans := messages - back.Of("gone") - returned
	kit.WantDepth(t, r, ch, layouts.OrphansQueue, orphans)
	if orphans == 0 {
		return false
	}
	d := kit.Take(t, ch, layouts.OrphansQueue)
	if f := kit.Failure(d); f.Queue != "gone" || f.Attempt != 1 {
		t.Errorf("orphan: got queue %q, attempt %d; want gone, 1", f.Queue, f.Attempt)
	}
	return true
}

// A queue that is full while its messages return must not hold up those of others, whether rehop
// declared it or somebody else.
func TestFullQueueDoesNotJamOthers(t *testing.T) {
	t.Parallel()
	const messages, shortest = 100, 3 * time.Second
	for name, bound := range map[string]func(*testing.T, *amqp.Channel, *rehop.Subscriber){
		"own": func(_ *testing.T, _ *amqp.Channel, s *rehop.Subscriber) { s.MaxLength = messages },
		"foreign": func(t *testing.T, ch *amqp.Channel, s *rehop.Subscriber) {
			kit.Queue(t, ch, s.Queue, amqp.Table{"x-queue-type": "quorum", "x-max-length": int32(messages), "x-overflow": "reject-publish"})
			s.ExistingQueue = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			untilShown(t, shortest, func(delay time.Duration) bool { return fullQueue(t, messages, delay, bound) })
		})
	}
}

// fullQueue reports whether the queue was full when enough messages waited.
func fullQueue(t *testing.T, messages int, delay time.Duration, bound func(*testing.T, *amqp.Channel, *rehop.Subscriber)) bool {
	const window = 32 // this many that wait in vain jam a broker
	r, ch, rec, c := kit.Setup(t)
	var back kit.Tally
	s := rehop.Subscriber{Concurrency: 8, Retry: rehop.Steps(delay),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.Attempt == 1 {
				return errors.New("again")
			}
			back.Add(d.Queue)
			return nil
		})}
	full := s
	full.Queue = "full"
	bound(t, ch, &full)
	sub := kit.Subscribe(t, c, full)
	kit.Publish(t, c, kit.Numbered("full", messages)...)
	for range messages {
		kit.Receive(t, rec.Results, "result")
	}
	kit.Stop(t, sub)
	// Nobody consumes it any more: it is filled before the first one returns.
	var err error
	for tries := 0; tries < 10 && err == nil; tries++ { // a quorum queue accepts a few more before it refuses
		err = c.PublishBatch(kit.Context(t), kit.Numbered("full", messages))
	}
	if !errors.Is(err, rehop.ErrRefused) {
		t.Fatalf("publish more than the queue takes: got %v, want %v", err, rehop.ErrRefused)
	}
	if r.Depth(ch, layouts.StepQueue(delay)) <= window {
		return false
	}
	s.Queue = "free"
	kit.Subscribe(t, c, s)
	kit.Publish(t, c, kit.Numbered("free", messages)...)
	lab.Eventually(t, delay+kit.Limit, "all messages of the queue that has room are back", func() bool { return back.Of("free") == messages })
	return true
}

func TestStepDeletedWhileRunning(t *testing.T) {
	t.Parallel()
	// Clocks may disagree by one unit, so the waits are longer than that.
	const delay, odd = 750 * time.Millisecond, 730 * time.Millisecond
	for name, test := range map[string]struct {
		answer  error
		destroy func(ch *amqp.Channel) error
	}{
		"step queue": {errors.New("again"), func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete(layouts.StepQueue(delay), false, false, false)
			return err
		}},
		"step exchange": {errors.New("again"), func(ch *amqp.Channel) error { return ch.ExchangeDelete(layouts.StepExchange, false, false) }},
		"failed queue": {rehop.Permanent(errors.New("no")), func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete("q.failed", false, false, false)
			return err
		}},
		"cascade exchange": {rehop.RetryAfter(odd, errors.New("later")), func(ch *amqp.Channel) error {
			return ch.ExchangeDelete("rehop.delay.03", false, false)
		}},
		"cascade queue": {rehop.RetryAfter(odd, errors.New("later")), func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete("rehop.delay.03", false, false, false)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const messages = 5
			r, ch, rec, c := kit.Setup(t)
			var first kit.Tally
			var mu sync.Mutex
			began := make(map[string]time.Time)
			sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: 2, Retry: rehop.Steps(delay),
				Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					mu.Lock()
					defer mu.Unlock()
					if d.Attempt == 1 {
						first.Add(d.ID)
						began[d.ID] = time.Now()
						return test.answer
					}
					if got := time.Since(began[d.ID]); got < odd-layouts.DelayUnit {
						t.Errorf("message %s came back after %v, want at least %v", d.ID, got, odd-layouts.DelayUnit)
					}
					return nil
				})})
			permanent := strings.Contains(name, "failed")
			outcomes := func(n int) {
				t.Helper()
				for done := 0; done < n; {
					got := kit.Receive(t, rec.Results, "result")
					switch {
					case got.Outcome == rehop.OutcomeDone, permanent && got.Outcome == rehop.OutcomeFailed:
						done++
					case got.Outcome != rehop.OutcomeRetry:
						t.Errorf("result: got %s (%v), want retry or done", got.Outcome, got.Err)
					}
				}
			}
			kit.Publish(t, c, rehop.Message{ID: "before", Key: "q"})
			outcomes(1)
			if err := test.destroy(ch); err != nil {
				t.Fatal(err)
			}
			kit.Publish(t, c, kit.Numbered("q", messages)...)
			outcomes(messages)
			if permanent {
				kit.WantDepth(t, r, ch, "q.failed", messages)
			}
			kit.Drain(t, sub)
			kit.WantDepth(t, r, ch, "q", 0)
			first.WantSum(t, "first attempts", messages+1)
		})
	}
}

// Nothing about a step depends on who uses it, so a schedule may change at any time.
func TestScheduleChanges(t *testing.T) {
	t.Parallel()
	untilShown(t, 600*time.Millisecond, func(y time.Duration) bool { return scheduleChanges(t, y) })
}

// scheduleChanges reports whether the old code was gone while all messages still waited, for a time y.
func scheduleChanges(t *testing.T, y time.Duration) bool {
	const messages = 10
	r := lab.Single(t)
	ch := r.Channel()
	var a, b kit.Tally
	old := kit.OpenQuick(t, r, rehop.Config{})
	s := rehop.Subscriber{Queue: "q", Concurrency: 2}
	const x, z = 100 * time.Millisecond, 300 * time.Millisecond
	s.Retry = rehop.Steps(x, y)
	s.Handler = rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		a.Add(strconv.Itoa(d.Attempt))
		return errors.New("old code")
	})
	kit.Subscribe(t, old, s)
	kit.Publish(t, old, kit.Numbered("q", messages)...)
	lab.Eventually(t, kit.Limit, "all have failed twice", func() bool { return a.Of("2") == messages })
	if err := old.Close(kit.Context(t)); err != nil {
		t.Fatal(err)
	}
	if r.Depth(ch, layouts.StepQueue(y)) != messages {
		return false
	}

	next := kit.OpenQuick(t, r, rehop.Config{})
	s.Retry = rehop.Steps(y, z)
	s.Handler = rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		b.Add(strconv.Itoa(d.Attempt))
		if d.ID == "0" {
			return errors.New("still")
		}
		return nil
	})
	sub := kit.Subscribe(t, next, s) // a 406 would be an error here
	lab.Eventually(t, kit.Limit, "old messages are handled by the new code", func() bool { return b.Of("3") == messages })
	kit.WantDepth(t, r, ch, "q.failed", 1) // one had its third of three attempts
	kit.Drain(t, sub)
	// And back, with a shorter list and more attempts than it has.
	s.Retry = rehop.Steps(z)
	s.Handler = kit.Nop
	kit.Subscribe(t, next, s)
	b.WantSum(t, "calls of the new code", messages)
	return true
}

func TestClassicFabric(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	ch := r.Channel()
	c := kit.OpenQuick(t, r, rehop.Config{QueueType: layout.Classic})
	var attempts kit.Tally
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", QueueType: layout.Classic, Retry: rehop.Steps(100*time.Millisecond, 100*time.Millisecond),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			attempts.Add(strconv.Itoa(d.Attempt))
			if d.Attempt == 1 {
				return rehop.RetryAfter(330*time.Millisecond, errors.New("later"))
			}
			return errors.New("again")
		})})
	kit.Publish(t, c, kit.Numbered("q", 10)...)
	kit.WantDepth(t, r, ch, "q.failed", 10)
	attempts.WantAttempts(t, 10)
	if f := kit.Failure(kit.Take(t, ch, "q.failed")); f.Attempt != 3 || f.Kind != "error" {
		t.Errorf("failed: got attempt %d, kind %q; want 3, error", f.Attempt, f.Kind)
	}
}

// A queue that no longer has a maximum length: nothing of its former self sends its messages twice.
func TestQueueIsNoLongerBounded(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	ch := r.Channel()
	c := kit.OpenQuick(t, r, rehop.Config{})
	var runs kit.Tally
	s := rehop.Subscriber{Queue: "q", MaxLength: 100, Retry: rehop.Steps(100*time.Millisecond, 100*time.Millisecond),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			runs.Add(strconv.Itoa(d.Attempt))
			return errors.New("again")
		})}
	sub := kit.Subscribe(t, c, s)
	kit.Drain(t, sub)
	kit.DeleteQueue(t, ch, "q")
	s.MaxLength = 0
	kit.Subscribe(t, c, s)
	kit.Publish(t, c, kit.Numbered("q", 1)...)
	kit.WantDepth(t, r, ch, "q.failed", 1)
	runs.WantAttempts(t, 1)
}

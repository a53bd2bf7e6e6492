package subscribing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	cause := errors.New("the cause")
	const step, odd = 150 * time.Millisecond, 230 * time.Millisecond
	wrap := func(err error) error { return fmt.Errorf("while handling: %w", err) }
	for name, test := range map[string]struct {
		answer  error
		outcome rehop.Outcome
		kind    rehop.Kind
		delay   time.Duration
	}{
		"nil":                   {nil, rehop.OutcomeDone, "", 0},
		"error":                 {cause, rehop.OutcomeRetry, "error", step},
		"permanent":             {rehop.Permanent(cause), rehop.OutcomeFailed, "permanent", 0},
		"permanent wrapped":     {wrap(rehop.Permanent(cause)), rehop.OutcomeFailed, "permanent", 0},
		"permanent joined":      {errors.Join(errors.New("x"), rehop.Permanent(cause)), rehop.OutcomeFailed, "permanent", 0},
		"retry after":           {rehop.RetryAfter(odd, cause), rehop.OutcomeRetry, "error", odd},
		"retry after wrapped":   {wrap(wrap(rehop.RetryAfter(odd, cause))), rehop.OutcomeRetry, "error", odd},
		"retry after, as steps": {rehop.RetryAfter(step, cause), rehop.OutcomeRetry, "error", step},
		"discard":               {rehop.Discard(cause), rehop.OutcomeDiscarded, "", 0},
		"discard wrapped":       {wrap(rehop.Discard(cause)), rehop.OutcomeDiscarded, "", 0},
		"permanent nil":         {rehop.Permanent(nil), rehop.OutcomeFailed, "permanent", 0},
		"outermost wins":        {rehop.Permanent(rehop.Discard(cause)), rehop.OutcomeFailed, "permanent", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, ch, rec, c := kit.Setup(t)
			var first, second time.Time
			sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(step),
				Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					if d.Attempt == 1 {
						first = time.Now()
						return test.answer
					}
					second = time.Now()
					return nil
				})})
			kit.Publish(t, c, kit.Numbered("q", 1)...)
			got := kit.Receive(t, rec.Results, "result")
			if got.Outcome != test.outcome || got.Kind != test.kind || got.Delay != test.delay {
				t.Errorf("result: got %s, kind %q, delay %v; want %s, %q, %v", got.Outcome, got.Kind, got.Delay, test.outcome, test.kind, test.delay)
			}
			if !errors.Is(got.Err, test.answer) {
				t.Errorf("error: got %v, want %v", got.Err, test.answer)
			}
			failed := 0
			switch test.outcome {
			case rehop.OutcomeRetry:
				if got := kit.Receive(t, rec.Results, "second result"); got.Outcome != rehop.OutcomeDone || got.Delivery.Attempt != 2 {
					t.Errorf("second result: got %s, attempt %d; want done, 2", got.Outcome, got.Delivery.Attempt)
				}
				if waited := second.Sub(first); waited < test.delay-10*time.Millisecond {
					t.Errorf("waited %v, want from %v on", waited, test.delay)
				}
			case rehop.OutcomeFailed:
				failed = 1
			}
			kit.Drain(t, sub)
			wantGone(t, r, ch, "q")
			kit.WantDepth(t, r, ch, "q.failed", failed)
			if failed > 0 {
				f := kit.Failure(kit.Take(t, ch, "q.failed"))
				if f.Kind != string(test.kind) || f.Error != test.answer.Error() || f.Attempt != 1 || f.Queue != "q" {
					t.Errorf("failed: got kind %q, error %q, attempt %d, queue %q; want %q, %q, 1, q", f.Kind, f.Error, f.Attempt, f.Queue, test.kind, test.answer)
				}
			}
		})
	}
}

// RetryAfter is an attempt like others: after the last one the message has failed.
func TestRetryAfterEnds(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	ch := r.Channel()
	c := kit.OpenQuick(t, r, rehop.Config{})
	var attempts kit.Tally
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(100*time.Millisecond, 100*time.Millisecond),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			attempts.Add(fmt.Sprint(d.Attempt))
			if d.MaxAttempts != 3 {
				t.Errorf("attempts in all: got %d, want 3", d.MaxAttempts)
			}
			return rehop.RetryAfter(time.Millisecond, errors.New("never"))
		})})
	kit.Publish(t, c, kit.Numbered("q", 1)...)
	if f := kit.Failure(kit.Take(t, ch, "q.failed")); f.Attempt != 3 || f.Kind != "error" || f.Error != "never" {
		t.Errorf("failed: got attempt %d, kind %q, error %q; want 3, error, never", f.Attempt, f.Kind, f.Error)
	}
	attempts.WantAttempts(t, 1)
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	const messages, concurrency = 20, 4
	r, ch, rec, c := kit.Setup(t)
	var up atomic.Bool
	var inside, probing crowd
	var probes, probed, done kit.Tally
	down := errors.New("database is down")
	sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: concurrency, Retry: rehop.NoRetry(),
		ProbeMin: 20 * time.Millisecond, ProbeMax: 40 * time.Millisecond,
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			inside.enter()
			defer inside.leave()
			if d.Attempt != 1 {
				t.Errorf("attempt: got %d, want 1: a pause burns none", d.Attempt)
			}
			if up.Load() {
				done.Add(d.ID)
				return nil
			}
			probes.Add("all")
			if probes.Of("all") > concurrency { // all workers have learned of it
				probed.Add(d.ID)
				probing.enter()
				defer probing.leave()
			}
			return fmt.Errorf("save: %w", rehop.Unavailable(down))
		})})
	kit.Publish(t, c, kit.Numbered("q", messages)...)
	e := kit.Receive(t, rec.Pauses, "pause")
	if !e.Paused || e.Queue != "q" || !errors.Is(e.Err, down) {
		t.Errorf("event: got %+v, want paused, q, %v", e, down)
	}
	lab.Eventually(t, kit.Limit, "ten more probes", func() bool { return probes.Of("all") >= concurrency+10 })
	if got := probing.most(); got != 1 {
		t.Errorf("handlers at once during the pause: got %d, want 1", got)
	}
	if got := probed.Len(); got != 1 {
		t.Errorf("messages probed with: got %d, want 1", got)
	}
	select {
	case e := <-rec.Pauses:
		t.Errorf("event during the pause: got %+v, want none", e)
	case h := <-rec.Results:
		t.Errorf("result during the pause: got %s, want none", h.Outcome)
	default:
	}
	up.Store(true)
	if e := kit.Receive(t, rec.Pauses, "end of the pause"); e.Paused || e.Queue != "q" || e.Err != nil {
		t.Errorf("event: got %+v, want not paused, q, nil", e)
	}
	lab.Eventually(t, kit.Limit, "all handled", func() bool { return done.Len() == messages })
	kit.Drain(t, sub)
	done.WantSum(t, "messages done", messages)
	wantGone(t, r, ch, "q")
	kit.WantDepth(t, r, ch, "q.failed", 0)
}

// The probe may get any other answer: the pause is over then.
func TestUnavailableEndsWithAnyAnswer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{"error": errors.New("x"), "permanent": rehop.Permanent(errors.New("x")), "discard": rehop.Discard(errors.New("x"))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := lab.Single(t)
			rec := kit.NewRecorder()
			c := kit.OpenQuick(t, r, rehop.Config{Hooks: rec.Hooks()})
			var calls kit.Tally
			kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: 2, Retry: rehop.NoRetry(), ProbeMin: 10 * time.Millisecond,
				Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					if d.ID != "0" {
						return nil
					}
					if calls.Add("0") < 3 {
						return rehop.Unavailable(errors.New("down"))
					}
					return answer
				})})
			kit.Publish(t, c, kit.Numbered("q", 1)...)
			kit.Receive(t, rec.Pauses, "pause")
			kit.Publish(t, c, kit.Numbered("q", 5)[1:]...)
			if e := kit.Receive(t, rec.Pauses, "end of the pause"); e.Paused {
				t.Errorf("event: got %+v, want the end of the pause", e)
			}
			for range 5 {
				kit.Receive(t, rec.Results, "all have a result")
			}
		})
	}
}

func TestStopDuringPause(t *testing.T) {
	t.Parallel()
	const messages = 12
	r, ch, rec, c := kit.Setup(t)
	sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: 3, ProbeMin: time.Hour, ProbeMax: time.Hour,
		Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return rehop.Unavailable(errors.New("down")) })})
	kit.Publish(t, c, kit.Numbered("q", messages)...)
	kit.Receive(t, rec.Pauses, "pause")
	kit.Stop(t, sub) // long before the next probe
	kit.WantDepth(t, r, ch, "q", messages)
	var attempts kit.Tally
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		attempts.Add(fmt.Sprint(d.Attempt))
		return nil
	})})
	lab.Eventually(t, kit.Limit, "all handled by the next", func() bool { return attempts.Sum() == messages })
	if got := attempts.Of("1"); got != messages {
		t.Errorf("messages at attempt 1: got %d, want %d", got, messages)
	}
}

func TestTypedBodies(t *testing.T) {
	t.Parallel()
	type order struct {
		ID    int
		Items []string
	}
	_, ch, rec, c := kit.Setup(t)
	orders := make(chan order, 1)
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Hour),
		Handler: rehop.Event[order]{}.Handler(func(ctx context.Context, o order) error {
			if d := rehop.DeliveryFrom(ctx); d == nil || d.Queue != "q" {
				t.Errorf("DeliveryFrom: got %+v, want that of q", d)
			}
			orders <- o
			return nil
		})})
	kit.Publish(t, c, rehop.Message{Key: "q", Body: []byte(`{"ID": 7, "Items": ["a", "b"]}`)})
	if got := kit.Receive(t, orders, "good body"); got.ID != 7 || !slices.Equal(got.Items, []string{"a", "b"}) {
		t.Errorf("body: got %+v, want 7 and a, b", got)
	}
	kit.Receive(t, rec.Results, "result of the good one")
	for body, reason := range map[string]string{
		``:              "unexpected end of JSON input",
		`{"ID": `:       "unexpected end of JSON input",
		`{"ID": "x"}`:   "cannot unmarshal string",
		"\x00\xff\xfe":  "invalid character",
		`[1, 2]`:        "cannot unmarshal array",
		`{"ID": 1} {} `: "after top-level value",
	} {
		kit.Publish(t, c, rehop.Message{ID: "m", Key: "q", Body: []byte(body)})
		got := kit.Receive(t, rec.Results, "result of a bad body")
		if got.Outcome != rehop.OutcomeFailed || got.Kind != "decode" {
			t.Errorf("body %q: got %s, kind %s; want failed, decode", body, got.Outcome, got.Kind)
		}
		d := kit.Take(t, ch, "q.failed")
		f := kit.Failure(d)
		if f.Kind != "decode" || f.Attempt != 1 || !strings.Contains(f.Error, reason) || !strings.Contains(f.Error, "subscribing.order") {
			t.Errorf("body %q: got kind %q, attempt %d, error %q; want decode, 1, one with %q and the type", body, f.Kind, f.Attempt, f.Error, reason)
		}
		if string(d.Body) != body {
			t.Errorf("body in the failed queue: got %q, want %q", d.Body, body)
		}
	}
}

func TestEmptyBody(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := kit.OpenQuick(t, r, rehop.Config{})
	got := make(chan *rehop.Delivery, 2)
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(100 * time.Millisecond),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			got <- d
			if d.Attempt == 1 {
				return errors.New("again")
			}
			return nil
		})})
	kit.Publish(t, c, rehop.Message{Key: "q"})
	for attempt := 1; attempt <= 2; attempt++ {
		if d := kit.Receive(t, got, "delivery"); len(d.Body) != 0 || d.Attempt != attempt {
			t.Errorf("got body %q, attempt %d; want an empty one, %d", d.Body, d.Attempt, attempt)
		}
	}
}

func TestMiddlewareOrder(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := kit.OpenQuick(t, r, rehop.Config{})
	var mu sync.Mutex
	var order []string
	note := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, s)
	}
	wrap := func(name string) rehop.Middleware {
		return func(next rehop.Handler) rehop.Handler {
			return rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
				note(name + " in")
				err := next.Handle(ctx, d)
				note(name + " out: " + err.Error())
				return fmt.Errorf("%s(%w)", name, err)
			})
		}
	}
	ch := r.Channel()
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Middleware: []rehop.Middleware{wrap("a"), wrap("b")},
		Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
			note("handler")
			return rehop.Permanent(errors.New("x"))
		})})
	kit.Publish(t, c, kit.Numbered("q", 1)...)
	if f := kit.Failure(kit.Take(t, ch, "q.failed")); f.Error != "a(b(x))" || f.Kind != "permanent" {
		t.Errorf("failed: got %q, kind %q; want a(b(x)), permanent", f.Error, f.Kind)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"a in", "b in", "handler", "b out: x", "a out: b(x)"}; !slices.Equal(order, want) {
		t.Errorf("order: got %q, want %q", order, want)
	}
}

type key string

// starter records beginnings, and marks contexts and messages.
type starter struct {
	*kit.Recorder
	published chan error
	begun     chan string
}

func (s *starter) OnPublishStart(ctx context.Context, m *rehop.Message) context.Context {
	m.Headers = map[string]any{"trace": "t1"}
	return context.WithValue(ctx, key("publish"), m.ID)
}

func (s *starter) OnPublishEnd(ctx context.Context, m *rehop.Message, took time.Duration, err error) {
	if got := ctx.Value(key("publish")); got != m.ID {
		s.published <- fmt.Errorf("context's value: got %v, want %s", got, m.ID)
		return
	}
	if took <= 0 {
		s.published <- fmt.Errorf("took: got %v, want more", took)
		return
	}
	s.published <- err
}

func (s *starter) OnHandleStart(ctx context.Context, d *rehop.Delivery) context.Context {
	s.begun <- d.ID
	return context.WithValue(ctx, key("handle"), d.ID)
}

func TestHooks(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	hook := &starter{kit.NewRecorder(), make(chan error, 10), make(chan string, 10)}
	var w wire
	c := kit.OpenQuick(t, r, rehop.Config{Hooks: append(hook.Hooks(), rehop.Hooks{OnPublishStart: hook.OnPublishStart, OnPublishEnd: hook.OnPublishEnd, OnHandleStart: hook.OnHandleStart}), Dial: w.Dial})
	boom := errors.New("boom")
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Exchange: "x", Retry: rehop.Steps(100 * time.Millisecond),
		Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			if got := ctx.Value(key("handle")); got != d.ID {
				t.Errorf("handler's context: got %v, want %s", got, d.ID)
			}
			if got := d.Headers["trace"]; got != "t1" {
				t.Errorf("header added by the hook: got %v, want t1", got)
			}
			if d.Attempt == 1 {
				return boom
			}
			return nil
		})})
	if e := kit.Receive(t, hook.Consumers, "consumer up"); !e.Up || e.Queue != "q" || e.Err != nil {
		t.Errorf("consumer event: got %+v, want up", e)
	}
	sent := time.Now()
	kit.Publish(t, c, rehop.Message{ID: "m", Exchange: "x", Key: "k"})
	if err := kit.Receive(t, hook.published, "publish hook"); err != nil {
		t.Errorf("publish hook: %v", err)
	}
	for attempt := 1; attempt <= 2; attempt++ {
		if got := kit.Receive(t, hook.begun, "handle start"); got != "m" {
			t.Errorf("start hook: got %q, want m", got)
		}
		got := kit.Receive(t, hook.Results, "result")
		want := map[int]rehop.Result{1: {Outcome: rehop.OutcomeRetry, Err: boom, Kind: "error", Delay: 100 * time.Millisecond}, 2: {Outcome: rehop.OutcomeDone}}[attempt]
		if got.Outcome != want.Outcome || got.Err != want.Err || got.Kind != want.Kind || got.Delay != want.Delay {
			t.Errorf("result %d: got %+v, want %+v", attempt, got.Result, want)
		}
		if since := time.Since(sent); got.Took <= 0 || got.Took > since {
			t.Errorf("result %d: took %v, want more than 0 and less than the %v since it was published", attempt, got.Took, since)
		}
		if v := got.Ctx.Value(key("handle")); v != "m" {
			t.Errorf("result %d: context's value: got %v, want m", attempt, v)
		}
		if got.Delivery.ID != "m" || got.Delivery.Exchange != "x" || got.Delivery.Key != "k" || got.Delivery.Queue != "q" || got.Delivery.Attempt != attempt {
			t.Errorf("result %d: got delivery %+v, want m of x with k in q, attempt %d", attempt, got.Delivery, attempt)
		}
	}
	w.cut()
	seen := make(map[string]bool)
	for len(seen) < 4 {
		s := kit.Receive(t, hook.States, "both connections lost and back")
		if s.State == rehop.StateRecovering && s.Err == nil {
			t.Errorf("state: got %+v, want a reason", s)
		}
		seen[s.Connection+" "+string(s.State)] = true
	}
	for _, want := range []string{"publish RECOVERING", "publish OPEN", "consume RECOVERING", "consume OPEN"} {
		if !seen[want] {
			t.Errorf("states: got %v, want %s among them", seen, want)
		}
	}
	if err := c.Close(kit.Context(t)); err != nil {
		t.Errorf("close: %v", err)
	}
	for len(seen) < 6 {
		s := kit.Receive(t, hook.States, "both connections closed")
		seen[s.Connection+" "+string(s.State)] = true
	}
	if err := c.Publish(kit.Context(t), rehop.Message{Key: "q"}); err == nil {
		t.Error("publish after close: got nil")
	}
	if err := kit.Receive(t, hook.published, "publish hook"); !errors.Is(err, rehop.ErrClosed) {
		t.Errorf("publish hook after close: got %v, want %v", err, rehop.ErrClosed)
	}
}

// Values of the context given to Subscribe reach the handler, its end does not.
func TestSubscribeContext(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := kit.OpenQuick(t, r, rehop.Config{})
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key("tenant"), "acme"))
	got := make(chan any, 2)
	_, err := c.Subscribe(ctx, rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
		got <- ctx.Value(key("tenant"))
		got <- ctx.Err()
		return nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	kit.Publish(t, c, kit.Numbered("q", 1)...)
	if v := kit.Receive(t, got, "handled"); v != "acme" {
		t.Errorf("value: got %v, want acme", v)
	}
	if v := kit.Receive(t, got, "handled"); v != nil {
		t.Errorf("ctx.Err(): got %v, want nil", v)
	}
}

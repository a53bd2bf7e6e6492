package subscribing

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

func TestPanicsAreFailures(t *testing.T) {
	t.Parallel()
	var none map[string]int
	for name, test := range map[string]struct {
		fall func()
		text string
	}{
		"error":         {func() { panic(errors.New("broken pipe")) }, "broken pipe"},
		"nil":           {func() { panic(nil) }, "nil"},
		"string":        {func() { panic("at the disco") }, "at the disco"},
		"runtime error": {func() { none["x"] = 1 }, "assignment to entry in nil map"},
		"Goexit":        {func() { runtime.Goexit() }, "Goexit"},
		"permanent":     {func() { panic(rehop.Discard(errors.New("not an answer"))) }, "not an answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const concurrency, messages = 2, 7 // more of them than slots
			_, ch, rec, c := kit.Setup(t)
			kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: concurrency, Retry: rehop.NoRetry(),
				Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					if d.Type == "poison" {
						test.fall()
					}
					return nil
				})})
			batch := kit.Numbered("q", messages)
			for i := range batch {
				batch[i].Type = "poison"
			}
			kit.Publish(t, c, batch...)
			for range messages {
				got := kit.Receive(t, rec.Results, "result")
				if got.Outcome != rehop.OutcomeFailed || got.Kind != "panic" {
					t.Errorf("result: got %s, kind %s; want failed, panic", got.Outcome, got.Kind)
				}
				if got.Err == nil || !strings.Contains(got.Err.Error(), test.text) {
					t.Errorf("error: got %v, want it to contain %q", got.Err, test.text)
				}
			}
			for range messages {
				f := kit.Failure(kit.Take(t, ch, "q.failed"))
				if f.Kind != "panic" || f.Attempt != 1 || !strings.Contains(f.Error, test.text) {
					t.Errorf("failed message: got kind %q, attempt %d, error %q; want panic, 1, …%s…", f.Kind, f.Attempt, f.Error, test.text)
				}
				if name != "Goexit" && !strings.Contains(f.Stack, "panic_test.go") {
					t.Errorf("stack: got %q, want it to show where it happened", f.Stack)
				}
			}
			// All slots work as before.
			kit.Publish(t, c, kit.Numbered("q", 3*concurrency)...)
			for range 3 * concurrency {
				if got := kit.Receive(t, rec.Results, "result of a good message"); got.Outcome != rehop.OutcomeDone {
					t.Errorf("result of a good message: got %s (%v), want done", got.Outcome, got.Err)
				}
			}
		})
	}
}

// What a handler has started with its context must learn that the handler is gone.
func TestContextEndsWithTheHandler(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func() error{
		"return": func() error { return nil },
		"panic":  func() error { panic("x") },
		"Goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := lab.Single(t)
			c := kit.OpenQuick(t, r, rehop.Config{})
			derived := make(chan context.Context, 1)
			kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Retry: rehop.NoRetry(),
				Handler: rehop.HandlerFunc(func(ctx context.Context, _ *rehop.Delivery) error {
					ctx, cancel := context.WithCancel(ctx)
					_ = cancel
					derived <- ctx
					return leave()
				})})
			kit.Publish(t, c, kit.Numbered("q", 1)...)
			ctx := kit.Receive(t, derived, "handler called")
			kit.Receive(t, ctx.Done(), "the derived context ends")
			if got := ctx.Err(); !errors.Is(got, context.Canceled) {
				t.Errorf("ctx.Err(): got %v, want %v", got, context.Canceled)
			}
		})
	}
}

func TestStuckHandlerIsReplaced(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func() error{
		"late nil":    func() error { return nil },
		"late error":  func() error { return errors.New("too late") },
		"late panic":  func() error { panic("too late") },
		"late Goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, ch, rec, c := kit.Setup(t)
			release := make(chan struct{})
			var calls kit.Tally
			var inside crowd
			sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: 1,
				Timeout: 100 * time.Millisecond, StuckAfter: 100 * time.Millisecond, Retry: rehop.Steps(100 * time.Millisecond),
				Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					calls.Add(d.ID)
					inside.enter()
					defer inside.leave()
					if d.ID == "0" && d.Attempt == 1 {
						<-release
						return leave()
					}
					return nil
				})})
			kit.Publish(t, c, kit.Numbered("q", 1)...)

			s := kit.Receive(t, rec.Stuck, "report")
			if s.Queue != "q" || s.MessageID != "0" || !s.Replaced || s.Returned || s.For < 200*time.Millisecond {
				t.Errorf("report: got %+v, want q, 0, replaced, after 200ms", s)
			}
			got := kit.Receive(t, rec.Results, "result of the stuck attempt")
			if got.Outcome != rehop.OutcomeRetry || got.Kind != "timeout" {
				t.Errorf("result: got %s, kind %s; want retry, timeout", got.Outcome, got.Kind)
			}
			got = kit.Receive(t, rec.Results, "result of the second attempt")
			if got.Outcome != rehop.OutcomeDone || got.Delivery.Attempt != 2 {
				t.Errorf("result: got %s, attempt %d; want done, 2", got.Outcome, got.Delivery.Attempt)
			}
			close(release)
			for s.Returned = false; !s.Returned; { // on a slow machine others are reported, too
				s = kit.Receive(t, rec.Stuck, "report of the late return")
			}
			if s.MessageID != "0" {
				t.Errorf("second report: got %+v, want that of message 0", s)
			}
			// The late answer changes nothing, and there is still one slot.
			more := kit.Numbered("q", 6)[1:]
			kit.Publish(t, c, more...)
			for range more {
				if got := kit.Receive(t, rec.Results, "result of a later message"); got.Outcome != rehop.OutcomeDone || got.Delivery.ID == "0" {
					t.Errorf("result of a later message: got %s of %s (%v), want done of another", got.Outcome, got.Delivery.ID, got.Err)
				}
			}
			kit.Drain(t, sub)
			if got := calls.Of("0"); got != 2 {
				t.Errorf("calls for the stuck message: got %d, want 2", got)
			}
			if got := inside.most(); got > 2 {
				t.Errorf("handlers at once: got %d, want at most the slot and the stuck one", got)
			}
			wantGone(t, r, ch, "q")
			kit.WantDepth(t, r, ch, "q.failed", 0)
		})
	}
}

// Handlers that never return must not pile up without bound.
func TestStuckHandlersAreBounded(t *testing.T) {
	t.Parallel()
	const concurrency, messages = 2, 8
	r, ch, rec, c := kit.Setup(t)
	release := make(chan struct{})
	var inside crowd
	var runs kit.Tally
	sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: concurrency,
		Timeout: 50 * time.Millisecond, StuckAfter: 50 * time.Millisecond, Retry: rehop.NoRetry(),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			runs.Add(d.ID)
			inside.enter()
			defer inside.leave()
			<-release
			return nil
		})})
	kit.Publish(t, c, kit.Numbered("q", messages)...)
	const limit = 2 * concurrency
	lab.Eventually(t, kit.Limit, "as many handlers as there may be", func() bool { return inside.most() >= limit })
	for occupied := 0; occupied < 3*concurrency; { // each is reported again and again
		if s := kit.Receive(t, rec.Stuck, "report of a slot that stays occupied"); !s.Replaced {
			occupied++
		}
	}
	if got := inside.most(); got != limit {
		t.Errorf("handlers at once: got %d, want %d", got, limit)
	}
	close(release)
	// Those that were replaced have failed with a timeout; all others are done in the end.
	kit.WantDepth(t, r, ch, "q.failed", concurrency)
	lab.Eventually(t, kit.Limit, "all have run", func() bool { return runs.Sum() == messages })
	kit.Drain(t, sub)
	wantGone(t, r, ch, "q")
	lab.Eventually(t, kit.Limit, "no handler runs any more", func() bool { return inside.inside() == 0 })
}

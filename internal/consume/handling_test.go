package consume

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

type testKey string

// seen is what the handler of a test sees of a delivery.
type seen struct{ id string }

// views makes such a view for each Handling.
type views struct{}

func (views) New() *Handling                          { return &Handling{View: new(seen)} }
func (views) Open(h *Handling, in Incoming)           { h.View.(*seen).id = in.Raw.MessageId }
func (views) Handle(context.Context, *Handling) error { return nil }
func (views) HandleAll(context.Context, []*Handling) []error {
	return nil
}

// viewFrom is the view in a handler's context, nil outside of a handler.
func viewFrom(ctx context.Context) *seen {
	v, _ := ctx.Value(ViewKey{}).(*seen)
	return v
}

func newHandling() *Handling {
	h := views{}.New()
	h.base, h.past = context.WithValue(context.Background(), testKey("k"), "v"), &unwritten
	h.begin(time.Minute, time.Hour)
	return h
}

// There is one for every message. What only some subscriptions use is behind a pointer.
func TestHandlingIsSmall(t *testing.T) {
	t.Parallel()
	if got := unsafe.Sizeof(Handling{}); got > 640 {
		t.Errorf("a Handling has %d bytes, want at most 640", got)
	}
}

// ended reports whether a context's channel is closed.
func ended(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

func TestHandlingIsAContext(t *testing.T) {
	t.Parallel()
	h := newHandling()
	ctx := context.Context(h)
	if got := ctx.Err(); got != nil || ended(ctx) {
		t.Errorf("at first: got %v, ended %v; want neither", got, ended(ctx))
	}
	if got, ok := ctx.Deadline(); !ok || !got.Equal(h.deadline) {
		t.Errorf("deadline: got %v, %v; want %v", got, ok, h.deadline)
	}
	if got := ctx.Value(testKey("k")); got != "v" {
		t.Errorf("value of the parent: got %v, want v", got)
	}
	if got := viewFrom(ctx); any(got) != h.View {
		t.Errorf("delivery: got %p, want %p", got, h.View)
	}
	if got := viewFrom(context.WithValue(ctx, testKey("x"), 1)); any(got) != h.View {
		t.Errorf("delivery from a derived context: got %p, want %p", got, h.View)
	}
	if got := viewFrom(context.Background()); got != nil {
		t.Errorf("delivery outside of a handler: got %v, want nil", got)
	}
	if a, b := ctx.Done(), ctx.Done(); a != b {
		t.Error("Done: got two channels, want one")
	}
}

func TestHandlingCancel(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err, cause error
		early      bool // somebody asked for the channel before
	}{
		"timeout":              {context.DeadlineExceeded, ErrTimeout, true},
		"timeout, nobody asks": {context.DeadlineExceeded, ErrTimeout, false},
		"stop":                 {context.Canceled, ErrStopping, true},
		"end":                  {context.Canceled, nil, false},
	} {
		h := newHandling()
		if test.early {
			h.Done()
		}
		h.cancel(test.err, test.cause)
		h.cancel(errors.New("second"), errors.New("second")) // only the first counts
		if got := h.Err(); got != test.err || !ended(h) {
			t.Errorf("%s: got %v, ended %v; want %v, true", name, got, ended(h), test.err)
		}
		if got := h.why(); got != test.cause {
			t.Errorf("%s: got cause %v, want %v", name, got, test.cause)
		}
		if got := context.Cause(h); got != test.err {
			t.Errorf("%s: got context.Cause %v, want %v", name, got, test.err)
		}
	}
}

func TestContextsDerivedFromHandling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHandling()
		child, cancel := context.WithCancel(h)
		defer cancel()
		cause, cancelCause := context.WithCancelCause(h)
		defer cancelCause(nil)
		short, cancelShort := context.WithTimeout(h, time.Second)
		defer cancelShort()
		long, cancelLong := context.WithTimeout(h, time.Hour)
		defer cancelLong()
		grandchild, cancelGrand := context.WithCancel(context.WithValue(child, testKey("x"), 1))
		defer cancelGrand()
		free := context.WithoutCancel(h)

		if d, _ := long.Deadline(); !d.Equal(h.deadline) {
			t.Errorf("deadline of a longer child: got %v, want its parent's %v", d, h.deadline)
		}
		time.Sleep(2 * time.Second) // virtual
		synctest.Wait()
		if !ended(short) || short.Err() != context.DeadlineExceeded {
			t.Errorf("shorter child: got %v, want its own deadline", short.Err())
		}
		if ended(child) || ended(long) || ended(h) {
			t.Error("others ended with the shorter child")
		}
		cancelCause(errors.New("my own"))
		h.cancel(context.DeadlineExceeded, ErrTimeout)
		synctest.Wait()
		for name, ctx := range map[string]context.Context{"child": child, "longer child": long, "grandchild": grandchild} {
			if !ended(ctx) || ctx.Err() != context.DeadlineExceeded {
				t.Errorf("%s: got %v, ended %v; want %v", name, ctx.Err(), ended(ctx), context.DeadlineExceeded)
			}
			if got := context.Cause(ctx); got != context.DeadlineExceeded {
				t.Errorf("%s: got cause %v, want %v", name, got, context.DeadlineExceeded)
			}
		}
		if got := context.Cause(cause); got == nil || got.Error() != "my own" {
			t.Errorf("child canceled before: got cause %v, want its own", got)
		}
		if free.Err() != nil {
			t.Errorf("context.WithoutCancel: got %v, want nil", free.Err())
		}
		late, cancelLate := context.WithCancel(h)
		defer cancelLate()
		if !ended(late) {
			t.Error("child made after the end: got it open, want it ended")
		}
	})
}

// The timer of package context must not outlive its child, nor a child be kept by its parent.
func TestCanceledChildrenAreForgotten(t *testing.T) {
	t.Parallel()
	h := newHandling()
	for range 100 {
		_, cancel := context.WithCancel(h)
		cancel()
	}
	if got := len(h.after); got != 0 {
		t.Errorf("children kept: got %d, want 0", got)
	}
}

func TestHandlingAfterFunc(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHandling()
		var ran, never atomic.Int32
		stop := context.AfterFunc(h, func() { ran.Add(1) })
		stopNever := context.AfterFunc(h, func() { never.Add(1) })
		own := h.AfterFunc(func() { ran.Add(1) })
		if !stopNever() {
			t.Error("stop before the end: got false, want true")
		}
		if stopNever() {
			t.Error("stop a second time: got true, want false")
		}
		h.cancel(context.Canceled, nil)
		synctest.Wait()
		if got := ran.Load(); got != 2 {
			t.Errorf("functions run: got %d, want 2", got)
		}
		if got := never.Load(); got != 0 {
			t.Errorf("stopped function: got %d runs, want 0", got)
		}
		if stop() || own() {
			t.Error("stop after the end: got true, want false")
		}
		context.AfterFunc(h, func() { ran.Add(1) })
		if h.AfterFunc(func() { ran.Add(1) })() {
			t.Error("stop of a function added after the end: got true, want false")
		}
		synctest.Wait()
		if got := ran.Load(); got != 4 {
			t.Errorf("functions run, with those added after the end: got %d, want 4", got)
		}
	})
}

// A function may use its context, or stop another function, while the context ends.
func TestHandlingAfterFuncMayCallBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHandling()
		done := make(chan error, 1)
		other := h.AfterFunc(func() {})
		h.AfterFunc(func() {
			other()
			h.AfterFunc(func() { done <- h.Err() })
		})
		h.cancel(context.Canceled, ErrStopping)
		if got := <-done; got != context.Canceled {
			t.Errorf("got %v, want %v", got, context.Canceled)
		}
	})
}

func TestFinishAndAbandon(t *testing.T) {
	t.Parallel()
	h := newHandling()
	if !h.finish() {
		t.Error("finish: got false, want true")
	}
	if h.abandon() {
		t.Error("abandon after finish: got true, want false")
	}
	h = newHandling()
	if !h.abandon() {
		t.Error("abandon: got false, want true")
	}
	if h.abandon() {
		t.Error("abandon a second time: got true, want false")
	}
	if h.finish() {
		t.Error("finish after abandon: got true, want false")
	}
	// Exactly one of both, whoever comes first.
	for range 1000 {
		h := newHandling()
		results := make(chan bool, 2)
		go func() { results <- h.finish() }()
		go func() { results <- h.abandon() }()
		if a, b := <-results, <-results; a == b {
			t.Fatalf("finish and abandon at once: got %v and %v, want one of them", a, b)
		}
	}
}

func TestAgainIsFresh(t *testing.T) {
	t.Parallel()
	h := newHandling()
	h.raw.MessageId, h.past = "m", &unwritten
	h.View.(*seen).id = "changed by the handler"
	h.cancel(context.Canceled, nil)
	h.finish()
	s := &Subscription{settings: Settings{Handler: views{}}}
	again := s.again(h)
	if again.Err() != nil || ended(again) || !again.finish() {
		t.Errorf("second run: got %v, want a fresh context", again.Err())
	}
	if again.View.(*seen).id != "m" || again.View == h.View || again.Value(testKey("k")) != "v" {
		t.Errorf("second run: got %+v, want the message as it came", again.View)
	}
}

// BenchmarkHandlerContext compares the context of a handler with those of package context that do
// the same.
func BenchmarkHandlerContext(b *testing.B) {
	base := context.WithoutCancel(b.Context())
	b.Run("handling", func(b *testing.B) {
		s := &Subscription{settings: Settings{Timeout: time.Minute, StuckAfter: time.Minute}}
		s.watch = &watch{sub: s, epoch: time.Now()}
		defer s.watch.end()
		b.ReportAllocs()
		for b.Loop() {
			h := &Handling{base: base}
			h.begin(time.Minute, time.Minute)
			s.watch.begin(h.deadline)
			h.end()
		}
	})
	b.Run("package context", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h := &Handling{base: base}
			ctx, cancel := context.WithCancelCause(context.WithValue(base, ViewKey{}, h))
			_, release := context.WithTimeoutCause(ctx, time.Minute, ErrTimeout)
			stuck := time.AfterFunc(2*time.Minute, func() {})
			stuck.Stop()
			cancel(nil)
			release()
		}
	})
}

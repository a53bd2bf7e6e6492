package rehop

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

type testKey string

func newHandling() *handling {
	h := &handling{base: context.WithValue(context.Background(), testKey("k"), "v"), Delivery: Delivery{Queue: "q"}}
	h.begin(time.Minute)
	h.stuck = time.AfterFunc(time.Hour, func() {})
	return h
}

func TestHandlingContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			end        func(*handling)
			err, cause error // of the context
			why        error
		}{
			"runs":    {func(*handling) {}, nil, nil, nil},
			"timeout": {func(*handling) { time.Sleep(time.Minute); synctest.Wait() }, context.DeadlineExceeded, errTimeout, errTimeout},
			"stop":    {func(h *handling) { h.cancel(errStopping) }, context.Canceled, errStopping, errStopping},
			"end":     {(*handling).end, context.Canceled, context.Canceled, nil},
			"end after the timeout": {func(h *handling) { time.Sleep(time.Minute); synctest.Wait(); h.end() },
				context.DeadlineExceeded, errTimeout, errTimeout},
		} {
			h := newHandling()
			test.end(h)
			if got := h.ctx.Err(); got != test.err {
				t.Errorf("%s: got error %v, want %v", name, got, test.err)
			}
			if got := context.Cause(h.ctx); got != test.cause {
				t.Errorf("%s: got cause %v, want %v", name, got, test.cause)
			}
			if got := h.why(); got != test.why {
				t.Errorf("%s: got %v for the reason, want %v", name, got, test.why)
			}
			if h.ctx.Value(testKey("k")) != "v" || DeliveryFrom(h.ctx) != &h.Delivery {
				t.Errorf("%s: the context does not have the subscription's values and the delivery", name)
			}
			h.end()
		}
	})
	if got := DeliveryFrom(context.Background()); got != nil {
		t.Errorf("delivery outside of a handler: got %v, want nil", got)
	}
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
	h.Delivery.ID = "m"
	h.end()
	h.finish()
	again := h.again()
	if again.ctx != nil || again.why() != nil || !again.finish() {
		t.Errorf("second run: got context %v, want none yet", again.ctx)
	}
	if again.Delivery.ID != "m" || again.base.Value(testKey("k")) != "v" {
		t.Errorf("second run: got %+v, want the same delivery", again.Delivery)
	}
}

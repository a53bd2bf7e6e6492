package rehop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/consume"
)

// An entry of a BatchError concerns that message only, and nothing that is returned
// together with one is lost.
func TestBatchAnswers(t *testing.T) {
	t.Parallel()
	other := errors.New("commit: connection lost")
	each := &BatchError{Errors: []error{nil, Discard(errors.New("old")), Unavailable(errors.New("down"))}}
	for name, test := range map[string]struct {
		err  error
		want []consume.Verb // nil: all are done
		text string         // that all errors have
		is   error
	}{
		"nil":                {nil, nil, "", nil},
		"an error":           {other, []consume.Verb{consume.Retry, consume.Retry, consume.Retry}, "connection lost", other},
		"an instruction":     {Permanent(other), []consume.Verb{consume.Fail, consume.Fail, consume.Fail}, "connection lost", other},
		"joined":             {errors.Join(each, other), []consume.Verb{consume.Retry, consume.Retry, consume.Retry}, "connection lost", other},
		"joined, other side": {errors.Join(other, each), []consume.Verb{consume.Retry, consume.Retry, consume.Retry}, "connection lost", other},
		"with an instruction": {errors.Join(each, RetryAfter(time.Minute, other)),
			[]consume.Verb{consume.RetryAfter, consume.RetryAfter, consume.RetryAfter}, "connection lost", other},
		"in an instruction":   {Permanent(each), []consume.Verb{consume.Fail, consume.Fail, consume.Fail}, "2 of 3", nil},
		"formatted":           {fmt.Errorf("%w: %w", other, each), []consume.Verb{consume.Retry, consume.Retry, consume.Retry}, "connection lost", other},
		"with another's text": {fmt.Errorf("%v: %w", other, each), []consume.Verb{consume.Retry, consume.Retry, consume.Retry}, "connection lost", nil},
		"too short":           {&BatchError{Errors: []error{nil, Discard(other)}}, []consume.Verb{consume.Retry, consume.Retry, consume.Retry}, "batch of 3 messages returned a BatchError with 2 errors", nil},
		"too long":            {&BatchError{Errors: make([]error, 4)}, []consume.Verb{consume.Retry, consume.Retry, consume.Retry}, "batch of 3 messages returned a BatchError with 4 errors", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := batchAnswers(test.err, 3, false)
			if len(got) != 3 {
				t.Fatalf("answers: got %d, want 3", len(got))
			}
			for i, err := range got {
				answer := consume.AnswerOf(err)
				if answer.OK != (test.want == nil) {
					t.Fatalf("message %d: got %v, want success: %v", i, err, test.want == nil)
				}
				if test.want == nil {
					continue
				}
				if answer.Does != test.want[i] || !strings.Contains(err.Error(), test.text) || test.is != nil && !errors.Is(err, test.is) {
					t.Errorf("message %d: got %v (does %d), want one with %q that does %d", i, err, answer.Does, test.text, test.want[i])
				}
			}
		})
	}
	for i, err := range batchAnswers(each, 3, false) {
		if err != each.Errors[i] {
			t.Errorf("message %d of a BatchError: got %v, want %v", i, err, each.Errors[i])
		}
	}
}

// The function of a typed batch gets what can be decoded, and its answers reach the right messages.
func TestEventBatchHandler(t *testing.T) {
	t.Parallel()
	event := Event[int]{}
	message := func(body string) *Delivery { return &Delivery{Message: Message{ID: body, Body: []byte(body)}} }
	failure := errors.New("not a good number")
	calls := 0
	handle := event.BatchHandler(func(_ context.Context, values []int, all []*Delivery) error {
		calls++
		answers := make([]error, len(values))
		for i, v := range values {
			if fmt.Sprint(v) != all[i].ID {
				t.Errorf("value %d: got it with message %q", v, all[i].ID)
			}
			if v == 13 {
				answers[i] = failure
			}
		}
		return &BatchError{Errors: answers}
	})
	got := batchAnswers(handle(t.Context(), []*Delivery{message("1"), message("one"), message("13"), message("2")}), 4, false)
	if got[0] != nil || got[2] != failure || got[3] != nil {
		t.Errorf("answers: got %v, want one failure, of the third", got)
	}
	if answer := consume.AnswerOf(got[1]); answer.Does != consume.Fail || answer.Kind != string(KindDecode) {
		t.Errorf("answer for what cannot be decoded: got %+v, want a failure of kind decode", answer)
	}
	got = batchAnswers(handle(t.Context(), []*Delivery{message("one")}), 1, false)
	if calls != 1 || consume.AnswerOf(got[0]).Kind != string(KindDecode) {
		t.Errorf("nothing to decode: got %d further calls and %v, want none and kind decode", calls-1, got)
	}
}

// An error is never attributed to another message because the handler has sorted its messages.
func TestReorderedBatch(t *testing.T) {
	t.Parallel()
	all := []*Delivery{{Message: Message{ID: "b"}}, {Message: Message{ID: "a"}}}
	for name, test := range map[string]struct {
		err  error
		want string // "": success
	}{
		"nil": {nil, ""}, "an error": {errors.New("down"), "down"},
		"a BatchError": {&BatchError{Errors: []error{nil, Discard(errors.New("old"))}}, "order of the messages"},
	} {
		for i, err := range (Batch{Handle: func(_ context.Context, all []*Delivery) error {
			slices.Reverse(all)
			return test.err
		}}).handle(t.Context(), all) {
			switch {
			case test.want == "" && err != nil:
				t.Errorf("%s: message %d: got %v, want success", name, i, err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || consume.AnswerOf(err).Does != consume.Retry):
				t.Errorf("%s: message %d: got %v, want a failure with %q", name, i, err, test.want)
			}
		}
	}
}

// By default the broker sends the next batches ahead, but with a rate no more than are handled in a second.
func TestBatchPrefetch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size, concurrency int
		rate              float64
		want              int
	}{
		{1, 1, 0, 4}, {100, 1, 0, 200}, {100, 3, 0, 600}, {65535, 10, 0, 65535}, {1 << 62, 1 << 62, 0, 65535},
		{100, 1, .01, 100}, {100, 3, 1, 300}, {100, 3, 4.5, 450}, {100, 3, 100, 600}, {65535, 10, 1, 65535}, {1, 1, 2, 2},
	} {
		if got := (Batch{Size: c.size}).prefetch(c.concurrency, c.rate); got != c.want {
			t.Errorf("batches of %d, %d at once, %v per second: got %d, want %d", c.size, c.concurrency, c.rate, got, c.want)
		}
	}
}

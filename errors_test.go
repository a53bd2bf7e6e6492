package rehop

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/consume"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
)

func TestInstructionsSurviveWrapping(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for name, test := range map[string]struct {
		err  error
		does consume.Verb
		wait time.Duration
		kind string
	}{
		"plain":       {cause, consume.Retry, 0, envelope.KindError},
		"permanent":   {Permanent(cause), consume.Fail, 0, envelope.KindPermanent},
		"retry after": {RetryAfter(time.Minute, cause), consume.RetryAfter, time.Minute, envelope.KindError},
		"discard":     {Discard(cause), consume.Discard, 0, envelope.KindError},
		"unavailable": {Unavailable(cause), consume.Pause, 0, envelope.KindError},
		"decode":      {&consume.DecodeError{Err: cause}, consume.Fail, 0, envelope.KindDecode},
		"panic":       {&consume.PanicError{Text: "x"}, consume.Retry, 0, envelope.KindPanic},
	} {
		for how, err := range map[string]error{
			"itself": test.err, "wrapped": fmt.Errorf("a: %w", test.err), "wrapped twice": fmt.Errorf("b: %w", fmt.Errorf("a: %w", test.err)),
			"joined": errors.Join(errors.New("other"), test.err), "among several": fmt.Errorf("%w and %w", errors.New("other"), test.err),
		} {
			got, want := consume.AnswerOf(err), consume.Answer{Does: test.does, Wait: test.wait, Kind: test.kind}
			if got != want {
				t.Errorf("%s, %s: got %+v, want %+v", name, how, got, want)
			}
			if name != "panic" && !errors.Is(err, cause) {
				t.Errorf("%s, %s: got an error that hides its cause", name, how)
			}
		}
	}
	// Formatted without %w, an instruction is text like any other.
	if got := consume.AnswerOf(fmt.Errorf("a: %v", Discard(cause))); got.Does != consume.Retry {
		t.Errorf("not wrapped: got %v, want a retry", got.Does)
	}
}

func TestInstructionTexts(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"cause": Permanent(errors.New("cause")), "permanent failure": Permanent(nil), "retry later": RetryAfter(1, nil), "discarded": Discard(nil), "unavailable": Unavailable(nil),
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestKindOfTimeout(t *testing.T) {
	t.Parallel()
	schedule := consume.Schedule{After: func(int) (time.Duration, bool) { return 0, false }}
	for want, err := range map[string]error{envelope.KindTimeout: errors.New("whatever"), envelope.KindPermanent: Permanent(errors.New("no")), envelope.KindPanic: &consume.PanicError{}} {
		got := consume.Decide(consume.State{TimedOut: true}, consume.AnswerOf(err), schedule)
		if got.Kind != want || got.Do != consume.MoveToFail {
			t.Errorf("%v after the timeout: got %+v, want a failure of kind %s", err, got, want)
		}
	}
}

func TestTopologyError(t *testing.T) {
	t.Parallel()
	inner := &rabbit.DeclareError{Object: "queue", Name: "q", Code: 406, Argument: "x-max-length", Want: "'1'", Have: "'2'", Hint: "do this"}
	err := publicError(fmt.Errorf("open: %w", inner))
	var got *TopologyError
	if !errors.As(err, &got) {
		t.Fatalf("got %T, want a *TopologyError", err)
	}
	if got.Object != "queue" || got.Name != "q" || got.Code != 406 || got.Argument != "x-max-length" || got.Want != "'1'" || got.Have != "'2'" {
		t.Errorf("got %+v, want what the broker said", got)
	}
	for _, want := range []string{"q", "x-max-length", "406", "do this"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("text: got %q, want it to say %q", err, want)
		}
	}
	var cause *rabbit.DeclareError
	if !errors.As(err, &cause) || cause != inner || err.Error() != "open: "+inner.Error() {
		t.Errorf("cause: got %v of %q, want what was wrapped, its text unchanged", cause, err)
	}
	if again := publicError(err); again != err {
		t.Errorf("made public twice: got %#v, want it unchanged", again)
	}
	if other := errors.New("other"); publicError(other) != other {
		t.Error("another error: got it changed, want it as it is")
	}
	if publicError(nil) != nil {
		t.Error("nil: got an error")
	}
}

func TestBatchError(t *testing.T) {
	t.Parallel()
	err := error(&BatchError{Errors: []error{nil, fmt.Errorf("a: %w", ErrRefused), nil, fmt.Errorf("b: %w", ErrUnroutable)}})
	if !errors.Is(err, ErrRefused) || !errors.Is(err, ErrUnroutable) || errors.Is(err, ErrClosed) {
		t.Errorf("got %v; want it to be refused and unroutable, and not closed", err)
	}
	if got, want := err.Error(), "2 of 4 messages failed, first: a: "+ErrRefused.Error(); got != want {
		t.Errorf("text: got %q, want %q", got, want)
	}
}

package consume

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
)

// twice is a schedule of three attempts with waits of 10 s and 20 s.
func twice(immediate int) Schedule {
	return Schedule{Attempts: 3, Immediate: immediate, After: func(n int) (time.Duration, bool) {
		return time.Duration(n) * 10 * time.Second, n < 3
	}}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	const s = time.Second
	plain := errors.New("no")
	permanent := &Instruction{Err: plain, Does: Fail}
	discard := &Instruction{Err: plain, Does: Discard}
	unavailable := &Instruction{Err: plain, Does: Pause}
	panicked := &PanicError{Text: "panic: no"}
	undecoded := &DecodeError{plain}
	after := func(d time.Duration) error { return &Instruction{Err: plain, Does: RetryAfter, Wait: d} }
	postpone := func(d time.Duration) error { return &Instruction{Err: plain, Does: Postpone, Wait: d} }
	retry := func(attempt int, delay time.Duration, kind string) Decision {
		return Decision{Do: MoveToWait, Attempt: attempt, Delay: delay, Kind: kind}
	}
	fail := func(attempt int, kind string) Decision { return Decision{Do: MoveToFail, Attempt: attempt, Kind: kind} }

	for name, test := range map[string]struct {
		state     State
		err       error
		immediate int
		want      Decision
	}{
		"done":                                 {State{}, nil, 0, Decision{Do: Ack}},
		"done at the last attempt":             {State{Failures: 2}, nil, 0, Decision{Do: Ack}},
		"done after its time":                  {State{TimedOut: true}, nil, 0, Decision{Do: Ack}},
		"done while stopping":                  {State{Stopping: true}, nil, 0, Decision{Do: Ack}},
		"done, with immediate retries left":    {State{}, nil, 5, Decision{Do: Ack}},
		"first failure":                        {State{}, plain, 0, retry(1, 10*s, envelope.KindError)},
		"second failure":                       {State{Failures: 1}, plain, 0, retry(2, 20*s, envelope.KindError)},
		"last failure":                         {State{Failures: 2}, plain, 0, fail(3, envelope.KindError)},
		"more failures than attempts":          {State{Failures: 9}, plain, 0, fail(10, envelope.KindError)},
		"failure while stopping":               {State{Stopping: true}, plain, 0, Decision{Do: GiveBack}},
		"last failure while stopping":          {State{Failures: 2, Stopping: true}, plain, 0, Decision{Do: GiveBack}},
		"permanent while stopping":             {State{Stopping: true}, permanent, 0, Decision{Do: GiveBack}},
		"discard while stopping":               {State{Stopping: true}, discard, 0, Decision{Do: GiveBack}},
		"postpone while stopping":              {State{Stopping: true}, postpone(s), 0, Decision{Do: GiveBack}},
		"unavailable while stopping":           {State{Stopping: true}, unavailable, 0, Decision{Do: GiveBack}},
		"not begun because of a stop":          {State{Stopping: true}, ErrStopping, 3, Decision{Do: GiveBack}},
		"panic":                                {State{}, panicked, 0, retry(1, 10*s, envelope.KindPanic)},
		"panic at the last attempt":            {State{Failures: 2}, panicked, 0, fail(3, envelope.KindPanic)},
		"panic after its time":                 {State{TimedOut: true}, panicked, 0, retry(1, 10*s, envelope.KindPanic)},
		"timeout":                              {State{TimedOut: true}, plain, 0, retry(1, 10*s, envelope.KindTimeout)},
		"timeout at the last attempt":          {State{Failures: 2, TimedOut: true}, plain, 0, fail(3, envelope.KindTimeout)},
		"a deadline of its own":                {State{}, context.DeadlineExceeded, 0, retry(1, 10*s, envelope.KindTimeout)},
		"a wrapped deadline":                   {State{}, fmt.Errorf("query: %w", context.DeadlineExceeded), 0, retry(1, 10*s, envelope.KindTimeout)},
		"canceled by itself":                   {State{}, context.Canceled, 0, retry(1, 10*s, envelope.KindError)},
		"stuck, taken over":                    {State{TimedOut: true, TakenOver: true}, fmt.Errorf("%w, and still runs", ErrTimeout), 3, retry(1, 10*s, envelope.KindTimeout)},
		"permanent":                            {State{}, permanent, 0, fail(1, envelope.KindPermanent)},
		"permanent, with immediate retries":    {State{}, permanent, 3, fail(1, envelope.KindPermanent)},
		"permanent after its time":             {State{TimedOut: true}, permanent, 0, fail(1, envelope.KindPermanent)},
		"permanent at the second attempt":      {State{Failures: 1}, permanent, 0, fail(2, envelope.KindPermanent)},
		"wrapped permanent":                    {State{}, fmt.Errorf("order: %w", permanent), 0, fail(1, envelope.KindPermanent)},
		"not decoded":                          {State{}, undecoded, 3, fail(1, envelope.KindDecode)},
		"not decoded, to be discarded":         {State{}, &Instruction{Err: undecoded, Does: Discard}, 0, Decision{Do: AckDiscard}},
		"not decoded, to be retried":           {State{}, &Instruction{Err: undecoded, Does: RetryAfter, Wait: s}, 0, retry(1, s, envelope.KindDecode)},
		"discard":                              {State{}, discard, 3, Decision{Do: AckDiscard}},
		"discard at the last attempt":          {State{Failures: 2}, discard, 0, Decision{Do: AckDiscard}},
		"retry after":                          {State{}, after(42 * s), 0, retry(1, 42*s, envelope.KindError)},
		"retry after, with immediate retries":  {State{}, after(42 * s), 3, retry(1, 42*s, envelope.KindError)},
		"retry after, after its time":          {State{TimedOut: true}, after(42 * s), 0, retry(1, 42*s, envelope.KindTimeout)},
		"retry after at the last attempt":      {State{Failures: 2}, after(42 * s), 0, fail(3, envelope.KindError)},
		"retry after a negative time":          {State{}, after(-s), 0, retry(1, 0, envelope.KindError)},
		"retry after more than is possible":    {State{}, after(layouts.MaxDelay + 1), 0, retry(1, layouts.MaxDelay, envelope.KindError)},
		"postpone":                             {State{}, postpone(7 * s), 3, Decision{Do: MoveAside, Delay: 7 * s}},
		"postpone at the last attempt":         {State{Failures: 2}, postpone(7 * s), 0, Decision{Do: MoveAside, Delay: 7 * s}},
		"postpone for a negative time":         {State{}, postpone(-s), 0, Decision{Do: MoveAside}},
		"postpone for more than is possible":   {State{}, postpone(layouts.MaxDelay + 1), 0, Decision{Do: MoveAside, Delay: layouts.MaxDelay}},
		"unavailable":                          {State{}, unavailable, 3, Decision{Do: AwaitOutage}},
		"unavailable at the last attempt":      {State{Failures: 2}, unavailable, 0, Decision{Do: AwaitOutage}},
		"unavailable after its time":           {State{TimedOut: true}, unavailable, 0, Decision{Do: AwaitOutage}},
		"immediate retry":                      {State{}, plain, 1, Decision{Do: Rerun}},
		"immediate retry of a panic":           {State{}, panicked, 1, Decision{Do: Rerun}},
		"second of two immediate retries":      {State{Reruns: 1}, plain, 2, Decision{Do: Rerun}},
		"immediate retries are used up":        {State{Reruns: 2}, plain, 2, retry(1, 10*s, envelope.KindError)},
		"no immediate retry at attempt two":    {State{Failures: 1}, plain, 2, retry(2, 20*s, envelope.KindError)},
		"no immediate retry after its time":    {State{TimedOut: true}, plain, 2, retry(1, 10*s, envelope.KindTimeout)},
		"no immediate retry by another worker": {State{TakenOver: true}, panicked, 2, retry(1, 10*s, envelope.KindPanic)},
	} {
		if got := Decide(test.state, AnswerOf(test.err), twice(test.immediate)); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

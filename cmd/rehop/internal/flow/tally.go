package flow

import (
	"context"
	"sync/atomic"

	"github.com/rehop/rehop"
)

// tally counts what has become of messages, over all generations.
type tally struct{ done, retried, failed, discarded, postponed, returned atomic.Int64 }

// OnResult counts a result.
func (t *tally) OnResult(_ context.Context, _ *rehop.Delivery, r rehop.Result) {
	switch r.Outcome {
	case rehop.OutcomeDone:
		t.done.Add(1)
	case rehop.OutcomeRetry:
		t.retried.Add(1)
	case rehop.OutcomeFailed:
		t.failed.Add(1)
	case rehop.OutcomeDiscarded:
		t.discarded.Add(1)
	case rehop.OutcomePostponed:
		t.postponed.Add(1)
	case rehop.OutcomeReturned, rehop.OutcomeLost:
		t.returned.Add(1)
	}
}

// Counts are how many messages had each outcome since the start. Returned ones have gone back to their queue unfinished.
type Counts struct{ Done, Retried, Failed, Discarded, Postponed, Returned int64 }

// Counts returns the numbers of messages until now.
func (r *Runner) Counts() Counts {
	t := &r.tally
	return Counts{t.done.Load(), t.retried.Load(), t.failed.Load(), t.discarded.Load(), t.postponed.Load(), t.returned.Load()}
}

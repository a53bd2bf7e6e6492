package flow

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/rehop/rehop"
)

// tally counts what has become of messages, over all generations.
type tally struct {
	done, retried, failed, discarded, postponed atomic.Int64

	mu        sync.Mutex
	closing   bool
	unnamed   int                 // messages without an id that have gone back while closing
	unhandled map[string]struct{} // ids of the others, with their queues: one can come and go back again until its consumer has ended
}

// OnResult counts a result.
func (t *tally) OnResult(_ context.Context, d *rehop.Delivery, r rehop.Result) {
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
		t.goneBack(d.Queue, d.ID)
	}
}

func (t *tally) goneBack(queue, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.closing:
	case id == "":
		t.unnamed++
	default:
		t.unhandled[queue+"\x00"+id] = struct{}{} // at most what the consumers have prefetched
	}
}

// close begins to count messages that go back unfinished.
func (t *tally) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closing, t.unhandled = true, make(map[string]struct{})
}

// Counts are how many messages had each outcome since the start. Returned ones have gone back to their queue unfinished since Close was
// called.
type Counts struct{ Done, Retried, Failed, Discarded, Postponed, Returned int64 }

// Counts returns the numbers of messages until now.
func (r *Runner) Counts() Counts {
	t := &r.tally
	t.mu.Lock()
	returned := int64(t.unnamed + len(t.unhandled))
	t.mu.Unlock()
	return Counts{t.done.Load(), t.retried.Load(), t.failed.Load(), t.discarded.Load(), t.postponed.Load(), returned}
}

package rehop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rehop/rehop/internal/consume"
)

// Batch handles many messages with one call, for example to write them to a database with one
// statement. Set it as [Subscriber.Batch]:
//
//	client.Subscribe(ctx, rehop.Subscriber{Queue: "clicks", Batch: rehop.Batch{
//		Size: 500, Wait: time.Second,
//		Handle: func(ctx context.Context, all []*rehop.Delivery) error { … },
//	}})
//
// A batch never has two messages with the same id, nor messages of several subscriptions. A message
// that may have crashed its consumer is in a batch of its own, and so are the first message of a
// subscription and the one that is tried after [Unavailable].
type Batch struct {
	// Size is how many messages a batch has at most, up to 65535. Default: 100.
	Size int
	// Wait is how long a batch waits for more messages after its first one, at most 5 minutes. A batch
	// that is full does not wait, nor one of a subscription that drains. Default: 1 s.
	Wait time.Duration
	// Handle handles a batch. It may be called by several goroutines at once: see
	// Subscriber.Concurrency. What it returns decides what happens to the messages:
	//
	//   - nil: all are acked.
	//   - a *BatchError: each message has its own error, at the same index, or nil. Each error can be
	//     any that a Handler returns: [Permanent], [RetryAfter], [Postpone], [Discard], [Unavailable],
	//     or a plain one. If there are more or fewer errors than messages, or Handle has changed the
	//     order of all, the messages have all failed.
	//   - any other error: all have failed with it. That includes an error that wraps a *BatchError,
	//     whose entries have no effect then: what it adds may concern all messages.
	//
	// A panic is a failure of all. [Subscriber].Classify is called for each message that has an error. With
	// a [Subscriber].Rate each call of Handle counts as one run. [DeliveryFrom] returns nil for ctx.
	Handle func(ctx context.Context, all []*Delivery) error
}

const maxBatchWait = 5 * time.Minute

func (b Batch) withDefaults() Batch {
	orDefault(&b.Size, 100)
	orDefault(&b.Wait, time.Second)
	return b
}

// prefetch is the default for a subscription: while a batch is handled, the broker sends the next. With
// a rate it is at most what is handled in a second, as [consume.UsualPrefetch].
func (b Batch) prefetch(concurrency int, rate float64) int {
	size := float64(b.Size)
	atOnce := float64(concurrency) * size
	usual := max(4, 2*atOnce)
	if rate > 0 {
		usual = min(usual, max(atOnce, rate*size))
	}
	return int(min(usual, maxPrefetch))
}

// settings are those of the running subscription. The Size is 0 if there are no batches.
func (b Batch) settings() consume.Batch {
	if b.Handle == nil {
		return consume.Batch{}
	}
	return consume.Batch{Size: b.Size, Wait: b.Wait}
}

// batchFaults are the faults of the Batch of a subscriber.
func (s Subscriber) batchFaults() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	b := s.Batch
	if b.Handle == nil {
		if b.Size != 0 || b.Wait != 0 {
			fault("Batch has a Size or a Wait, and Batch.Handle is nil")
		}
		return faults
	}
	if s.Handler != nil {
		fault("Handler and Batch.Handle are both set; set one of them")
	}
	if len(s.Middleware) > 0 {
		fault("Middleware cannot be combined with Batch: it wraps the handling of one message, and Batch.Handle handles many; wrap the function Batch.Handle instead (for the inbox: Inbox.BatchHandler), or set Handler")
	}
	if b.Size < 1 || b.Size > maxPrefetch {
		fault("Batch.Size %d must be from 1 to %d", b.Size, maxPrefetch)
	}
	if b.Wait < 0 || b.Wait > maxBatchWait {
		fault("Batch.Wait %v must be positive, and at most %v", b.Wait, maxBatchWait)
	}
	if s.Prefetch < b.Size {
		fault("Prefetch %d must be at least Batch.Size, %d: the broker would not send enough for a batch", s.Prefetch, b.Size)
	}
	return faults
}

// handle calls Handle, and returns its answer for each message.
func (b Batch) handle(ctx context.Context, all []*Delivery) []error {
	given := slices.Clone(all)
	err := b.Handle(ctx, given)
	return batchAnswers(err, len(all), !slices.Equal(given, all))
}

// batchAnswers is the answer of a Batch.Handle for each of n messages.
func batchAnswers(err error, n int, reordered bool) []error {
	return consume.Entries(func(err error) ([]error, bool) {
		each, is := err.(*BatchError)
		if !is {
			return nil, false
		}
		return each.Errors, true
	}).Answers(err, n, reordered)
}

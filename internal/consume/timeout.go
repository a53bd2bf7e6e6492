package consume

import (
	"math"
	"time"
)

const (
	usualConsumerTimeout  = 30 * time.Minute // RabbitMQ's own
	consumerTimeoutMargin = time.Minute
	maxConsumerTimeout    = math.MaxInt32 * time.Millisecond // 24 days
)

// UsualPrefetch is the default prefetch. With a rate it is at most what is handled in a second: other
// consumers could handle what waits here for longer.
func UsualPrefetch(concurrency int, rate float64) int {
	usual := max(4, 2*concurrency)
	if rate > 0 && rate < float64(usual) {
		return max(concurrency, int(rate))
	}
	return usual
}

// Timeout computes how long messages may stay unacked.
type Timeout struct {
	Prefetch, Concurrency int
	Handler               time.Duration // that one run of a handler may take
	StuckAfter            time.Duration
	Rate                  float64 // runs of the handler per second; 0: without limit
	Immediate             int     // further runs at once of a message that fails, or of a batch
	Batch                 Batch
}

// rounds is how many handlers run one after the other until the last message of a full prefetch is
// handled. What is prefetched is there when a batch is filled, so that only the last one is not full.
func (t Timeout) rounds() time.Duration {
	together := t.Concurrency * max(1, t.Batch.Size)
	return time.Duration((t.Prefetch + together - 1) / together)
}

// RateWait is how long the rate keeps the last message of a full prefetch waiting, at the most. A batch
// counts as one run. Each worker may wait with a batch of one message, for which no others came in time,
// and the rest of the prefetch is in full batches: see rounds.
func (t Timeout) RateWait() time.Duration {
	size := max(1, t.Batch.Size)
	return t.rateWait(t.Concurrency + (max(0, t.Prefetch-t.Concurrency)+size-1)/size)
}

// rateWait is how long the rate needs for a number of messages, or batches, if each of them fails.
func (t Timeout) rateWait(handled int) time.Duration {
	if t.Rate == 0 {
		return 0
	}
	runs := float64(handled) * (1 + float64(t.Immediate))
	return time.Duration(min(runs/t.Rate*float64(time.Second), float64(maxConsumerTimeout)))
}

// Consumer is the consumer timeout to ask for: not shorter than all handlers of a full prefetch may
// need, of which the last one waits for those before it, and for the rate.
func (t Timeout) Consumer() time.Duration {
	// In numbers that do not overflow. A batch can be as small as one message: one ends where a message with the
	// same id comes, or one that cannot be handled with others.
	rounds := math.Ceil(float64(t.Prefetch) / float64(t.Concurrency))
	each := float64(t.Handler)*(1+float64(t.Immediate)) + float64(t.StuckAfter) + float64(t.Batch.Wait)
	needed := rounds*each + float64(t.rateWait(t.Prefetch)) + float64(consumerTimeoutMargin)
	return time.Duration(min(max(needed, float64(usualConsumerTimeout)), float64(maxConsumerTimeout)))
}

// Ordered is the consumer timeout to ask for if messages are handled in order: a session ends before, and its handlers
// have to end first.
func (t Timeout) Ordered() time.Duration {
	needed := float64(OrderedSession) + float64(t.Handler)*(1+float64(t.Immediate)) + float64(t.StuckAfter) + float64(ConfirmGrace) + float64(consumerTimeoutMargin)
	return time.Duration(min(max(needed, float64(usualConsumerTimeout)), float64(maxConsumerTimeout)))
}

// hold is how long after a worker has taken a message it may still begin another run of the handler
// with it while the subscription pauses. That run must end before the broker's consumer timeout, which
// would redeliver the message and count that. The timeout begins when the broker sends the message. How
// long it then waited for a worker is not known: at most for a full prefetch, unless the prefetch is
// one (narrow). hold is never less than longOutage. Where the consumer cannot be replaced by a narrow
// one, all prefetched messages share the time.
func (t Timeout) hold(narrow, replaceable bool) time.Duration {
	runs, wait := t.rounds(), t.RateWait()
	if narrow {
		runs, wait = 1, t.rateWait(1)
	}
	each := float64(t.Handler)*(1+float64(t.Immediate)) + float64(t.Batch.Wait)
	handlers := runs*time.Duration(min(each, float64(usualConsumerTimeout))) + wait
	room := max(longOutage, min(holdLimit, usualConsumerTimeout-consumerTimeoutMargin-handlers))
	if !replaceable {
		return room / runs
	}
	return room
}

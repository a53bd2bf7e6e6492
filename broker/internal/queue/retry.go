package queue

import (
	"slices"
	"time"
)

// RetryType is which returns to a quorum queue are delayed.
type RetryType string

const (
	RetryAll      RetryType = "all"
	RetryFailed   RetryType = "failed"   // those that count as failed deliveries
	RetryReturned RetryType = "returned" // the others
)

// Retry is the delay of messages that are returned to a quorum queue. The zero value delays nothing.
type Retry struct {
	Type RetryType
	// Min is the delay after the first failed delivery. Each further one adds Min again, up to Max.
	Min, Max time.Duration
}

// Delay returns the delay of an item that is returned now; 0 if it is ready at once.
func (r Retry) Delay(it Item, failed bool) time.Duration {
	switch {
	case r.Min <= 0, r.Type == RetryFailed && !failed, r.Type == RetryReturned && failed:
		return 0
	}
	failures := time.Duration(it.Failures)
	if failed {
		failures++
	}
	failures = max(failures, 1)
	if failures > r.Max/r.Min {
		return r.Max
	}
	return failures * r.Min
}

// delayedItem is an item that was returned and is not ready yet.
type delayedItem struct {
	Item
	until time.Duration // on the node's clock, never 0
}

// Before orders by the end of the delay, and then by the time of return.
func (d delayedItem) Before(other delayedItem) bool {
	if d.until != other.until {
		return d.until < other.until
	}
	return d.place < other.place
}

// delay keeps an item for a while before it is ready. It still counts toward the limits of the queue.
func (q *Queue) delay(it Item, d time.Duration) {
	q.returns++
	it.place = q.returns
	q.delayed.push(delayedItem{it, q.Clock() + max(d, 1)})
	q.bytes += q.Weight(it.Message)
}

// promote makes items ready whose delay is over.
func (q *Queue) promote() {
	if len(q.delayed) == 0 {
		return
	}
	for now := q.Clock(); len(q.delayed) > 0 && q.delayed[0].until <= now; {
		q.returnFirst(q.delayed.pop().Item)
	}
}

// returnFirst puts an item that was returned to a quorum queue behind those that were returned earlier,
// and before all others.
func (q *Queue) returnFirst(it Item) {
	q.returns++
	it.place = q.returns
	q.backlogOf(len(q.levels) - 1).returned.push(it)
	q.ready++
}

// Delayed returns the items that were returned and are not ready yet, in the order in which they will be.
func (q *Queue) Delayed() []Item {
	q.mu.Lock()
	defer q.mu.Unlock()
	heap := slices.Clone(q.delayed)
	items := make([]Item, 0, len(heap))
	for len(heap) > 0 {
		items = append(items, heap.pop().Item)
	}
	return items
}

// spanOfDelays returns the time until the first delayed item is ready, and until the last is.
func (q *Queue) spanOfDelays() (next, last time.Duration) {
	if len(q.delayed) == 0 {
		return 0, 0
	}
	now := q.Clock()
	for _, it := range q.delayed {
		last = max(last, it.until-now)
	}
	return max(q.delayed[0].until-now, 0), last
}

package queue

import (
	"container/heap"
	"slices"
	"time"
)

// RetryType is which returns to a quorum queue are delayed.
type RetryType string

// The types of delayed retry.
const (
	RetryAll      RetryType = "all"
	RetryFailed   RetryType = "failed"   // those that count as failed deliveries
	RetryReturned RetryType = "returned" // the others
)

// Retry is how long a message that comes back to a quorum queue waits before it is ready again. The zero value delays nothing.
type Retry struct {
	Type RetryType
	// Min is the delay after one failed delivery. It grows by the same again with each further one, up to Max.
	Min, Max time.Duration
}

// Delay returns how long an item waits that comes back, given how it was delivered; 0 if it is ready at once.
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

// delayedItem is an item that came back and is not ready yet.
type delayedItem struct {
	Item
	until time.Duration // on the node's clock, never 0
}

// delayedItems is a heap: the one that is ready first is first, of several the one that came back first.
type delayedItems []delayedItem

func (d delayedItems) Len() int { return len(d) }

func (d delayedItems) Less(i, j int) bool {
	if d[i].until != d[j].until {
		return d[i].until < d[j].until
	}
	return d[i].place < d[j].place
}

func (d delayedItems) Swap(i, j int) { d[i], d[j] = d[j], d[i] }

func (d *delayedItems) Push(x any) { *d = append(*d, x.(delayedItem)) }

func (d *delayedItems) Pop() any {
	last := len(*d) - 1
	it := (*d)[last]
	(*d)[last] = delayedItem{}
	*d = (*d)[:last]
	return it
}

// delay keeps an item from consumers for a time. It still counts for the queue's limits.
func (q *Queue) delay(it Item, d time.Duration) {
	q.returns++
	it.place = q.returns
	heap.Push(&q.delayed, delayedItem{it, q.clock() + max(d, 1)})
	q.bytes += q.Weight(it.Message)
}

// promote makes ready what has waited for long enough.
func (q *Queue) promote() {
	if len(q.delayed) == 0 {
		return
	}
	for now := q.clock(); len(q.delayed) > 0 && q.delayed[0].until <= now; {
		q.giveBackFirst(heap.Pop(&q.delayed).(delayedItem).Item)
	}
	if len(q.delayed) == 0 {
		q.delayed = nil
	}
}

// giveBackFirst puts an item that came back to a quorum queue behind those that came back before, and before all others.
func (q *Queue) giveBackFirst(it Item) {
	q.returns++
	it.place = q.returns
	q.backlogOf(len(q.levels) - 1).giveBack(it)
	q.ready++
}

// Delayed returns the items that came back and are not ready yet, in the order in which they will be.
func (q *Queue) Delayed() []Item {
	q.mu.Lock()
	defer q.mu.Unlock()
	sorted := slices.Clone(q.delayed)
	items := make([]Item, 0, len(sorted))
	for len(sorted) > 0 {
		items = append(items, heap.Pop(&sorted).(delayedItem).Item)
	}
	return items
}

// spanOfDelays returns after which time the first of the delayed items is ready, and the last.
func (q *Queue) spanOfDelays() (next, last time.Duration) {
	if len(q.delayed) == 0 {
		return 0, 0
	}
	now := q.clock()
	for _, it := range q.delayed {
		last = max(last, it.until-now)
	}
	return max(q.delayed[0].until-now, 0), last
}

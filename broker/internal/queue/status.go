package queue

import (
	"cmp"
	"slices"
	"time"
)

// Status is the state of a queue at one moment.
type Status struct {
	Ready, Unacked           int
	ReadyBytes, UnackedBytes int64
	Consumers                []*Consumer
	Active                   *Consumer // of a queue with a single active consumer
	Settings                 Settings
	Totals                   Totals
	// CountedAsConsumers is how many canceled consumers with unacked messages, and messages of basic.get,
	// RabbitMQ counts as consumers of a quorum queue.
	CountedAsConsumers int
	// Dying is the number of dead letters that are not yet routed.
	Dying int
	// Kept is the same for a queue that keeps its dead letters until another has them, and 0 for others.
	Kept      int
	KeptBytes int64
	// Waiting reports whether a consumer has room.
	Waiting bool
	// Fresh is how many ready messages were never delivered, by priority level. Returned is how many were.
	Fresh    []int
	Returned int
	// Delayed messages were returned and are not ready yet. The first is ready after NextReady, the last
	// after LastReady. ReadyBytes includes them.
	Delayed              int
	NextReady, LastReady time.Duration
}

// Status describes the queue.
func (q *Queue) Status() Status {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Status{Ready: q.ready, Unacked: q.unacked, ReadyBytes: q.bytes, UnackedBytes: q.unackedBytes, Consumers: slices.Clone(q.consumers),
		Active: q.active, Settings: q.settings, Totals: q.totals, Dying: len(q.dead) + q.deadTaken, Waiting: q.nextConsumer() != nil,
		Fresh: make([]int, len(q.levels)), Delayed: len(q.delayed)}
	if q.settings.KeepsDeadLetters(q.Type) {
		s.Kept, s.KeptBytes = s.Dying, q.deadBytes
	}
	s.NextReady, s.LastReady = q.spanOfDelays()
	for i, level := range q.levels {
		if level != nil {
			s.Fresh[i] = level.fresh.n
			s.Returned += len(level.returned)
		}
	}
	return s
}

// Totals returns the counters of the queue.
func (q *Queue) Totals() Totals {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.totals
}

// Counts returns the numbers of ready messages and of consumers.
func (q *Queue) Counts() (ready, consumers int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready, len(q.consumers)
}

// Settings returns the current settings.
func (q *Queue) Settings() Settings {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.settings
}

// Unload removes the contents of stored messages from memory. They are read again before delivery.
func (q *Queue) Unload() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.levels {
		if l != nil {
			l.each(l.len(), func(it *Item) { q.Budget.Unload(it.Message) })
		}
	}
	for _, d := range q.delayed {
		q.Budget.Unload(d.Message)
	}
}

// Peek returns up to n ready items from the head, without taking them.
func (q *Queue) Peek(n int) []Item {
	q.mu.Lock()
	defer q.mu.Unlock()
	var items []Item
	for _, l := range slices.Backward(q.levels) {
		if l.len() == 0 || len(items) >= n {
			continue
		}
		returned := slices.SortedFunc(slices.Values(l.returned), func(a, b Item) int { return cmp.Compare(a.place, b.place) })
		items = append(items, returned[:min(len(returned), n-len(items))]...)
		l.fresh.each(n-len(items), func(it *Item) { items = append(items, *it) })
	}
	return items
}

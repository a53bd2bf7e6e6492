package queue

import (
	"cmp"
	"slices"
	"time"
)

// Status is how a queue is at a moment.
type Status struct {
	Ready, Unacked           int
	ReadyBytes, UnackedBytes int64
	Consumers                []*Consumer
	Active                   *Consumer // the one that is served, in a queue with a single active consumer
	Settings                 Settings
	Totals                   Totals
	// CountedAsConsumers is how many cancelled consumers with unacked messages, and messages of basic.get, RabbitMQ
	// counts as consumers of a quorum queue.
	CountedAsConsumers int
	// Dying messages are dead and not yet where they belong.
	Dying int
	// Kept are those of a queue that keeps its dead letters until another has them.
	Kept      int
	KeptBytes int64
	// Waiting is whether a consumer has room.
	Waiting bool
	// Fresh is how many ready messages have never been delivered, by levels of priority. Returned is how many have.
	Fresh    []int
	Returned int
	// Delayed messages have come back and are not ready yet: the first of them after NextReady, the last after LastReady. ReadyBytes counts them, too.
	Delayed              int
	NextReady, LastReady time.Duration
}

// Status describes the queue.
func (q *Queue) Status() Status {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Status{Ready: q.ready, Unacked: q.unacked, ReadyBytes: q.bytes, UnackedBytes: q.held, Consumers: append([]*Consumer(nil), q.consumers...),
		Active: q.active, Settings: q.settings, Totals: q.totals, Dying: len(q.dead) + q.taken, Waiting: q.turn() != nil}
	if q.settings.KeepsDeadLetters(q.Type) {
		s.Kept, s.KeptBytes = s.Dying, q.deadBytes
	}
	s.Delayed = len(q.delayed)
	s.NextReady, s.LastReady = q.spanOfDelays()
	s.Fresh = make([]int, len(q.levels))
	for i, level := range q.levels {
		if level != nil {
			s.Fresh[i] = level.fresh.n
			s.Returned += len(level.back)
		}
	}
	return s
}

// Totals returns what has happened in the queue.
func (q *Queue) Totals() Totals {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.totals
}

// Counts returns the messages that are ready and the consumers.
func (q *Queue) Counts() (ready, consumers int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready, len(q.consumers)
}

// Settings returns the settings in force.
func (q *Queue) Settings() Settings {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.settings
}

// Unload takes the contents of messages that are on disk out of memory. They are read again when a consumer gets them.
func (q *Queue) Unload() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.levels {
		if l != nil {
			l.each(l.len(), func(it *Item) { q.budget.Unload(it.Message) })
		}
	}
	for _, d := range q.delayed {
		q.budget.Unload(d.Message)
	}
}

// Peek returns up to n ready items from the head, and takes none of them.
func (q *Queue) Peek(n int) []Item {
	q.mu.Lock()
	defer q.mu.Unlock()
	var items []Item
	for i := len(q.levels) - 1; i >= 0 && len(items) < n; i-- {
		l := q.levels[i]
		if l == nil {
			continue
		}
		back := slices.SortedFunc(slices.Values(l.back), func(a, b Item) int { return cmp.Compare(a.place, b.place) })
		items = append(items, back[:min(len(back), n-len(items))]...)
		l.fresh.each(n-len(items), func(it *Item) { items = append(items, *it) })
	}
	return items
}

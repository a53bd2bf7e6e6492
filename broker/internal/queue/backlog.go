package queue

import "time"

// Item is a message in one queue.
type Item struct {
	Message *Message
	// Count is how often the item was returned unacked to a quorum queue.
	Count uint32
	// Failures is how often its delivery failed, in this queue and in queues that dead-lettered it
	// before; at most 65,535.
	Failures uint16
	// Redelivered items may have been delivered to a consumer before.
	Redelivered bool
	// failedElsewhere: it is marked as redelivered only because of failures in other queues.
	failedElsewhere bool
	// Expires is when the item expires, on the node's clock; 0 means never.
	Expires time.Duration
	// place orders items that were returned.
	place uint64
}

// repeated reports whether this queue may have delivered the item before.
func (it Item) repeated() bool { return it.Redelivered && !it.failedElsewhere }

func (it Item) Before(other Item) bool { return it.place < other.place }

// Returns is how often an item was returned, and how often its delivery had failed.
type Returns struct {
	Count    uint32
	Failures uint16
	// Delay is how long it takes until the item is ready.
	Delay time.Duration
}

// backlog has the items of one priority: those that were returned, which come first, and the others.
type backlog struct {
	returned minHeap[Item]
	fresh    ring
}

func (b *backlog) len() int {
	if b == nil {
		return 0
	}
	return len(b.returned) + b.fresh.n
}

func (b *backlog) head() *Item {
	if len(b.returned) > 0 {
		return &b.returned[0]
	}
	return b.fresh.head()
}

func (b *backlog) pop() Item {
	if len(b.returned) > 0 {
		return b.returned.pop()
	}
	return b.fresh.pop()
}

// each calls visit for up to n items from the head on, roughly in order.
func (b *backlog) each(n int, visit func(*Item)) {
	for i := range min(n, len(b.returned)) {
		visit(&b.returned[i])
	}
	b.fresh.each(n-len(b.returned), visit)
}

// minHeap is a heap whose first item is before all others. Unlike container/heap, it does not allocate
// for each item.
type minHeap[T interface{ Before(T) bool }] []T

func (h *minHeap[T]) push(item T) {
	*h = append(*h, item)
	items := *h
	for i := len(items) - 1; i > 0; {
		parent := (i - 1) / 2
		if !items[i].Before(items[parent]) {
			break
		}
		items[parent], items[i] = items[i], items[parent]
		i = parent
	}
}

func (h *minHeap[T]) pop() T {
	items := *h
	last := len(items) - 1
	top := items[0]
	items[0] = items[last]
	clear(items[last:])
	items = items[:last]
	for i := 0; ; {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if items[child].Before(items[first]) {
				first = child
			}
		}
		if first == i {
			break
		}
		items[i], items[first] = items[first], items[i]
		i = first
	}
	*h = items
	if last == 0 {
		*h = nil // a heap that was once large does not keep its memory
	}
	return top
}

const blockSize = 128

type block struct {
	items [blockSize]Item
	next  *block
}

// ring is a first-in, first-out list of items in blocks, so that a long queue is not copied when it grows.
type ring struct {
	first, last *block
	from, to    int // positions in first and last
	n           int
}

func (r *ring) push(it Item) {
	if r.last == nil {
		r.first = &block{}
		r.last = r.first
		r.from, r.to = 0, 0
	} else if r.to == blockSize {
		r.last.next = &block{}
		r.last = r.last.next
		r.to = 0
	}
	r.last.items[r.to] = it
	r.to++
	r.n++
}

func (r *ring) head() *Item {
	if r.n == 0 {
		return nil
	}
	return &r.first.items[r.from]
}

func (r *ring) pop() Item {
	it := r.first.items[r.from]
	r.first.items[r.from] = Item{}
	r.from++
	r.n--
	switch {
	case r.n == 0:
		r.from, r.to = 0, 0
		r.last = r.first
		r.first.next = nil
	case r.from == blockSize:
		r.first = r.first.next
		r.from = 0
	}
	return it
}

func (r *ring) each(n int, visit func(*Item)) {
	n = min(n, r.n)
	b, i := r.first, r.from
	for ; n > 0; n-- {
		visit(&b.items[i])
		if i++; i == blockSize {
			b, i = b.next, 0
		}
	}
}

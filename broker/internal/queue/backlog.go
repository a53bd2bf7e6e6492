package queue

import "time"

// Item is a message in one queue.
type Item struct {
	Message *Message
	// Count is how often the item came back unacknowledged to a quorum queue.
	Count uint32
	// Failures is how often its delivery has failed, those included that it took along from other queues; 65,535 at most.
	Failures uint16
	// Redelivered items may have been seen by a consumer before.
	Redelivered bool
	// brought: it is marked as redelivered for what happened in other queues alone.
	brought bool
	// Expires is when the item expires, on the node's clock; 0 means never.
	Expires time.Duration
	// place orders items that came back.
	place uint64
}

// repeated reports whether the queue has delivered it before, for all that it knows.
func (it Item) repeated() bool { return it.Redelivered && !it.brought }

// Returns is how often an item came back, and how often of those its delivery had failed.
type Returns struct {
	Count    uint32
	Failures uint16
	// Delay is how long it is not ready yet.
	Delay time.Duration
}

// backlog holds items of one priority: those that came back, which are first, and those never taken out.
type backlog struct {
	back  []Item // a heap by place
	fresh ring
}

func (b *backlog) len() int {
	if b == nil {
		return 0
	}
	return len(b.back) + b.fresh.n
}

func (b *backlog) head() *Item {
	if len(b.back) > 0 {
		return &b.back[0]
	}
	return b.fresh.head()
}

func (b *backlog) pop() Item {
	if len(b.back) > 0 {
		return b.popBack()
	}
	return b.fresh.pop()
}

func (b *backlog) giveBack(it Item) {
	b.back = append(b.back, it)
	h := b.back
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if h[parent].place <= h[i].place {
			break
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
}

func (b *backlog) popBack() Item {
	h := b.back
	top := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h[last] = Item{}
	h = h[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h[child].place < h[least].place {
				least = child
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	b.back = h
	if last == 0 {
		b.back = nil
	}
	return top
}

// each calls visit for up to n items from the head on, roughly in order.
func (b *backlog) each(n int, visit func(*Item)) {
	for i := range min(n, len(b.back)) {
		visit(&b.back[i])
	}
	b.fresh.each(n-len(b.back), visit)
}

const blockSize = 128

type block struct {
	items [blockSize]Item
	next  *block
}

// ring is a first-in first-out line of items in blocks, so that a long queue is never copied to grow.
type ring struct {
	first, last *block
	from, to    int // in first and in last
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

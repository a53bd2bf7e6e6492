package queue

import "slices"

// Subscribe adds a consumer, which gets messages after Resume. It returns false if the queue is deleted,
// has an exclusive consumer, or cannot have one: it has other consumers, or a single active consumer.
// Quorum queues have no exclusive consumers.
func (q *Queue) Subscribe(c *Consumer) (ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := len(q.consumers) > 0 && (c.Exclusive || q.consumers[0].Exclusive) || q.SingleActive && c.Exclusive
	if taken && q.Type == Classic || q.deleted {
		return false
	}
	q.consumers = append(q.consumers, c)
	c.state = full
	if q.SingleActive && q.active == nil {
		q.active = c
	}
	q.timer.set(q)
	return true
}

// Deleted reports whether the queue is deleted.
func (q *Queue) Deleted() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.deleted
}

// Unsubscribe removes a consumer. It returns how many are left, and false if the consumer was not there.
func (q *Queue) Unsubscribe(c *Consumer) (fx Effects, left int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.consumers, c)
	if at < 0 {
		return Effects{}, len(q.consumers), false
	}
	q.consumers = slices.Delete(q.consumers, at, at+1)
	if !q.SingleActive && c.state == ready {
		q.roundRobin.remove(c)
	}
	c.state = removed
	if q.active == c {
		q.active = q.successor()
	}
	q.lastUse = q.Clock()
	return q.pump(), len(q.consumers), true
}

// successor returns the next single active consumer: the oldest one, in classic queues the oldest with
// the highest priority.
func (q *Queue) successor() *Consumer {
	var next *Consumer
	for _, c := range q.consumers {
		if next == nil || q.Type == Classic && c.Priority > next.Priority {
			next = c
		}
	}
	return next
}

// Resume delivers to a consumer that has room again.
func (q *Queue) Resume(c *Consumer) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.state == full {
		c.state = ready
		if !q.SingleActive {
			q.roundRobin.add(c)
		}
	}
	return q.pump()
}

// loadAtOnce and loadBytes limit what is read ahead for consumers.
const (
	loadAtOnce = 64
	loadBytes  = 1 << 20
)

// Missing returns messages near the head whose contents are only on disk.
func (q *Queue) Missing() []*Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	var missing []*Message
	size := 0
	if top := q.top(); top != nil {
		top.each(loadAtOnce, func(it *Item) {
			if it.Message.Content() == nil && (size < loadBytes || len(missing) == 0) {
				missing = append(missing, it.Message)
				size += int(it.Message.Size)
			}
		})
	}
	return missing
}

// Loaded continues after contents were read. Messages that cannot be read leave the queue.
func (q *Queue) Loaded(unreadable map[*Message]bool) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.loading = false
	for head := q.head(); head != nil && unreadable[head.Message]; head = q.head() {
		q.Budget.release(q.pop().Message)
	}
	return q.pump()
}

package queue

import "slices"

// Subscribe adds a consumer, who is served after Resume. False: the queue is deleted, or somebody has exclusive use, or the newcomer
// asks for it and is not alone, or the queue chooses its only consumer itself. Quorum queues know no exclusive use.
func (q *Queue) Subscribe(c *Consumer) (ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := len(q.consumers) > 0 && (c.Exclusive || q.consumers[0].Exclusive) || q.single && c.Exclusive
	if taken && q.Type == Classic || q.deleted {
		return false
	}
	q.consumers = append(q.consumers, c)
	c.standing = parked
	if q.single && q.active == nil {
		q.active = c
	}
	q.alarm.set(q)
	return true
}

// Deleted reports whether the queue has ended; it never comes back.
func (q *Queue) Deleted() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.deleted
}

// Unsubscribe removes a consumer. left is how many remain; ok is false if it was not there.
func (q *Queue) Unsubscribe(c *Consumer) (fx Effects, left int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.consumers, c)
	if at < 0 {
		return Effects{}, len(q.consumers), false
	}
	q.consumers = slices.Delete(q.consumers, at, at+1)
	if !q.single && c.standing == ready {
		q.round.leave(c)
	}
	c.standing = gone
	if q.active == c {
		q.active = q.successor()
	}
	q.used = q.clock()
	return q.pump(), len(q.consumers), true
}

// successor returns who is served next in a queue with a single active consumer: who came first, in classic queues of those with
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

// Resume serves a consumer again that had no room.
func (q *Queue) Resume(c *Consumer) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.standing == parked {
		c.standing = ready
		if !q.single {
			q.round.join(c)
		}
	}
	return q.pump()
}

// loadAtOnce and loadBytes bound what is read ahead for consumers.
const (
	loadAtOnce = 64
	loadBytes  = 1 << 20
)

// Missing returns messages near the head whose contents are on disk alone.
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

// Loaded goes on after contents were read. Messages that cannot be read leave the queue.
func (q *Queue) Loaded(unreadable map[*Message]bool) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.loading = false
	for head := q.head(); head != nil && unreadable[head.Message]; head = q.head() {
		q.budget.release(q.pop().Message)
	}
	return q.pump()
}

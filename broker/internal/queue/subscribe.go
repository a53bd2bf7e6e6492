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
	if q.SingleActive && q.active == nil && q.leaving == nil {
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
	ok = q.Leave(c)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch wasActive := q.leaving == c; {
	case ok && wasActive && q.Rules.RestsAfterCancel:
		q.active, q.leaving = q.successor(), nil
	case ok:
		fx = q.activate(c)
	}
	return fx, len(q.consumers), ok
}

// Leave removes a consumer whose unacked messages will be returned. If it is the single active consumer, no other gets
// messages before Activate, not even one that subscribes meanwhile: the next one must get the returned messages first. It
// returns false if the consumer was not there.
func (q *Queue) Leave(c *Consumer) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.consumers, c)
	if at < 0 {
		return false
	}
	q.consumers = slices.Delete(q.consumers, at, at+1)
	if !q.SingleActive && c.state == ready {
		q.roundRobin.remove(c)
	}
	c.state = removed
	if q.active == c {
		q.active, q.leaving = nil, c
	}
	q.lastUse = q.Clock()
	return true
}

// Activate is called when the unacked messages of a consumer that has left are back. If it was the single active one,
// the next one gets messages.
func (q *Queue) Activate(left *Consumer) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.activate(left)
}

func (q *Queue) activate(left *Consumer) Effects {
	if q.leaving == left {
		q.leaving = nil
	}
	if q.SingleActive && q.active == nil && q.leaving == nil {
		q.active = q.successor()
	}
	return q.pump()
}

// successor returns the next single active consumer: the oldest one of those that rank first.
func (q *Queue) successor() *Consumer {
	var next *Consumer
	for _, c := range q.consumers {
		if next == nil || q.ranksBefore(c, next) {
			next = c
		}
	}
	return next
}

// ranksBefore reports whether a consumer becomes active before another one, whichever subscribed first: in classic
// queues by priority, in some quorum queues by priority and then by prefetch.
func (q *Queue) ranksBefore(c, other *Consumer) bool {
	switch {
	case q.Type == Classic, q.Rules.RanksConsumers && c.Priority != other.Priority:
		return c.Priority > other.Priority
	case !q.Rules.RanksConsumers:
		return false
	}
	return other.Prefetch != 0 && (c.Prefetch == 0 || c.Prefetch > other.Prefetch)
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

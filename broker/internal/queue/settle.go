package queue

import (
	"slices"

	"github.com/rehop/rehop/broker/internal/store"
)

// Settle removes items that were acked.
func (q *Queue) Settle(items []Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range items {
		q.removeUnacked(it)
		q.Budget.release(it.Message)
		q.totals.Acked++
	}
}

// Kill dead-letters items that a consumer has rejected. If failed is set, their deliveries count as
// failures.
func (q *Queue) Kill(items []Item, failed bool) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range items {
		if q.takeBack(it) {
			q.addDead(q.Rules.returned(it, failed), Rejected)
		}
	}
	return q.effects()
}

// Return requeues items that were not acked. A classic queue puts them where they were. A quorum queue
// puts them behind those that were returned earlier, or behind all others if the consumer asked for the
// requeue and there is no delivery limit. A quorum queue may delay them first. If failed is set, their
// deliveries count as failures.
func (q *Queue) Return(items []Item, asked, failed bool) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range items {
		if !q.takeBack(it) {
			continue
		}
		delay := q.settings.Retry.Delay(it, failed)
		it.Redelivered, it.failedElsewhere = true, false
		it = q.Rules.returned(it, failed)
		if q.Type == Classic {
			q.backlogOf(q.level(it.Message)).returned.push(it)
			q.ready++
			q.bytes += q.Weight(it.Message)
			continue
		}
		it.Count++
		count, limit := it.Count, q.settings.DeliveryLimit
		if q.Rules.LimitsFailures {
			count = uint32(it.Failures)
		}
		switch {
		case limit >= 0 && int64(count) > int64(limit):
			q.addDead(it, DeliveryLimit)
		case delay > 0:
			q.delay(it, delay)
		case limit < 0 && asked && !q.Rules.ReturnsFirst:
			q.append(it)
		default:
			q.returnFirst(it)
			q.bytes += q.Weight(it.Message)
		}
	}
	return q.pump()
}

// takeBack ends a delivery. It returns false if the queue was deleted, and the item with it.
func (q *Queue) takeBack(it Item) bool {
	q.removeUnacked(it)
	if q.deleted {
		q.Budget.release(it.Message)
	}
	return !q.deleted
}

// Get takes the first item. If its content is not in memory, the caller must handle the effects and call
// Get again.
func (q *Queue) Get(noAck bool) (it Item, content *store.Content, left int, fx Effects) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastUse = q.Clock()
	q.promote()
	q.dropExpired()
	head := q.head()
	if head == nil {
		q.totals.GotNothing++
		return it, nil, 0, q.effects()
	}
	if content = head.Message.Content(); content == nil {
		fx = q.effects()
		fx.Load = true
		return it, nil, q.ready, fx
	}
	it = q.pop()
	fx = q.effects(q.taken(it, noAck, &q.totals.Got, &q.totals.GotNoAck)...)
	return it, content, q.ready, fx
}

// Purged has the messages that a purge removed from a queue. It takes over the lists of the queue, and
// shortens them step by step. So purging a million messages does not copy a million of them, and locks
// the queue only briefly.
type Purged struct {
	levels  []*backlog
	delayed []delayedItem
	left    int
	budget  *Budget
	batch   []*Message
}

// Purge removes what is ready or delayed. The caller gets the messages by Next.
func (q *Queue) Purge() *Purged {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastUse = q.Clock()
	return q.purge()
}

func (q *Queue) purge() *Purged {
	p := &Purged{levels: q.levels, delayed: q.delayed, left: q.ready + len(q.delayed), budget: q.Budget}
	q.levels = make([]*backlog, len(p.levels))
	q.delayed = nil
	q.ready, q.bytes = 0, 0
	q.timer.set(q)
	return p
}

// Len returns how many messages are left.
func (p *Purged) Len() int { return p.left }

// purgeAtOnce is how many messages Next returns at most.
const purgeAtOnce = 1024

// Next returns some messages, and none at the end. The next call uses the slice again.
func (p *Purged) Next() []*Message {
	p.batch = p.batch[:0]
	for _, l := range slices.Backward(p.levels) {
		for l.len() > 0 && len(p.batch) < purgeAtOnce {
			p.take(l.pop())
		}
	}
	for ; len(p.delayed) > 0 && len(p.batch) < purgeAtOnce; p.delayed = p.delayed[1:] {
		p.take(p.delayed[0].Item)
	}
	return p.batch
}

func (p *Purged) take(it Item) {
	p.left--
	p.budget.release(it.Message)
	p.batch = append(p.batch, it.Message)
}

// Delete deletes the queue if the conditions hold. It returns how many messages were ready, and the
// consumers.
func (q *Queue) Delete(ifUnused, ifEmpty bool) (messages int, consumers []*Consumer, ok bool) {
	q.mu.Lock()
	messages, consumers = q.ready, q.consumers
	if ifUnused && len(consumers) > 0 || ifEmpty && messages > 0 {
		q.mu.Unlock()
		return 0, nil, false
	}
	q.deleted = true
	purged := q.purge()
	for _, c := range consumers {
		c.state = removed
	}
	q.consumers, q.active, q.leaving, q.roundRobin = nil, nil, nil, roundRobin{}
	q.timer.stop()
	q.mu.Unlock()
	for len(purged.Next()) > 0 {
		continue
	}
	return messages, consumers, true
}

// Stop stops the queue's timer.
func (q *Queue) Stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.deleted = true
	q.timer.stop()
}

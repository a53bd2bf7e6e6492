package queue

import "github.com/rehop/rehop/internal/node/store"

// Settle notes that items were acknowledged.
func (q *Queue) Settle(items []Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range items {
		q.letGo(it)
		q.budget.release(it.Message)
		q.totals.Acked++
	}
}

// Kill makes dead letters of items that a consumer has rejected.
func (q *Queue) Kill(items []Item) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range items {
		if q.takeBack(it) {
			q.die(it, Rejected)
		}
	}
	return q.effects()
}

// Return puts items back that were not acknowledged: in a classic queue where they were, in a quorum queue behind those that
// came back before, or behind all others if the consumer has asked for it and no limit ends its asking. Counted returns
// use up the delivery limit.
func (q *Queue) Return(items []Item, asked, counted bool) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range items {
		if !q.takeBack(it) {
			continue
		}
		it.Redelivered = true
		if q.Type == Quorum {
			q.returns++
			it.place = q.returns
			if counted {
				it.Count++
			}
			limit := q.settings.DeliveryLimit
			if limit >= 0 && int64(it.Count) > int64(limit) {
				q.die(it, DeliveryLimit)
				continue
			}
			if limit < 0 && asked {
				q.put(it)
				continue
			}
		}
		q.level(it).giveBack(it)
		q.ready++
		q.bytes += int64(it.Message.Size)
	}
	return q.pump()
}

// takeBack takes an item from somebody who had it. False: the queue is deleted, and the item with it.
func (q *Queue) takeBack(it Item) bool {
	q.letGo(it)
	if q.deleted {
		q.budget.release(it.Message)
	}
	return !q.deleted
}

// Get takes the first item out for somebody who asks. If its content is not in memory, the caller sees to the effects
// and asks again.
func (q *Queue) Get(noAck bool) (it Item, content *store.Content, left int, fx Effects) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used = q.clock()
	q.expire()
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
	if it.Redelivered {
		q.totals.Redelivered++
	}
	fx = Effects{}
	if noAck {
		q.totals.GotNoAck++
		q.budget.release(it.Message)
		fx.Settled = []*Message{it.Message}
	} else {
		q.totals.Got++
		q.hold(it)
	}
	q.alarm.set(q)
	fx.Dead = q.mourns()
	return it, content, q.ready, fx
}

// Purge removes what is ready and returns it.
func (q *Queue) Purge() []Item {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used = q.clock()
	return q.purge()
}

func (q *Queue) purge() []Item {
	items := make([]Item, 0, q.ready)
	for q.ready > 0 {
		it := q.pop()
		q.budget.release(it.Message)
		items = append(items, it)
	}
	q.alarm.set(q)
	return items
}

// Delete ends the queue if the conditions hold, and returns how many messages were ready and the consumers that it had.
func (q *Queue) Delete(ifUnused, ifEmpty bool) (messages int, consumers []*Consumer, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ifUnused && len(q.consumers) > 0 || ifEmpty && q.ready > 0 {
		return 0, nil, false
	}
	q.deleted = true
	messages = len(q.purge())
	consumers = q.consumers
	for _, c := range consumers {
		c.standing = gone
	}
	q.consumers, q.active, q.round = nil, nil, round{}
	q.alarm.stop()
	return messages, consumers, true
}

// Stop ends the queue's timer.
func (q *Queue) Stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.deleted = true
	q.alarm.stop()
}

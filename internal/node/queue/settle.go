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

// Kill makes dead letters of items that a consumer has rejected. failed: their deliveries count as failures.
func (q *Queue) Kill(items []Item, failed bool) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range items {
		if q.takeBack(it) {
			it = q.rules.returned(it, failed)
			q.die(it, Rejected)
		}
	}
	return q.effects()
}

// Return puts items back that were not acknowledged: in a classic queue where they were, in a quorum queue behind those that
// came back before, or behind all others if the consumer has asked for it and no limit ends its asking. failed: their deliveries count as failures.
func (q *Queue) Return(items []Item, asked, failed bool) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range items {
		if !q.takeBack(it) {
			continue
		}
		it.Redelivered, it.brought = true, false
		it = q.rules.returned(it, failed)
		level := q.level(it.Message)
		if q.Type == Quorum {
			it.Count++
			used, limit := it.Count, q.settings.DeliveryLimit
			if q.rules.LimitsFailures {
				used = uint32(it.Failures)
			}
			if limit >= 0 && int64(used) > int64(limit) {
				q.die(it, DeliveryLimit)
				continue
			}
			if limit < 0 && asked && !q.rules.ReturnsFirst {
				q.arrivals++
				it.place = q.arrivals
				q.put(it)
				continue
			}
			q.returns++
			it.place, level = q.returns, len(q.levels)-1
		}
		q.backlogOf(level).giveBack(it)
		q.ready++
		q.bytes += q.Weight(it.Message)
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
	if it.repeated() {
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

// Purged is what was taken out of a queue at once. It keeps the places that it had in the queue, which are given up one after the other: to purge a
// million messages takes no second million of places, and no lock for longer than a moment.
type Purged struct {
	levels []*backlog
	left   int
	budget *Budget
	lot    []*Message
}

// Purge takes out what is ready. The caller takes it over by Next.
func (q *Queue) Purge() *Purged {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used = q.clock()
	return q.purge()
}

func (q *Queue) purge() *Purged {
	p := &Purged{levels: q.levels, left: q.ready, budget: q.budget}
	q.levels = make([]*backlog, len(p.levels))
	q.ready, q.bytes = 0, 0
	q.alarm.set(q)
	return p
}

// Len returns how many messages are left.
func (p *Purged) Len() int { return p.left }

// purgeAtOnce is how many messages Next returns at most.
const purgeAtOnce = 1024

// Next returns some messages, none at the end. The slice is used again.
func (p *Purged) Next() []*Message {
	p.lot = p.lot[:0]
	for i := len(p.levels) - 1; i >= 0; i-- {
		for l := p.levels[i]; l.len() > 0; {
			if len(p.lot) == purgeAtOnce {
				return p.lot
			}
			it := l.pop()
			p.left--
			p.budget.release(it.Message)
			p.lot = append(p.lot, it.Message)
		}
	}
	return p.lot
}

// Delete ends the queue if the conditions hold, and returns how many messages were ready and the consumers that it had.
func (q *Queue) Delete(ifUnused, ifEmpty bool) (messages int, consumers []*Consumer, ok bool) {
	purged, consumers, ok := q.end(ifUnused, ifEmpty)
	if !ok {
		return 0, nil, false
	}
	messages = purged.Len()
	for len(purged.Next()) > 0 {
		continue
	}
	return messages, consumers, true
}

func (q *Queue) end(ifUnused, ifEmpty bool) (purged *Purged, consumers []*Consumer, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ifUnused && len(q.consumers) > 0 || ifEmpty && q.ready > 0 {
		return nil, nil, false
	}
	q.deleted = true
	purged = q.purge()
	consumers = q.consumers
	for _, c := range consumers {
		c.standing = gone
	}
	q.consumers, q.active, q.round = nil, nil, round{}
	q.alarm.stop()
	return purged, consumers, true
}

// Stop ends the queue's timer.
func (q *Queue) Stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.deleted = true
	q.alarm.stop()
}

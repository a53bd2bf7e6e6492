package queue

import "github.com/rehop/rehop/broker/internal/store"

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
// came back before, or behind all others if the consumer has asked for it and no limit ends its asking. A quorum queue may delay them first.
// failed: their deliveries count as failures.
func (q *Queue) Return(items []Item, asked, failed bool) Effects {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range items {
		if !q.takeBack(it) {
			continue
		}
		delay := q.settings.Retry.Delay(it, failed)
		it.Redelivered, it.brought = true, false
		it = q.rules.returned(it, failed)
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
			switch {
			case delay > 0:
				q.delay(it, delay)
			case limit < 0 && asked && !q.rules.ReturnsFirst:
				q.arrivals++
				it.place = q.arrivals
				q.put(it)
			default:
				q.giveBackFirst(it)
				q.bytes += q.Weight(it.Message)
			}
			continue
		}
		q.backlogOf(q.level(it.Message)).giveBack(it)
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
	q.promote()
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
	fx.Dead = q.hasDeadLetters()
	return it, content, q.ready, fx
}

// Purged is what was taken out of a queue at once. It keeps the places that it had in the queue, which are given up one after the other: to purge a
// million messages takes no second million of places, and no lock for longer than a moment.
type Purged struct {
	levels  []*backlog
	delayed delayedItems
	left    int
	budget  *Budget
	lot     []*Message
}

// Purge takes out what is ready or delayed. The caller takes it over by Next.
func (q *Queue) Purge() *Purged {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used = q.clock()
	return q.purge()
}

func (q *Queue) purge() *Purged {
	p := &Purged{levels: q.levels, delayed: q.delayed, left: q.ready + len(q.delayed), budget: q.budget}
	q.levels = make([]*backlog, len(p.levels))
	q.delayed = nil
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
			p.take(l.pop())
		}
	}
	for ; len(p.delayed) > 0 && len(p.lot) < purgeAtOnce; p.delayed = p.delayed[1:] {
		p.take(p.delayed[0].Item)
	}
	return p.lot
}

func (p *Purged) take(it Item) {
	p.left--
	p.budget.release(it.Message)
	p.lot = append(p.lot, it.Message)
}

// Delete ends the queue if the conditions hold, and returns how many messages were ready and the consumers that it had.
func (q *Queue) Delete(ifUnused, ifEmpty bool) (messages int, consumers []*Consumer, ok bool) {
	purged, messages, consumers, ok := q.end(ifUnused, ifEmpty)
	if !ok {
		return 0, nil, false
	}
	for len(purged.Next()) > 0 {
		continue
	}
	return messages, consumers, true
}

func (q *Queue) end(ifUnused, ifEmpty bool) (purged *Purged, ready int, consumers []*Consumer, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ifUnused && len(q.consumers) > 0 || ifEmpty && q.ready > 0 {
		return nil, 0, nil, false
	}
	q.deleted = true
	ready = q.ready
	purged = q.purge()
	consumers = q.consumers
	for _, c := range consumers {
		c.standing = gone
	}
	q.consumers, q.active, q.round = nil, nil, round{}
	q.alarm.stop()
	return purged, ready, consumers, true
}

// Stop ends the queue's timer.
func (q *Queue) Stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.deleted = true
	q.alarm.stop()
}

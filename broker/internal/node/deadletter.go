package node

import (
	"errors"
	"hash/maphash"
	"slices"
	"time"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// deadLetterAll moves the dead letters of a queue to their targets, and then those of queues that overflow because of that.
func (n *Node) deadLetterAll(q *Queue) {
	work := []*Queue{q}
	for len(work) > 0 {
		q, work = work[0], work[1:]
		for {
			lot := q.Core.TakeDead(false)
			for len(lot) > 0 {
				n.countDeadLetters(q, lot)
				work = append(work, n.moveUp(q)...)
				dying, left := n.deadLetter(q, lot, obstacle{})
				for _, l := range left {
					n.keepWaiting(q, l)
				}
				work = append(work, dying...)
				lot = q.Core.TakeDead(true)
			}
			if !n.settleAndLoad(q, q.Core.Pump()) {
				break
			}
		}
	}
}

// arrival is a message that is about to enter a queue.
type arrival struct {
	queue   *Queue
	message *queue.Message
}

// noTTL is the TTL of messages without one of their own.
const noTTL = time.Duration(-1)

// lettersAtOnce is about how many bytes of dead letters are moved in one step of the log.
const lettersAtOnce = 1 << 20

// deadLetter publishes dead letters to their targets and removes them from their queue, each in one step of the log. It
// returns the queues that have dead letters because of that, and the letters that their queue has to keep because not
// all target queues accept them. Letters that have waited for turn go before others that wait for it.
func (n *Node) deadLetter(q *Queue, letters []queue.Death, turn obstacle) (dying []*Queue, left []waitingDeadLetter) {
	settings := q.Core.Settings()
	keeps := settings.KeepsDeadLetters(q.Core.Type)
	missing := make(map[obstacle]bool) // what some of these letters wait for
	waits := func(o obstacle) bool { return keeps && (missing[o] || o != turn && q.waiting.waits(o)) }
	for len(letters) > 0 {
		n.steps.Add(1)
		b := n.Batch()
		var arrivals []arrival
		var removed []queue.Death
		for len(letters) > 0 && b.Size() < lettersAtOnce {
			l := letters[0]
			if settings.HasDeadLetter {
				version := q.Vhost.Version.Load()
				more, missed, err := n.deadLetterOne(q, settings, l, b, arrivals, waits)
				if err == errQueueBusy {
					break
				}
				if err != nil {
					letters = letters[1:]
					n.Log.Error("a dead letter cannot be read; it stays in the log", "queue", q.Name, "vhost", q.Vhost.Name, "error", err)
					removed = append(removed, q.logDeath(l, b, nil))
					continue
				}
				arrivals = append(arrivals, more...)
				if keeps && missed != nil {
					letters = letters[1:]
					missing[*missed] = true
					left = append(left, waitingDeadLetter{q.logDeath(l, b, more), *missed, version})
					continue
				}
				if keeps {
					n.Counters.deadLettersMoved.Add(1)
				}
			}
			letters = letters[1:]
			b.Settle(&l.Item.Message.Message, q.Core.ID)
			removed = append(removed, l)
		}
		n.Commit(b)
		n.logFailures(arrivals)
		n.Throttle()
		for _, a := range arrivals {
			if n.settleAndLoad(a.queue, a.queue.Core.Push(a.message, noTTL)) {
				dying = append(dying, a.queue)
			}
		}
		q.Core.DeadLettersDone(removed)
	}
	return dying, left
}

// errQueueBusy: a queue that refuses messages when it is full is about to get one already. So it is unknown whether it
// accepts another.
var errQueueBusy = errors.New("a queue is about to get a message")

// deadLetterOne prepares one dead letter. If not all target queues accept it, missed is the first obstacle. Others are
// about to arrive. The letter does not overtake those that wait for room.
func (n *Node) deadLetterOne(q *Queue, s queue.Settings, d queue.Death, b *store.Batch, others []arrival, waits func(obstacle) bool) (arrivals []arrival, missed *obstacle, err error) {
	v := q.Vhost
	x := v.Exchange(s.DeadLetter)
	if x == nil {
		return nil, &obstacle{route: routeHash(s.DeadLetter, nil, nil, true)}, nil
	}
	message := d.Item.Message
	content := message.Content()
	if content == nil {
		c, err := n.Store.Read(&message.Message)
		if err != nil {
			return nil, nil, err
		}
		content = &c
	}
	properties, err := wire.ParseProperties(content.Properties)
	if err != nil {
		return nil, nil, err
	}
	compat := n.Config.Compat
	keys, blind := deadKeys(content, properties.Headers)
	key := content.Key
	entry := death{queue: q.Name, reason: d.Reason, exchange: content.Exchange, keys: keys, expiration: properties.Expiration, time: time.Now()}
	headers := properties.Headers
	hidden := len(blind) > 0 || ignoresCC(content, headers)
	if s.HasDeadLetterKey {
		key, keys, blind, hidden = s.DeadLetterKey, []string{s.DeadLetterKey}, nil, false
		headers = headers.Without("BCC")
		if _, copied := headers.Get("CC"); compat.dropsCC() {
			headers = headers.Without("CC")
		} else if copied {
			headers, hidden = headers.With("BCC", wire.Array{}), true
		}
	}
	headers, deaths := addDeath(compat, headers, hasOurDeaths(content.Properties), entry)
	properties.Headers = headers
	properties.Has |= wire.HasHeaders
	properties.Expiration = ""
	properties.Has &^= wire.HasExpiration

	keys = append(keys, blind...)
	queues, plain := v.Route(x, keys, func() wire.Table { return headers })
	routed := len(queues)
	if d.Reason != queue.Rejected {
		queues = slices.DeleteFunc(queues, func(target *Queue) bool { return isCycle(deaths, target.Name) })
	}
	cyclic := len(queues) < routed
	queues = slices.DeleteFunc(queues, func(target *Queue) bool { return slices.Contains(d.Copied, target.Core.ID) })
	for _, target := range queues {
		if target.Core.Bounded() && slices.ContainsFunc(others, func(a arrival) bool { return a.queue == target }) {
			return nil, nil, errQueueBusy
		}
	}
	queues = slices.DeleteFunc(queues, func(target *Queue) bool {
		room := roomIn(target, len(content.Body))
		admits := target.Core.Admits(len(content.Body)) && !waits(room)
		if !admits && missed == nil {
			missed = &room
		}
		return !admits
	})
	if len(queues) == 0 {
		if missed == nil && len(d.Copied) == 0 {
			missed = &obstacle{route: routeHash(x.Name, keys, content.Properties, plain)}
			if cyclic { // its route also depends on the queues that this message was in
				missed.route = maphash.Comparable(seed, message)
			}
		}
		return nil, missed, nil
	}
	raw := properties.Append(nil)
	if len(raw) == 0 { // the headers are too large; a message without its deaths is better than none
		raw = WithoutFlags(content.Properties)
	} else {
		raw = SetFlag(raw, DeathFlag)
	}
	if hidden {
		raw = SetFlag(raw, BlindFlag)
	}
	next := &store.Content{Exchange: x.Name, Key: key, Properties: raw, Body: content.Body}
	m := n.enqueue(b, next, wire.Brief{DeliveryMode: properties.DeliveryMode, Priority: properties.Priority, HasPriority: properties.Has&wire.HasPriority != 0 || properties.Priority > 0}, queues, noTTL)
	m.Failures = d.Item.Failures
	for _, target := range queues {
		arrivals = append(arrivals, arrival{target, m})
	}
	return arrivals, missed, nil
}

// deadKeys are the keys that a message was last routed by: its own and those in CC, and those in BCC.
func deadKeys(c *store.Content, headers wire.Table) (keys, blind []string) {
	if ignoresCC(c, headers) {
		return []string{c.Key}, nil
	}
	return append([]string{c.Key}, KeyList(headers, "CC")...), KeyList(headers, "BCC")
}

// ignoresCC reports whether a message was routed only by its own key although it has a CC header, because a queue had a
// dead-letter routing key. An empty BCC header, which clients do not see, stands for that.
func ignoresCC(c *store.Content, headers wire.Table) bool {
	v, _ := headers.Get("BCC")
	list, isList := v.(wire.Array)
	return isList && len(list) == 0 && hasOurDeaths(c.Properties)
}

// logFailures logs the failures that dead letters bring along, which count for a delivery limit.
func (n *Node) logFailures(arrivals []arrival) {
	brings := func(a arrival) bool { return a.message.Failures > 0 && a.queue.kept() }
	if n.Config.Compat < RabbitMQ43 || !slices.ContainsFunc(arrivals, brings) {
		return
	}
	b := n.Batch()
	for _, a := range arrivals {
		if m := a.message; brings(a) {
			b.Count(&m.Message, a.queue.Core.ID, n.Config.Compat.logged(queue.Item{Failures: m.Failures}, false))
		}
	}
	n.Commit(b)
}

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

// deadLetterAll moves the dead letters of a queue to where they belong, and those that die on the way after them.
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

// arrival is a message on its way into a queue.
type arrival struct {
	queue   *Queue
	message *queue.Message
}

// noTTL is the time to live of messages that have none of their own.
const noTTL = time.Duration(-1)

// lettersAtOnce is about how many bytes of dead letters are moved in one step of the log.
const lettersAtOnce = 1 << 20

// deadLetter publishes dead letters again and takes them out of their queue, each letter in one step of the log. It returns the
// queues in which messages have died by that, and the letters that their queue has to keep because not all queues that they are for take them.
// Those that have waited for turn are tried before others that wait for it.
func (n *Node) deadLetter(q *Queue, lot []queue.Death, turn obstacle) (dying []*Queue, left []waitingDeadLetter) {
	settings := q.Core.Settings()
	keeps := settings.KeepsDeadLetters(q.Core.Type)
	var missing map[obstacle]bool // what some of this lot wait for
	waits := func(o obstacle) bool { return keeps && (missing[o] || o != turn && q.waiting.waits(o)) }
	for len(lot) > 0 {
		n.steps.Add(1)
		b := n.Batch()
		var arrivals []arrival
		var buried []queue.Death
		for len(lot) > 0 && b.Size() < lettersAtOnce {
			l := lot[0]
			if settings.HasDeadLetter {
				version := q.Vhost.Version.Load()
				more, missed, err := n.deadLetterOne(q, settings, l, b, arrivals, waits)
				if err == errQueueBusy {
					break
				}
				if err != nil {
					lot = lot[1:]
					n.Log.Error("a dead letter cannot be read; it is left in the log", "queue", q.Name, "vhost", q.Vhost.Name, "error", err)
					buried = append(buried, q.logDeath(l, b, nil))
					continue
				}
				arrivals = append(arrivals, more...)
				if keeps && missed != nil {
					lot = lot[1:]
					if missing == nil {
						missing = make(map[obstacle]bool)
					}
					missing[*missed] = true
					left = append(left, waitingDeadLetter{q.logDeath(l, b, more), *missed, version})
					continue
				}
				if keeps {
					n.Counters.deadLettersMoved.Add(1)
				}
			}
			lot = lot[1:]
			b.Settle(&l.Item.Message.Message, q.Core.ID)
			buried = append(buried, l)
		}
		n.Commit(b)
		n.logFailures(arrivals)
		n.Throttle()
		for _, a := range arrivals {
			if n.settleAndLoad(a.queue, a.queue.Core.Push(a.message, noTTL)) {
				dying = append(dying, a.queue)
			}
		}
		q.Core.DeadLettersDone(buried)
	}
	return dying, left
}

// errQueueBusy: a queue that refuses messages when it is full is about to get one already, so that nobody can tell yet whether it takes another.
var errQueueBusy = errors.New("a queue is about to get a message")

// deadLetterOne prepares one dead letter. If not all queues that it is for take it, missed is what stands in the way. Others are about to arrive. It
// does not overtake those that wait for room.
func (n *Node) deadLetterOne(q *Queue, s queue.Settings, d queue.Death, b *store.Batch, others []arrival, waits func(obstacle) bool) (arrivals []arrival, missed *obstacle, err error) {
	v := q.Vhost
	x := v.Exchange(s.DeadLetter)
	if x == nil {
		return nil, &obstacle{way: routeHash(s.DeadLetter, nil, nil, true)}, nil
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
	obituary := death{queue: q.Name, reason: d.Reason, exchange: content.Exchange, keys: keys, expiration: properties.Expiration, time: time.Now()}
	headers := properties.Headers
	hidden := len(blind) > 0 || holdsNoMore(content, headers)
	if s.HasDeadLetterKey {
		key, keys, blind, hidden = s.DeadLetterKey, []string{s.DeadLetterKey}, nil, false
		headers = headers.Without("BCC")
		if _, copied := headers.Get("CC"); compat.forgetsCopies() {
			headers = headers.Without("CC")
		} else if copied {
			headers, hidden = headers.With("BCC", wire.Array{}), true
		}
	}
	headers, deaths := noteDeath(compat, headers, hasOurDeaths(content.Properties), obituary)
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
			missed = &obstacle{way: routeHash(x.Name, keys, content.Properties, plain)}
			if cyclic { // where it has been decides, too, which is its own affair
				missed.way = maphash.Comparable(seed, message)
			}
		}
		return nil, missed, nil
	}
	raw := properties.Append(nil)
	if len(raw) == 0 { // there is no room for so many headers; a message without its deaths is better than none
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

// deadKeys are the keys that a message was routed by last: its own with those in CC, and those in BCC.
func deadKeys(c *store.Content, headers wire.Table) (keys, blind []string) {
	if holdsNoMore(c, headers) {
		return []string{c.Key}, nil
	}
	return append([]string{c.Key}, KeyList(headers, "CC")...), KeyList(headers, "BCC")
}

// holdsNoMore reports whether a message was routed by its own key alone though it has a CC header: a queue has had a key for dead letters. An
// empty BCC header stands for that, which clients do not see.
func holdsNoMore(c *store.Content, headers wire.Table) bool {
	v, ok := headers.Get("BCC")
	list, isList := v.(wire.Array)
	return ok && isList && len(list) == 0 && hasOurDeaths(c.Properties)
}

// logFailures notes what dead letters take along, where that uses up a delivery limit.
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

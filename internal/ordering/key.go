package ordering

import (
	"container/heap"
	"slices"
	"time"
)

// farAhead is how long a key's first message waits at least before those that follow are moved to the
// held queue. For a shorter wait they stay unacked.
const farAhead = 2 * time.Second

const (
	// slowAfter is how long a handler runs at least before the messages behind its own are moved to the held queue.
	slowAfter = time.Second
	// slowEach is how long each handler of a key takes at least if messages are moved because there are many. Moving them
	// would hold up faster ones.
	slowEach = 50 * time.Millisecond
	// manyAhead is how many messages of a key must be in the held queue at least before others are moved behind one that
	// need not wait. With few, a handler could wait for the broker.
	manyAhead = 8
)

// key is what is known of the messages of one key.
type key struct {
	name    string
	held    []*Message  // in the held queue, by number
	lane    []*Message  // in the main queue, in its order
	space   [1]*Message // for lane: most keys have one message at a time
	running *Message
	since   time.Time     // when it began
	took    time.Duration // how long the one before ran
	ended   *ended        // what has become of it, while its copy is under way
	moving  *Move         // of the message that ran last: nothing of the key runs until it is over
	follows *Move         // of the message that follows those in the held queue
	queued  bool          // among the runnable
	parked  bool          // among those that wait for room in the held queue
	due     time.Time
	index   int // among the timers, -1 if it has none
}

func (o *Owner) key(name string) *key {
	k := o.keys[name]
	if k == nil {
		k = &key{name: name, index: -1}
		k.lane = k.space[:0]
		o.keys[name] = k
	}
	return k
}

// moves are the messages of the key that are on their way to another queue.
func (k *key) moves() []*Move {
	moves := make([]*Move, 0, 2)
	for _, mv := range []*Move{k.moving, k.follows} {
		if mv != nil {
			moves = append(moves, mv)
		}
	}
	return moves
}

// head is the message of the key that runs next. Nil: none, or the key is blocked.
func (k *key) head() *Message {
	switch {
	case len(k.held) > 0 && k.held[0].Kind == Block && !k.held[0].skip:
		return k.replay(k.held[0])
	case len(k.held) > 0:
		return k.held[0]
	case len(k.lane) > 0 && k.follows == nil:
		return k.lane[0]
	}
	return nil
}

// replay is the message that lifts a block, if it is here.
func (k *key) replay(block *Message) *Message {
	for _, m := range k.lane {
		if m.replays(block) {
			return m
		}
	}
	return nil
}

// blocked reports whether the key waits for an operator.
func (k *key) blocked() bool { return len(k.held) > 0 && k.held[0].Kind == Block && !k.held[0].skip }

// remove takes a message out of the key.
func (o *Owner) remove(k *key, m *Message) {
	if m.from == Held {
		k.held = slices.DeleteFunc(k.held, func(h *Message) bool { return h == m })
		o.held--
		o.copies.remove(m)
		if !o.fresh && m.Session != o.opt.Session {
			o.past.add(m)
		}
	} else {
		k.lane = slices.DeleteFunc(k.lane, func(l *Message) bool { return l == m })
	}
}

// insert adds a message of the held queue to its key, at the place of its number. If there is one with the same number
// and id, the newer one stays, and the other one is acked together with it. The number alone does not identify a message: a
// replay has that of its copy in the failed queue, which may be of another time.
func (o *Owner) insert(k *key, m *Message) {
	at := len(k.held)
	for i, h := range k.held {
		if h.Seq == m.Seq && h.ID == m.ID && m.ID != "" {
			if m.newer(h) && k.running != h {
				m.also = append(m.also, h)
				k.held[i] = m
				o.copies.remove(h)
				o.copies.add(m)
			} else {
				h.also = append(h.also, m)
			}
			return
		}
		if at == len(k.held) && (h.Seq > m.Seq || h.Seq == m.Seq && h.ID > m.ID) {
			at = i
		}
	}
	k.held = slices.Insert(k.held, at, m)
	o.held++
	o.copies.add(m)
}

// advance looks what can be done for a key: run its first message, wait for it, or move the next one
// behind it.
func (o *Owner) advance(k *key) {
	if o.phase != owning {
		return
	}
	o.unset(k)
	if k.running == nil && k.moving == nil {
		switch m := k.head(); {
		case m == nil:
		case m.Due.After(o.now) && !m.skip:
			k.due = m.Due
			heap.Push(&o.timers, k)
		case k.queued, k.parked && !o.mayBegin(k, m):
		default:
			k.queued = true
			o.runnable.add(k)
		}
	}
	if o.diverts(k) {
		m := k.lane[0]
		o.seq++
		copied := *m
		copied.Seq = o.seq
		k.follows = o.toHeld(k, m, copied)
		if m == k.running {
			k.follows.runs = true
		} else {
			k.lane = k.lane[1:]
		}
	}
	if len(k.held) == 0 && len(k.lane) == 0 && k.running == nil && k.moving == nil && k.follows == nil && !k.queued && !k.parked {
		delete(o.keys, k.name)
	}
}

// diverts reports whether the next message of the main queue is to be moved to the held queue, behind those that the key
// has there, or because it is due later itself: one at a time, so that none overtakes another. One that runs is moved if
// others of its key fill the window behind it.
func (o *Owner) diverts(k *key) bool {
	if len(k.lane) == 0 || k.moving != nil || k.follows != nil || o.full() {
		return false
	}
	next := k.lane[0]
	switch {
	case next.stays:
		return false
	case len(k.held) == 0 && next == k.running: // those that follow it can be moved only behind its copy
		return len(k.lane) > 1 && o.unacked >= o.opt.Window && o.slow(k)
	case len(k.held) == 0:
		return o.waitsLong(next) && (o.pause == nil || o.pause.of != k)
	case k.blocked():
		return next != k.running && !next.replays(k.held[0])
	}
	return next != k.running && (o.waitsLong(k.held[0]) || o.crowded() && (len(k.held) > manyAhead || o.slow(k)))
}

// slow reports whether the handler of a key's message runs for long, or those of the messages behind it will, while
// workers have nothing to do.
func (o *Owner) slow(k *key) bool {
	if k.running == nil || o.runnable.len() > 0 || o.running >= o.opt.Workers || o.trial != nil || o.pause != nil {
		return false
	}
	return o.since(k.since) >= slowAfter || k.took >= slowEach && k.took*time.Duration(len(k.lane)) >= farAhead
}

// waitsLong reports whether a message is due so late that those behind it, or it itself, should not stay unacked.
func (o *Owner) waitsLong(m *Message) bool {
	return m.Due.After(o.now.Add(farAhead)) || m.Due.After(o.now) && o.crowded()
}

// full reports whether the held queue has no room for messages that follow others.
func (o *Owner) full() bool { return o.held+o.coming >= o.opt.MaxHeld }

// maxCopies is how many messages the held queue has at most. An owner has all of them delivered, of 65,535 that AMQP
// allows.
const maxCopies = 60_000

// room reports whether the held queue has room for another message if all that run fail.
func (o *Owner) room() bool {
	return o.held+o.coming+o.reserved < min(o.opt.MaxHeld+o.opt.Window, maxCopies)
}

// mayBegin reports whether there is room in the held queue for a message if it fails. So its attempts are not
// forgotten when the session ends. One that comes from there, or lifts a Block, has its place already.
func (o *Owner) mayBegin(k *key, m *Message) bool {
	return m.from == Held || k.blocked() || o.room()
}

// crowded reports whether the window may fill up.
func (o *Owner) crowded() bool { return o.unacked >= o.opt.Window/2 }

// unset removes a key from the timers.
func (o *Owner) unset(k *key) {
	if k.index >= 0 {
		heap.Remove(&o.timers, k.index)
	}
}

// timers are the keys that wait, the first one first.
type timers []*key

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].due.Before(t[j].due) }
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}

// Push is for package heap.
func (t *timers) Push(x any) {
	k := x.(*key)
	k.index = len(*t)
	*t = append(*t, k)
}

// Pop is for package heap.
func (t *timers) Pop() any {
	last := len(*t) - 1
	k := (*t)[last]
	k.index = -1
	*t = (*t)[:last]
	return k
}

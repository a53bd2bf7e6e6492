package queue

import "github.com/rehop/rehop/internal/node/store"

// Sink takes deliveries to a consumer. It is called with the queue locked, and must not call the queue.
type Sink interface {
	// Deliver hands over an item and its content. False: the consumer has no room. The sink then calls Resume
	// when it has.
	Deliver(Item, *store.Content) bool
}

// Consumer is somebody who takes messages from a queue.
type Consumer struct {
	Sink
	Tag       string
	NoAck     bool
	Exclusive bool
	Priority  int

	standing   standing
	prev, next *Consumer // in the ring of its priority
}

// standing is how a consumer takes part in the round.
type standing int

const (
	gone standing = iota
	ready
	parked // has no room
)

// round hands out turns: among the consumers with room, those of the highest priority take turns.
type round struct {
	levels []*level // by falling priority
}

type level struct {
	priority int
	turn     *Consumer // whose turn it is, in a ring
}

// join lets a consumer take part, after all others of its priority.
func (r *round) join(c *Consumer) {
	l := r.level(c.Priority)
	if l.turn == nil {
		c.prev, c.next = c, c
		l.turn = c
		return
	}
	c.prev, c.next = l.turn.prev, l.turn
	c.prev.next, c.next.prev = c, c
}

func (r *round) leave(c *Consumer) {
	l := r.level(c.Priority)
	switch {
	case c.next == c:
		l.turn = nil
	default:
		c.prev.next, c.next.prev = c.next, c.prev
		if l.turn == c {
			l.turn = c.next
		}
	}
	c.prev, c.next = nil, nil
}

func (r *round) level(priority int) *level {
	at := 0
	for at < len(r.levels) && r.levels[at].priority > priority {
		at++
	}
	if at == len(r.levels) || r.levels[at].priority != priority {
		r.levels = append(r.levels, nil)
		copy(r.levels[at+1:], r.levels[at:])
		r.levels[at] = &level{priority: priority}
	}
	return r.levels[at]
}

// next returns whose turn it is, or nil if nobody has room.
func (r *round) next() *Consumer {
	for _, l := range r.levels {
		if l.turn != nil {
			return l.turn
		}
	}
	return nil
}

// served passes the turn on.
func (r *round) served(c *Consumer) { r.level(c.Priority).turn = c.next }

package queue

import (
	"cmp"
	"slices"

	"github.com/rehop/rehop/broker/internal/store"
)

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
	levels []level // by falling priority, each with somebody
}

type level struct {
	priority int
	turn     *Consumer // whose turn it is, in a ring
}

// join lets a consumer take part, after all others of its priority.
func (r *round) join(c *Consumer) {
	at, there := r.find(c.Priority)
	if !there {
		c.prev, c.next = c, c
		r.levels = slices.Insert(r.levels, at, level{c.Priority, c})
		return
	}
	c.next = r.levels[at].turn
	c.prev = c.next.prev
	c.prev.next, c.next.prev = c, c
}

func (r *round) leave(c *Consumer) {
	at, _ := r.find(c.Priority)
	if c.next == c {
		r.levels = slices.Delete(r.levels, at, at+1)
	} else {
		c.prev.next, c.next.prev = c.next, c.prev
		if r.levels[at].turn == c {
			r.levels[at].turn = c.next
		}
	}
	c.prev, c.next = nil, nil
}

// find returns where the level of a priority is, or where it belongs.
func (r *round) find(priority int) (at int, there bool) {
	return slices.BinarySearchFunc(r.levels, priority, func(l level, priority int) int { return cmp.Compare(priority, l.priority) })
}

// next returns whose turn it is, or nil if nobody has room.
func (r *round) next() *Consumer {
	if len(r.levels) == 0 {
		return nil
	}
	return r.levels[0].turn
}

// served passes the turn on.
func (r *round) served() { r.levels[0].turn = r.levels[0].turn.next }

package queue

import (
	"cmp"
	"slices"

	"github.com/rehop/rehop/broker/internal/store"
)

// Sink receives the deliveries to a consumer. It is called with the queue locked, and must not call the
// queue.
type Sink interface {
	// Deliver delivers an item and its content. It returns false if the consumer has no room. The sink
	// then calls Resume as soon as it has.
	Deliver(Item, *store.Content) bool
}

// Consumer is a consumer of a queue.
type Consumer struct {
	Sink
	Tag       string
	NoAck     bool
	Exclusive bool
	Priority  int
	Prefetch  int // 0: without limit

	state      consumerState
	prev, next *Consumer // in the ring of its priority
}

type consumerState int

const (
	removed consumerState = iota
	ready
	full // has no room
)

// roundRobin chooses the consumer for the next message: among the consumers with room, those of the
// highest priority take turns.
type roundRobin struct {
	levels []level // by falling priority; none is empty
}

type level struct {
	priority int
	turn     *Consumer // the next one, in a ring
}

// add adds a consumer after all others of its priority.
func (r *roundRobin) add(c *Consumer) {
	at, exists := r.find(c.Priority)
	if !exists {
		c.prev, c.next = c, c
		r.levels = slices.Insert(r.levels, at, level{c.Priority, c})
		return
	}
	c.next = r.levels[at].turn
	c.prev = c.next.prev
	c.prev.next, c.next.prev = c, c
}

func (r *roundRobin) remove(c *Consumer) {
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

// find returns the position of the level of a priority, or where to insert it.
func (r *roundRobin) find(priority int) (at int, exists bool) {
	return slices.BinarySearchFunc(r.levels, priority, func(l level, priority int) int { return cmp.Compare(priority, l.priority) })
}

// next returns the consumer whose turn it is, or nil if none has room.
func (r *roundRobin) next() *Consumer {
	if len(r.levels) == 0 {
		return nil
	}
	return r.levels[0].turn
}

// advance ends the turn of the consumer that next returned.
func (r *roundRobin) advance() { r.levels[0].turn = r.levels[0].turn.next }
